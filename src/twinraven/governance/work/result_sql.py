"""Stores envelopes as they were sent, attempts, results and decisions."""

from __future__ import annotations

from typing import Any, Final

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import NotFound
from twinraven.governance.model import JudgeDecision, Lineage, PolicyCheck, WorkerResult, WorkerRun
from twinraven.governance.states import WorkerRunStatus, check_transition
from twinraven.storage import Row, Transaction

_RUN: Final = (
    "tenant_id, worker_run_id, task_id, attempt_number, spec_version, status, run_id, envelope_id, worker, "
    "started_at, finished_at"
)
_RESULTS: Final = (
    "SELECT r.*, w.attempt_number, w.worker, t.campaign_id, t.goal_id FROM worker_results r "
    "JOIN worker_runs w ON w.tenant_id = r.tenant_id AND w.worker_run_id = r.worker_run_id "
    "JOIN tasks t ON t.tenant_id = r.tenant_id AND t.task_id = r.task_id WHERE r.tenant_id = :tenant"
)
_DECISIONS: Final = (
    "SELECT d.*, t.campaign_id, t.goal_id FROM judge_decisions d "
    "JOIN tasks t ON t.tenant_id = d.tenant_id AND t.task_id = d.task_id WHERE d.tenant_id = :tenant"
)
_LAST: Final = (
    "NOT EXISTS (SELECT 1 FROM judge_decisions n WHERE n.tenant_id = d.tenant_id "
    "AND n.result_id = d.result_id AND n.round > d.round)"
)


