"""Attempts tasks: the house's own worker by durable runs, workers outside by claims and worker.result envelopes.

An attempt has a number, and one result at most. Its result, the task's next status and, where the house judges, the
decision are one transaction: nothing of it is there without the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from twinraven.calls import Envelope
from twinraven.engine import RunEnd
from twinraven.foundation.actors import SYSTEM
from twinraven.foundation.canonical import JsonObject, canonical_json, parse_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PolicyViolation,
    StaleState,
)
from twinraven.governance.model import Task, WorkerRun
from twinraven.governance.work.check_subject import CheckSubject
from twinraven.governance.work.checks import Evaluation, PolicyChecks
from twinraven.governance.work.envelopes import MAX_ENVELOPE_BYTES, HoldsSecret, read_envelope, refuse_foreign
from twinraven.governance.work.moves import OWN_WORKER
from twinraven.governance.work.plan_sql import stale
from twinraven.governance.work.recording import AttemptSnapshot, ResultRecorder, attempt_cost, minor_of
from twinraven.governance.work.reports import report
from twinraven.governance.work.specs import spec_of
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

_MEDIA: Final = "media:"
_ROUNDS: Final = 8
Redact = Callable[[str, bytes], bytes]
Refresh = Callable[[str], Awaitable[None]]
"""Learns what a tenant's catalogue holds by now."""


