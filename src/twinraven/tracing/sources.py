"""Finds the records that traces are made of, and the links between them, where each is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from twinraven.audit import AuditFilter, AuditLog, AuditRecord
from twinraven.calls import Approvals
from twinraven.effects import EFFECT_KINDS, EffectKind, EffectStore, StoredEffect
from twinraven.engine import Runs
from twinraven.foundation.clock import from_micros, iso
from twinraven.foundation.errors import NotFound
from twinraven.governance import JudgeDecision, PlanStore, ResultStore, format_minor
from twinraven.ledger import Ledger, LedgerTransfer
from twinraven.muninn import LinkedEvent, event_of, events_below, events_of_session, events_of_task
from twinraven.storage import Transaction
from twinraven.tracing.model import TraceKey, TraceNode

MOST_LINKS: Final = 200
"""How many records of one kind are followed from one record."""

Links = Iterator[tuple[TraceKey | TraceNode, str]]

_SUBJECTS: Final = (
    "tool", "upstream_tool", "wallet", "budget", "user", "api_key", "tenant", "secret", "service", "process",
    "media_asset", "merge_proposal", "audit_log", "events", "call",
)  # fmt: skip
"""Kinds that are known only from the audit entries about them."""


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


class WorkTraces:
    """Campaigns, goals, tasks, attempts, results and decisions."""

    kinds: Sequence[str] = ("task", "judge_decision", "worker_result", "worker_run", "goal", "campaign", "envelope")

    def __init__(self) -> None:
        self._plans = PlanStore()
        self._results = ResultStore()

    def load(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        try:
            return getattr(self, f"_load_{key.kind}")(tx, tenant_id, key)
        except NotFound:
            return None

    def identify(self, tx: Transaction, tenant_id: str, id: str) -> Iterable[TraceKey]:
        del tx, tenant_id, id
        return ()

    def before(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        facts, kind = node.facts, node.key.kind
        if kind == "goal":
            yield TraceKey("campaign", facts["campaign_id"]), "has the goal"
        elif kind == "task":
            yield TraceKey("goal", facts["goal_id"]), "was planned as"
        elif kind == "worker_run":
            yield TraceKey("task", facts["task_id"]), "was attempted as"
        elif kind == "worker_result":
            yield TraceKey("worker_run", facts["worker_run_id"]), "came to"
        elif kind == "judge_decision":
            yield TraceKey("worker_result", facts["result_id"]), "was judged"
            earlier = self._results.decisions(tx, tenant_id, facts["task_id"]) if facts["round"] > 1 else []
            for decision in earlier:
                if decision.result_id == facts["result_id"] and decision.round == facts["round"] - 1:
                    yield _decision_node(decision), "was decided anew as"

    def explains(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        """The durable run of an attempt, and the envelope of a result: how it was made and said."""
        del tx, tenant_id
        if node.key.kind == "worker_run" and node.facts["run_id"] is not None:
            yield TraceKey("run", node.facts["run_id"]), "was run as"
        elif node.key.kind == "worker_result":
            yield TraceKey("envelope", node.facts["envelope_id"]), "was said in"

    def after(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        follow = getattr(self, f"_after_{node.key.kind}", None)
        return iter(()) if follow is None else follow(tx, tenant_id, node)

    def _after_campaign(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        for goal in self._plans.listing(tx, "goal", tenant_id, limit=MOST_LINKS, campaign_id=node.key.id):
            yield TraceKey("goal", goal.goal_id), "has the goal"

    def _after_goal(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        for task_id in self._plans.task_ids(tx, tenant_id, node.key.id, limit=MOST_LINKS):
            yield TraceKey("task", task_id), "was planned as"

    def _after_task(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        for run in self._results.runs(tx, tenant_id, node.key.id):
            yield TraceKey("worker_run", run.worker_run_id), "was attempted as"
        for event in events_of_task(tx, tenant_id, node.key.id, limit=MOST_LINKS):
            yield _event_node(event), "called"

    def _after_worker_run(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        yield from self.explains(tx, tenant_id, node)
        for result in self._results.results(tx, tenant_id, node.facts["task_id"]):
            if result.worker_run_id == node.key.id:
                yield TraceKey("worker_result", result.result_id), "came to"

    def _after_worker_result(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        yield from self.explains(tx, tenant_id, node)
        for decision in self._results.decisions(tx, tenant_id, node.facts["task_id"]):
            if decision.result_id == node.key.id:
                yield _decision_node(decision), "was judged"

    def _after_judge_decision(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        for effect in EffectStore().of_task(tx, tenant_id, node.facts["task_id"]):
            if effect.decision_id == node.key.id:
                yield TraceKey(effect.subject, effect.effect_id), "allowed"

    def _load_campaign(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        found = self._plans.campaign(tx, tenant_id, key.id)
        return TraceNode(key, f"campaign {found.name}", iso(found.created_at), found.status, found.created_by)

    def _load_goal(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        found = self._plans.goal(tx, tenant_id, key.id)
        facts = {"campaign_id": found.campaign_id}
        title = f"goal: {found.description}"
        return TraceNode(key, title, iso(found.created_at), found.status, found.created_by, facts)

    def _load_task(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        found = self._plans.task(tx, tenant_id, key.id)
        facts = {"campaign_id": found.campaign_id, "goal_id": found.goal_id, "state_version": found.state_version}
        title = f"task: {found.spec_json.get('description', found.task_type)}"
        return TraceNode(key, title, iso(found.created_at), found.status, found.created_by, facts)

    def _load_worker_run(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        found = self._results.worker_run(tx, tenant_id, key.id)
        if found is None:
            return None
        facts = {"task_id": found.task_id, "run_id": found.run_id, "envelope_id": found.envelope_id}
        title = f"attempt {found.attempt_number}"
        return TraceNode(key, title, _iso(found.started_at), found.status, found.worker, facts)

    def _load_worker_result(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        found = self._results.result(tx, tenant_id, key.id)
        facts = {
            "task_id": found.lineage.task_id,
            "worker_run_id": found.worker_run_id,
            "envelope_id": found.envelope_id,
            "confidence_score": found.confidence_score,
        }
        title = f"result of attempt {found.attempt_number}"
        return TraceNode(key, title, iso(found.created_at), found.status, None, facts)

    def _load_judge_decision(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode:
        return _decision_node(self._results.decision(tx, tenant_id, key.id))

    def _load_envelope(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        row = self._results.envelope(tx, tenant_id, key.id)
        if row is None:
            return None
        facts = {"correlation_id": row["correlation_id"], "task_id": row["task_id"]}
        return TraceNode(
            key, f"envelope {row['type']}", iso(from_micros(row["received_at"])), row["status"], row["sent_by"], facts
        )


def _decided(decision: JudgeDecision) -> str:
    by_whom = "" if decision.human_reviewer_id is None else f" by {decision.human_reviewer_id}"
    return f"decision to {decision.decision}{by_whom}: {decision.reason_summary}"


def _decision_node(decision: JudgeDecision) -> TraceNode:
    facts = {
        "task_id": decision.task_id,
        "result_id": decision.result_id,
        "round": decision.round,
        "override_reason": decision.override_reason,
        "human_reviewer_id": decision.human_reviewer_id,
    }
    key = TraceKey("judge_decision", decision.decision_id)
    return TraceNode(key, _decided(decision), iso(decision.decided_at), decision.decision, decision.decided_by, facts)


class EffectTraces:
    """Posts, messages, payments and the transfers behind them."""

    kinds: Sequence[str] = ("transaction", "publish_event", "message", "ledger_transfer")

    def __init__(self, ledger: Ledger) -> None:
        self._store = EffectStore()
        self._ledger = ledger

    def load(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        if key.kind == "ledger_transfer":
            found = self._ledger.transfer(tx, tenant_id, key.id)
            return None if found is None else _transfer_node(found)
        try:
            return _effect_node(self._store.find(tx, _kind_of(key.kind), tenant_id, key.id))
        except NotFound:
            return None

    def identify(self, tx: Transaction, tenant_id: str, id: str) -> Iterable[TraceKey]:
        """Effects by what the outside calls them, and by their idempotency key."""
        for effect in self._store.external(tx, tenant_id, id):
            yield TraceKey(effect.subject, effect.effect_id)
        for kind in EFFECT_KINDS:
            effect = self._store.of_key(tx, kind, tenant_id, id)
            if effect is not None:
                yield TraceKey(effect.subject, effect.effect_id)

    def before(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        del tx, tenant_id
        if node.key.kind == "ledger_transfer":
            yield TraceKey(node.facts["subject_type"], node.facts["subject_id"]), "moved money by"
        elif node.facts["decision_id"] is not None:
            yield TraceKey("judge_decision", node.facts["decision_id"]), "allowed"
        if node.facts.get("reverses") is not None:
            kind = node.key.kind
            yield TraceKey(kind, node.facts["reverses"]), "was taken back by"

    def explains(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        del tx, tenant_id, node
        yield from ()

    def after(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        kind, effect_id = node.key
        if kind == "transaction":
            for transfer in self._ledger.about(tx, tenant_id, "transaction", effect_id):
                yield _transfer_node(transfer), "moved money by"
            reversal = self._store.of_key(tx, "transaction", tenant_id, f"reverse:{effect_id}")
            if reversal is not None:
                yield TraceKey("transaction", reversal.effect_id), "was taken back by"
        if kind != "ledger_transfer":
            yield TraceKey("run", f"effect:{effect_id}"), "was delivered by"


def _transfer_node(transfer: LedgerTransfer) -> TraceNode:
    amount = format_minor(transfer.amount, transfer.currency)
    title = f"{amount} {transfer.currency} from {transfer.from_account} to {transfer.to_account}"
    names = ("subject_type", "subject_id", "reverses", "amount", "currency")
    facts = {name: getattr(transfer, name) for name in names}
    return TraceNode(
        TraceKey("ledger_transfer", transfer.transfer_id), title, iso(transfer.posted_at), "posted", None, facts
    )


def _kind_of(subject: str) -> EffectKind:
    kinds: dict[str, EffectKind] = {"publish_event": "publish", "message": "message", "transaction": "transaction"}
    return kinds[subject]


def _effect_node(effect: StoredEffect) -> TraceNode:
    row = effect.row
    paid = ""
    if effect.kind == "transaction":
        paid = f"{format_minor(row['amount'], row['currency'])} {row['currency']} to {row['counterparty']}"
    titles = {
        "publish": f"publication on {row.get('channel')}",
        "message": f"message to {row.get('recipient')}",
        "transaction": f"payment of {paid}",
    }
    external = row.get("external_post_id") or row.get("external_message_id") or row.get("provider_ref")
    facts = {
        **effect.facts(),
        "external_id": external,
        "correlation_id": effect.correlation_id,
        "reverses": row.get("reverses"),
    }
    at = iso(from_micros(row["updated_at"]))
    key = TraceKey(effect.subject, effect.effect_id)
    return TraceNode(key, titles[effect.kind], at, effect.status, effect.requested_by, facts)


class CallTraces:
    """Runs, calls, approvals and audit entries; and whatever is known from entries alone."""

    kinds: Sequence[str] = ("run", "approval", "event", "audit_entry", "correlation", *_SUBJECTS)

    def __init__(self, audit: AuditLog, approvals: Approvals, runs: Callable[[], Runs]) -> None:
        self._audit = audit
        self._approvals = approvals
        self._runs = runs

    def load(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        kind, name = key
        if kind == "run":
            run = self._runs().look(tx, tenant_id, name)
            if run is None:
                return None
            return TraceNode(key, f"run of {run.target}", iso(run.created_at), run.state, run.actor)
        if kind == "approval":
            return self._approval(tx, tenant_id, key)
        if kind == "event":
            event = event_of(tx, tenant_id, name)
            return None if event is None else _event_node(event)
        if kind == "audit_entry":
            entry = self._audit.look(tx, tenant_id, name)
            return None if entry is None else _entry_node(entry)
        if kind == "correlation":
            found = self._audit.records(tx, tenant_id, AuditFilter(correlation_id=name, limit=1))
            return TraceNode(key, f"everything under correlation id {name}") if found else None
        found = self._audit.records(tx, tenant_id, AuditFilter(subject_type=kind, subject_id=name, limit=1))
        return TraceNode(key, f"{kind.replace('_', ' ')} {name}") if found else None

    def identify(self, tx: Transaction, tenant_id: str, id: str) -> Iterable[TraceKey]:
        del tx, tenant_id, id
        return ()

    def before(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        if node.key.kind == "event":
            if node.facts["parent_event_id"] is not None:
                yield TraceKey("event", node.facts["parent_event_id"]), "called"
            yield from self._approvals_of(tx, tenant_id, node.facts["correlation_id"])

    def explains(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        """The calls of a run: what its result was made from."""
        if node.key.kind == "run":
            for event in events_of_session(tx, tenant_id, f"run:{node.key.id}", limit=MOST_LINKS):
                yield _event_node(event), "called"

    def after(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        """What came of a record; of one of another source, the entries about it."""
        kind, name = node.key
        if kind == "audit_entry":
            yield TraceKey(node.facts["subject_type"], node.facts["subject_id"]), "is about"
            return
        if kind == "event":
            for event in events_below(tx, tenant_id, name, limit=MOST_LINKS):
                yield _event_node(event), "called"
        yield from self.explains(tx, tenant_id, node)
        for entry in self._entries(tx, tenant_id, node):
            yield _entry_node(entry), "is recorded in"

    def _entries(self, tx: Transaction, tenant_id: str, node: TraceNode) -> list[AuditRecord]:
        kind, name = node.key
        if kind == "correlation":
            where = AuditFilter(correlation_id=name, limit=MOST_LINKS)
        elif kind == "event":
            if node.facts["correlation_id"] is None:
                return []
            where = AuditFilter(correlation_id=node.facts["correlation_id"], limit=MOST_LINKS)
        else:
            where = AuditFilter(subject_type=kind, subject_id=name, limit=MOST_LINKS)
        found = self._audit.records(tx, tenant_id, where)
        return [entry for entry in found if kind != "event" or entry.data.get("event_id") == name]

    def _approvals_of(self, tx: Transaction, tenant_id: str, correlation_id: str | None) -> Links:
        """The approval that let a call run, as its audit entries name it."""
        if correlation_id is None:
            return
        for entry in self._audit.records(tx, tenant_id, AuditFilter(correlation_id=correlation_id, limit=MOST_LINKS)):
            approval: dict[str, Any] = entry.data.get("approval") or {}
            if approval.get("approval_id") is not None:
                yield TraceKey("approval", str(approval["approval_id"])), "let run"

    def _approval(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        found = self._approvals.look(tx, tenant_id, key.id)
        if found is None:
            return None
        facts = {"tool_id": found.tool_id, "decided_by": found.decided_by, "correlation_id": found.correlation_id}
        title = f"approval of {found.tool_id}, asked by {found.requested_by}"
        return TraceNode(key, title, iso(found.requested_at), found.state, found.decided_by, facts)


def _event_node(event: LinkedEvent) -> TraceNode:
    facts = {
        "session_id": event.session_id,
        "task_id": event.task_id,
        "parent_event_id": event.parent_event_id,
        "correlation_id": event.correlation_id,
        "error_code": event.error_code,
    }
    return TraceNode(
        TraceKey("event", event.event_id), f"call of {event.tool_id}", event.at, event.outcome, None, facts
    )


def _entry_node(entry: AuditRecord) -> TraceNode:
    facts = {
        "subject_type": entry.subject_type,
        "subject_id": entry.subject_id,
        "sequence": entry.sequence,
        "correlation_id": entry.correlation_id,
        "code": entry.code,
    }
    actor = entry.actor_id or entry.actor_type
    return TraceNode(
        TraceKey("audit_entry", entry.id), entry.event_type, iso(entry.timestamp), entry.code, actor, facts
    )