class ResultStore:
    """The tables of what workers and judges said; every statement names its tenant."""

    def add_envelope(self, tx: Transaction, row: dict[str, Any]) -> None:
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO envelopes ({columns}) VALUES ({marks})", **row)

    def envelope(self, tx: Transaction, tenant_id: str, envelope_id: str) -> Row | None:
        return tx.fetch_one(
            "SELECT * FROM envelopes WHERE tenant_id = :tenant AND envelope_id = :id", tenant=tenant_id, id=envelope_id
        )

    def envelope_of_key(self, tx: Transaction, tenant_id: str, kind: str, key: str) -> Row | None:
        """Return the envelope that was sent under this key."""
        return tx.fetch_one(
            "SELECT * FROM envelopes WHERE tenant_id = :tenant AND type = :type AND idempotency_key = :key",
            tenant=tenant_id,
            type=kind,
            key=key,
        )

    def add_run(self, tx: Transaction, row: dict[str, Any]) -> None:
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO worker_runs ({columns}) VALUES ({marks})", **row)

    def runs(self, tx: Transaction, tenant_id: str, task_id: str) -> list[WorkerRun]:
        """Return the attempts at a task, the first one first."""
        rows = tx.fetch_all(
            f"SELECT {_RUN} FROM worker_runs WHERE tenant_id = :tenant AND task_id = :task ORDER BY attempt_number",
            tenant=tenant_id,
            task=task_id,
        )
        return [_to_run(row) for row in rows]

    def attempt(self, tx: Transaction, tenant_id: str, task_id: str, number: int) -> WorkerRun | None:
        row = tx.fetch_one(
            f"SELECT {_RUN} FROM worker_runs "
            "WHERE tenant_id = :tenant AND task_id = :task AND attempt_number = :number",
            tenant=tenant_id,
            task=task_id,
            number=number,
        )
        return None if row is None else _to_run(row)

    def run_of(self, tx: Transaction, tenant_id: str, run_id: str) -> WorkerRun | None:
        """Return the attempt that a durable run is."""
        row = tx.fetch_one(
            f"SELECT {_RUN} FROM worker_runs WHERE tenant_id = :tenant AND run_id = :run", tenant=tenant_id, run=run_id
        )
        return None if row is None else _to_run(row)

    def moving(self, tx: Transaction, tenant_id: str, goal_id: str | None) -> set[str]:
        """Return the durable runs of attempts that are queued or under way."""
        found = tx.fetch_all(
            "SELECT w.run_id FROM worker_runs w JOIN tasks t ON t.tenant_id = w.tenant_id AND t.task_id = w.task_id "
            "WHERE w.tenant_id = :tenant AND w.run_id IS NOT NULL AND w.status IN ('queued', 'in_progress') "
            f"{'' if goal_id is None else 'AND t.goal_id = :goal'}",
            tenant=tenant_id,
            **({} if goal_id is None else {"goal": goal_id}),
        )
        return {row["run_id"] for row in found}

    def worker_run(self, tx: Transaction, tenant_id: str, worker_run_id: str) -> WorkerRun | None:
        """Return one attempt by its id."""
        row = tx.fetch_one(
            f"SELECT {_RUN} FROM worker_runs WHERE tenant_id = :tenant AND worker_run_id = :id",
            tenant=tenant_id,
            id=worker_run_id,
        )
        return None if row is None else _to_run(row)

    def move_run(self, tx: Transaction, run: WorkerRun, status: WorkerRunStatus, **values: Any) -> None:
        """Give an attempt another status, and what goes with it."""
        check_transition("worker run", run.worker_run_id, run.status, status)
        tx.execute(
            f"UPDATE worker_runs SET {''.join(f'{name} = :{name}, ' for name in values)}status = :status "
            "WHERE tenant_id = :tenant AND worker_run_id = :run",
            tenant=run.tenant_id,
            run=run.worker_run_id,
            status=status,
            **values,
        )

    def remove_queued(self, tx: Transaction, run: WorkerRun) -> None:
        """Forget an attempt that never began, so that its number is free for the one that will."""
        tx.execute(
            "DELETE FROM worker_runs WHERE tenant_id = :tenant AND worker_run_id = :run AND status = 'queued'",
            tenant=run.tenant_id,
            run=run.worker_run_id,
        )

    def has_asset(self, tx: Transaction, tenant_id: str, campaign_id: str, asset_id: str) -> bool:
        """Return whether a media asset of this campaign is there."""
        found = tx.fetch_one(
            "SELECT 1 AS found FROM media_assets WHERE tenant_id = :tenant AND campaign_id = :campaign "
            "AND asset_id = :asset",
            tenant=tenant_id,
            campaign=campaign_id,
            asset=asset_id,
        )
        return found is not None

    def add_result(self, tx: Transaction, row: dict[str, Any]) -> None:
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO worker_results ({columns}) VALUES ({marks})", **row)

    def result(self, tx: Transaction, tenant_id: str, result_id: str) -> WorkerResult:
        row = tx.fetch_one(f"{_RESULTS} AND r.result_id = :result", tenant=tenant_id, result=result_id)
        if row is None:
            raise NotFound(f"there is no result {result_id!r}", subject="result", subject_id=result_id)
        return _to_result(row)

    def results(self, tx: Transaction, tenant_id: str, task_id: str) -> list[WorkerResult]:
        """Return the results of a task, by attempt."""
        rows = tx.fetch_all(
            f"{_RESULTS} AND r.task_id = :task ORDER BY w.attempt_number", tenant=tenant_id, task=task_id
        )
        return [_to_result(row) for row in rows]

    def last_result(self, tx: Transaction, tenant_id: str, task_id: str) -> WorkerResult | None:
        row = tx.fetch_one(
            f"{_RESULTS} AND r.task_id = :task ORDER BY w.attempt_number DESC LIMIT 1", tenant=tenant_id, task=task_id
        )
        return None if row is None else _to_result(row)

    def add_decision(self, tx: Transaction, row: dict[str, Any]) -> None:
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO judge_decisions ({columns}) VALUES ({marks})", **row)

    def decision(self, tx: Transaction, tenant_id: str, decision_id: str) -> JudgeDecision:
        row = tx.fetch_one(f"{_DECISIONS} AND d.decision_id = :id", tenant=tenant_id, id=decision_id)
        if row is None:
            raise NotFound(f"there is no decision {decision_id!r}", subject="decision", subject_id=decision_id)
        return _to_decision(row)

    def decisions(self, tx: Transaction, tenant_id: str, task_id: str) -> list[JudgeDecision]:
        """Return all decisions about a task, the first one first."""
        rows = tx.fetch_all(
            f"{_DECISIONS} AND d.task_id = :task ORDER BY d.decided_at, d.round", tenant=tenant_id, task=task_id
        )
        return [_to_decision(row) for row in rows]

    def in_force(self, tx: Transaction, tenant_id: str, result_id: str) -> JudgeDecision | None:
        """Return the last decision about a result."""
        row = tx.fetch_one(
            f"{_DECISIONS} AND d.result_id = :result ORDER BY d.round DESC LIMIT 1", tenant=tenant_id, result=result_id
        )
        return None if row is None else _to_decision(row)

    def waiting(
        self, tx: Transaction, tenant_id: str, *, now: int, limit: int, decision_id: str | None = None
    ) -> list[JudgeDecision]:
        """Escalations in force that have not expired, of tasks that still wait for a person, the oldest first."""
        one = "" if decision_id is None else " AND d.decision_id = :id"
        given = {} if decision_id is None else {"id": decision_id}
        rows = tx.fetch_all(
            f"{_DECISIONS} AND t.status = 'escalated' AND d.decision = 'escalate' AND {_LAST} "
            f"AND (d.expires_at IS NULL OR d.expires_at > :now){one} ORDER BY d.decided_at, d.decision_id LIMIT :limit",
            tenant=tenant_id,
            now=now,
            limit=limit,
            **given,
        )
        return [_to_decision(row) for row in rows]

    def listing(
        self,
        tx: Transaction,
        tenant_id: str,
        *,
        limit: int,
        after: tuple[int, str] | None = None,
        verdict: str | None = None,
        is_in_force: bool = False,
    ) -> list[JudgeDecision]:
        """Decisions in the order in which they were made; `is_in_force` leaves out what a later one replaced."""
        where, given = "", dict[str, Any]()
        if verdict is not None:
            where, given = " AND d.decision = :verdict", {"verdict": verdict}
        if after is not None:
            where += " AND (d.decided_at, d.decision_id) > (:decided, :last)"
            given |= {"decided": after[0], "last": after[1]}
        if is_in_force:
            where += f" AND {_LAST}"
        sql = f"{_DECISIONS}{where} ORDER BY d.decided_at, d.decision_id LIMIT :limit"
        return [_to_decision(row) for row in tx.fetch_all(sql, tenant=tenant_id, limit=limit, **given)]