class Attempts:
    """Begins attempts and takes their results; what the engine tells about runs with a lineage."""

    def __init__(
        self,
        database: Database,
        recorder: ResultRecorder,
        checks: PolicyChecks,
        *,
        judges: bool,
        redact: Redact,
        holds_secret: HoldsSecret,
        refresh: Refresh,
    ) -> None:
        """`judges` says whether the house judges results itself, or leaves that to judges outside."""
        self._database = database
        self._recorder = recorder
        self._moves = recorder.moves
        self._envelopes = recorder.envelopes
        self._checks = checks
        self._judges = judges
        self._redact = redact
        self._holds_secret = holds_secret
        self._refresh = refresh

    async def begin(self, tenant_id: str, run_id: str) -> None:
        """Begin the attempt that a durable run is; one that was begun goes on."""

        def work(tx: Transaction) -> None:
            run = self._moves.results.run_of(tx, tenant_id, run_id)
            if run is None or run.status not in ("queued", "in_progress"):
                raise Conflict(f"run {run_id!r} is an attempt that is over; the task goes on without it", run_id=run_id)
            if run.status == "queued":
                task = self._moves.plans.task(tx, tenant_id, run.task_id)
                self._recorder.refuse_limits(task, spec_of(task))
                self._recorder.start(tx, task, run, SYSTEM)

        await self._database.write(tenant_id, work)

    async def conclude(self, tenant_id: str, run_id: str, end: RunEnd) -> Callable[[Transaction], None]:
        """Judge what a run came to, and give what its last transaction writes."""
        await self._refresh(tenant_id)
        sight = await self._database.read(tenant_id, lambda tx: self._sight_of_run(tx, tenant_id, run_id))
        if sight is None or sight.run is None:
            return lambda _tx: None
        shown = await asyncio.to_thread(self._without_secrets, tenant_id, end)
        envelope = report(sight.task, sight.spec, sight.run, shown)
        if len(canonical_json(envelope.payload)) > MAX_ENVELOPE_BYTES:
            large = InvalidInput("the output is larger than a result may be; store it as a media asset and name it")
            envelope = report(
                sight.task, sight.spec, sight.run, end._replace(state="failed", output=None, error=large.as_record())
            )
        evaluation = await self._evaluate(sight, envelope)

        def work(tx: Transaction) -> None:
            self._recorder.record(tx, sight, envelope, evaluation, actor=SYSTEM)

        return work

    def cancelled(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        """End an attempt whose run was cancelled, without a result; the task is cancelled, too."""
        run = self._moves.results.run_of(tx, tenant_id, run_id)
        if run is None or run.status not in ("queued", "in_progress"):
            return
        task = self._moves.plans.task(tx, tenant_id, run.task_id)
        if run.status == "queued":
            self._moves.results.remove_queued(tx, run)
        else:
            self._moves.results.move_run(tx, run, "cancelled", finished_at=self._moves.micros())
        self._moves.move(tx, task, "failed")
        self._moves.refresh_goal(tx, task)

    async def claim(self, task_id: str, *, by: Principal, state_version: int | None = None) -> WorkerRun:
        """Begin an attempt for a worker outside; NotFound, IllegalTransition or Conflict where that cannot be."""

        def work(tx: Transaction) -> WorkerRun:
            task = self._moves.plans.task(tx, by.tenant_id, task_id)
            if state_version is not None and state_version != task.state_version:
                raise stale("task", task_id, state_version, task.state_version)
            return self._recorder.begin_outside(tx, task, spec_of(task), by)

        async with self._moves.witness.refusals("task.claim", ("task", task_id), by):
            return await self._database.write(by.tenant_id, work)

    async def required_actions(self, tenant_id: str, task_id: str) -> tuple[JsonObject, ...]:
        """Return the actions that a judge requires of the next attempts at a task that was sent back."""
        moves = self._moves
        return await self._database.read(
            tenant_id, lambda tx: moves.required_actions(tx, moves.plans.task(tx, tenant_id, task_id))
        )

    async def submit(self, body: Any, *, by: Principal) -> dict[str, Any]:
        """Take a worker.result envelope, judge it, and answer what was recorded; sent again, it answers the same."""
        envelope = await asyncio.to_thread(
            read_envelope, body, "worker.result", tenant_id=by.tenant_id, holds_secret=self._holds_secret
        )
        await self._refresh(by.tenant_id)
        async with self._moves.witness.refusals("result", ("task", str(envelope.task_id)), by):
            for _ in range(_ROUNDS - 1):
                with suppress(StaleState):
                    return await self._submit(envelope, by)
            return await self._submit(envelope, by)

    async def _submit(self, envelope: Envelope, by: Principal) -> dict[str, Any]:
        def look(tx: Transaction) -> dict[str, Any] | AttemptSnapshot:
            earlier = self._envelopes.earlier(tx, envelope)
            return self._sight(tx, envelope, by) if earlier is None else earlier

        found = await self._database.read(by.tenant_id, look)
        if not isinstance(found, AttemptSnapshot):
            return found
        evaluation = await self._evaluate(found, envelope)

        def work(tx: Transaction) -> dict[str, Any]:
            earlier = self._envelopes.earlier(tx, envelope)
            if earlier is not None:
                return earlier
            return self._recorder.record(tx, found, envelope, evaluation, actor=by.actor, by=by).as_json()

        answer = await self._database.write(by.tenant_id, work)
        self._moves.runs().announce()
        return answer

    def _sight_of_run(self, tx: Transaction, tenant_id: str, run_id: str) -> AttemptSnapshot | None:
        run = self._moves.results.run_of(tx, tenant_id, run_id)
        if run is None or run.status not in ("queued", "in_progress"):
            return None
        task = self._moves.plans.task(tx, tenant_id, run.task_id)
        campaign = self._moves.plans.campaign(tx, tenant_id, task.campaign_id)
        return AttemptSnapshot(task, spec_of(task), campaign, run)

    def _sight(self, tx: Transaction, envelope: Envelope, by: Principal) -> AttemptSnapshot:
        """Return what an envelope from outside is about; whatever it names must be so."""
        task = self._moves.plans.task(tx, by.tenant_id, str(envelope.task_id))
        refuse_foreign(envelope, task)
        number = envelope.payload["attempt_number"]
        run = self._moves.results.attempt(tx, by.tenant_id, task.task_id, number)
        if run is None and (number != task.attempts + 1 or task.status != "pending"):
            raise Conflict(
                f"task {task.task_id!r} is {task.status} after {task.attempts} attempts; {number} is not the next",
                task_id=task.task_id,
                attempts=task.attempts,
                status=task.status,
            )
        if run is not None:
            self._refuse_stranger(task, run, by)
        self._check_outputs(tx, task, envelope)
        campaign = self._moves.plans.campaign(tx, by.tenant_id, task.campaign_id)
        return AttemptSnapshot(task, spec_of(task), campaign, run)

    def _refuse_stranger(self, task: Task, run: WorkerRun, by: Principal) -> None:
        if run.status != "in_progress":
            raise Conflict(
                f"attempt {run.attempt_number} of task {task.task_id!r} is {run.status}",
                task_id=task.task_id,
                attempt_number=run.attempt_number,
            )
        if run.worker == OWN_WORKER or (run.worker != str(by.actor) and by.role != "admin"):
            raise PolicyViolation(
                f"attempt {run.attempt_number} of task {task.task_id!r} belongs to another worker",
                **task.lineage.as_json(),
                attempt_number=run.attempt_number,
            )

    def _check_outputs(self, tx: Transaction, task: Task, envelope: Envelope) -> None:
        payload = envelope.payload
        criteria: list[JsonObject] = task.spec_json.get("acceptance_criteria") or []
        known = {each["id"] for each in criteria}
        for number, each in enumerate(payload.get("acceptance_evidence") or []):
            if each["criterion_id"] not in known:
                field = f"payload.acceptance_evidence[{number}].criterion_id"
                raise NotFound(f"the task has no criterion {each['criterion_id']!r}", field=field)
        for number, artifact in enumerate(payload["outputs"].get("artifacts") or []):
            ref = artifact.get("content_ref") or ""
            asset_id = ref.removeprefix(_MEDIA)
            if ref.startswith(_MEDIA) and not self._moves.results.has_asset(
                tx, task.tenant_id, task.campaign_id, asset_id
            ):
                field = f"payload.outputs.artifacts[{number}].content_ref"
                raise NotFound(f"the campaign has no media asset {asset_id!r}", field=field)

    async def _evaluate(self, sight: AttemptSnapshot, envelope: Envelope) -> Evaluation | None:
        if envelope.status == "failed" or not self._judges:
            return None
        return await self._checks.evaluate(self._subject(sight, envelope))

    def _subject(self, sight: AttemptSnapshot, envelope: Envelope) -> CheckSubject:
        """Return what checks look at before a result is there."""
        payload, cost = envelope.payload, attempt_cost(sight.spec, envelope)
        return CheckSubject(
            task=sight.task,
            spec=sight.spec,
            campaign=sight.campaign,
            confidence=float(envelope.confidence_score or 0.0),
            risk_tags=envelope.risk_tags,
            outputs=payload["outputs"],
            evidence=tuple(payload.get("acceptance_evidence") or ()),
            cost=cost.total,
            spent=sight.task.spent + minor_of(cost),
            has_foreign_cost=cost.has_foreign,
            now=from_micros(self._moves.micros()),
        )

    def _without_secrets(self, tenant_id: str, end: RunEnd) -> RunEnd:
        def clean(value: Any) -> Any:
            return parse_json(self._redact(tenant_id, canonical_json(value)), field="value")

        return end._replace(output=clean(end.output), error=clean(end.error))
