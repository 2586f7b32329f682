"""Finds what traces are made of in calls: runs, events, approvals and audit entries, and what only entries tell of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from twinraven.audit import AuditFilter, AuditLog, AuditRecord
from twinraven.calls import Approvals
from twinraven.effects import EFFECT_WORK, TABLES
from twinraven.engine import Runs
from twinraven.foundation.clock import iso
from twinraven.governance import ResultStore
from twinraven.muninn import LinkedEvent, event_of, events_below, events_of_session
from twinraven.storage import Transaction
from twinraven.tracing.model import MOST_LINKS, Links, TraceKey, TraceNode

_MOST_OF_REQUEST: Final = 2_000
"""Entries of one request, among which those about its calls are looked for."""
_RUN: Final = "run:"
"""How the session of a run's calls begins."""
_SUBJECTS: Final = (
    "tool", "upstream_tool", "user", "api_key", "tenant", "secret", "service", "process",
    "merge_proposal", "audit_log", "events", "call",
)  # fmt: skip
"""Kinds that are known only from the audit entries about them."""


class CallTraces:
    """Runs, calls, approvals and audit entries; and whatever is known from entries alone."""

    kinds: Sequence[str] = ("run", "approval", "event", "audit_entry", "correlation", *_SUBJECTS)

    def __init__(self, audit: AuditLog, approvals: Approvals, runs: Callable[[], Runs]) -> None:
        self._audit = audit
        self._approvals = approvals
        self._runs = runs
        self._results = ResultStore()
        self._requests: WeakKeyDictionary[Transaction, dict[str, list[AuditRecord]]] = WeakKeyDictionary()

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
            return None if event is None else event_node(event)
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
        kind, facts = node.key.kind, node.facts
        if kind == "audit_entry":
            yield TraceKey(facts["subject_type"], facts["subject_id"]), "is recorded in"
        if kind == "run":
            yield from self._origin(tx, tenant_id, node.key.id)
        if kind == "event":
            if facts["parent_event_id"] is not None:
                yield TraceKey("event", facts["parent_event_id"]), "called"
            elif facts["session_id"].startswith(_RUN):
                yield TraceKey("run", facts["session_id"].removeprefix(_RUN)), "called"
            elif facts["task_id"] is not None:
                yield TraceKey("task", facts["task_id"]), "called"
            for entry in self._entries(tx, tenant_id, node):
                approval: dict[str, Any] = entry.data.get("approval") or {}
                if approval.get("approval_id") is not None:
                    yield TraceKey("approval", str(approval["approval_id"])), "let run"

    def explains(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        """Yield the calls of a run: what its result was made from."""
        if node.key.kind == "run":
            for event in events_of_session(tx, tenant_id, f"run:{node.key.id}", limit=MOST_LINKS):
                yield event_node(event), "called"

    def after(self, tx: Transaction, tenant_id: str, node: TraceNode) -> Links:
        """Return the successors of a record; for one of another source, the entries about it."""
        kind, name = node.key
        if kind == "audit_entry":
            yield TraceKey(node.facts["subject_type"], node.facts["subject_id"]), "is about"
            return
        if kind == "run":
            yield from self._came_to(tx, tenant_id, name, "came to")
        if kind == "event":
            if node.facts["session_id"].startswith(_RUN):
                run_id = node.facts["session_id"].removeprefix(_RUN)
                yield from self._came_to(tx, tenant_id, run_id, "was used in")
            for event in events_below(tx, tenant_id, name, limit=MOST_LINKS):
                yield event_node(event), "called"
        yield from self.explains(tx, tenant_id, node)
        for entry in self._entries(tx, tenant_id, node):
            yield _entry_node(entry), "is recorded in"

    def _origin(self, tx: Transaction, tenant_id: str, run_id: str) -> Links:
        """Return what a run was started for: an attempt at a task, or the delivery of an effect."""
        attempt = self._results.run_of(tx, tenant_id, run_id)
        if attempt is not None:
            yield TraceKey("worker_run", attempt.worker_run_id), "was run as"
        work, _, effect_id = run_id.partition(":")
        if work == EFFECT_WORK:
            for words in TABLES.values():
                yield TraceKey(words.subject, effect_id), "was delivered by"

    def _came_to(self, tx: Transaction, tenant_id: str, run_id: str, word: str) -> Links:
        """Yield the result of the attempt that a run is, where it is one."""
        attempt = self._results.run_of(tx, tenant_id, run_id)
        for result in () if attempt is None else self._results.results(tx, tenant_id, attempt.task_id):
            if attempt is not None and result.worker_run_id == attempt.worker_run_id:
                yield TraceKey("worker_result", result.result_id), word

    def _entries(self, tx: Transaction, tenant_id: str, node: TraceNode) -> list[AuditRecord]:
        kind, name = node.key
        if kind == "event":
            told = self._of_request(tx, tenant_id, node.facts["correlation_id"])
            return [entry for entry in told if entry.data.get("event_id") == name]
        if kind == "correlation":
            where = AuditFilter(correlation_id=name, limit=MOST_LINKS)
        else:
            where = AuditFilter(subject_type=kind, subject_id=name, limit=MOST_LINKS)
        return self._audit.records(tx, tenant_id, where)

    def _of_request(self, tx: Transaction, tenant_id: str, correlation_id: str | None) -> list[AuditRecord]:
        """Return the entries of a request, read once for all its calls that a trace meets."""
        if correlation_id is None:
            return []
        known = self._requests.setdefault(tx, {})
        if correlation_id not in known:
            where = AuditFilter(correlation_id=correlation_id, limit=_MOST_OF_REQUEST)
            known[correlation_id] = self._audit.records(tx, tenant_id, where)
        return known[correlation_id]

    def _approval(self, tx: Transaction, tenant_id: str, key: TraceKey) -> TraceNode | None:
        found = self._approvals.look(tx, tenant_id, key.id)
        if found is None:
            return None
        facts = {"tool_id": found.tool_id, "decided_by": found.decided_by, "correlation_id": found.correlation_id}
        title = f"approval of {found.tool_id}, asked by {found.requested_by}"
        return TraceNode(key, title, iso(found.requested_at), found.state, found.decided_by, facts)


def event_node(event: LinkedEvent) -> TraceNode:
    facts = {
        "session_id": event.session_id,
        "task_id": event.task_id,
        "parent_event_id": event.parent_event_id,
        "correlation_id": event.correlation_id,
        "error_code": event.error_code,
        "outcome": event.outcome,
    }
    status = "failed" if event.raised else "succeeded"
    return TraceNode(TraceKey("event", event.event_id), f"call of {event.tool_id}", event.at, status, None, facts)


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