def stored(value: Any) -> str:
    """Return a JSON value as the text that both stores keep."""
    return canonical_json(value).decode()


def _moment(micros: int | None) -> Any:
    return None if micros is None else from_micros(micros)


def _to_run(row: Row) -> WorkerRun:
    times: Row = {name: _moment(row[name]) for name in ("started_at", "finished_at")}
    return WorkerRun(**row | times)


def _lineage(row: Row) -> Lineage:
    return Lineage(row["tenant_id"], row["campaign_id"], row["goal_id"], row["task_id"])


def _to_result(row: Row) -> WorkerResult:
    def read(name: str) -> Any:
        return parse_json(row[name], field=name)

    return WorkerResult(
        lineage=_lineage(row),
        result_id=row["result_id"],
        worker_run_id=row["worker_run_id"],
        attempt_number=row["attempt_number"],
        worker=row["worker"],
        status=row["status"],
        confidence_score=row["confidence_score"],
        risk_tags=tuple(read("risk_tags_json")),
        outputs=read("outputs_json"),
        evidence=tuple(read("evidence_json")),
        invocations=tuple(read("invocations_json")),
        error=None if row["error_json"] is None else read("error_json"),
        cost=row["cost"],
        envelope_id=row["envelope_id"],
        idempotency_key=row["idempotency_key"],
        created_at=from_micros(row["created_at"]),
    )


def read_check(body: dict[str, Any]) -> PolicyCheck:
    """Read a policy check from its JSON; what is unknown is kept."""
    known = ("check_id", "name", "result", "details", "mandatory")
    return PolicyCheck(
        check_id=body["check_id"],
        name=body["name"],
        result=body["result"],
        details=body.get("details") or "",
        mandatory=bool(body.get("mandatory", True)),
        extra={name: value for name, value in body.items() if name not in known},
    )


def _to_decision(row: Row) -> JudgeDecision:
    def read(name: str) -> Any:
        return parse_json(row[name], field=name)

    return JudgeDecision(
        lineage=_lineage(row),
        decision_id=row["decision_id"],
        result_id=row["result_id"],
        round=row["round"],
        decision=row["decision"],
        state_version_used=row["state_version_used"],
        reason_summary=row["reason_summary"],
        confidence_score=row["confidence_score"],
        risk_tags=tuple(read("risk_tags_json")),
        policy_checks=tuple(read_check(check) for check in read("policy_checks_json")),
        required_actions=tuple(read("required_actions_json")),
        override_reason=row["override_reason"],
        human_review_required=bool(row["human_review_required"]),
        human_reviewer_id=row["human_reviewer_id"],
        decided_by=row["decided_by"],
        decided_at=from_micros(row["decided_at"]),
        expires_at=_moment(row["expires_at"]),
        envelope_id=row["envelope_id"],
        idempotency_key=row["idempotency_key"],
    )
