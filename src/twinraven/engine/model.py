"""Models the states of runs, jobs and workers, their transitions, and what a worker passes on.

How runs, jobs and workers are shown stands in `views`, which a worker process does not need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, get_args

from twinraven.foundation.clock import iso, to_micros
from twinraven.foundation.errors import IllegalTransition

RunState = Literal["queued", "running", "waiting", "succeeded", "failed", "cancelled", "set_aside"]
JobState = Literal["queued", "assigned", "executing", "completed", "failed"]
WorkerState = Literal["idle", "busy", "offline"]
WaitKind = Literal["person", "event", "moment", "approval", "effect", "job"]

RUN_STATES: Final[tuple[RunState, ...]] = get_args(RunState)

RUN_TRANSITIONS: Final[Mapping[RunState, frozenset[RunState]]] = {
    "queued": frozenset({"running", "cancelled", "set_aside"}),
    "running": frozenset({"queued", "waiting", "succeeded", "failed", "cancelled"}),
    "waiting": frozenset({"queued", "cancelled"}),
    "succeeded": frozenset(),
    "failed": frozenset({"queued"}),
    "cancelled": frozenset({"queued"}),
    "set_aside": frozenset({"queued", "cancelled"}),
}

JOB_TRANSITIONS: Final[Mapping[JobState, frozenset[JobState]]] = {
    "queued": frozenset({"assigned"}),
    "assigned": frozenset({"executing", "queued"}),
    "executing": frozenset({"completed", "failed", "queued"}),
    "completed": frozenset(),
    "failed": frozenset(),
}

WORKER_TRANSITIONS: Final[Mapping[WorkerState, frozenset[WorkerState]]] = {
    "idle": frozenset({"busy", "offline"}),
    "busy": frozenset({"idle", "offline"}),
    "offline": frozenset(),
}

RUNS_QUEUE: Final = "runs"
"""The queue of whole runs; every other queue is named for the type of worker that makes its steps."""

WORKER_TYPES: Final = ("rest_api", "llm_call", "graph_query", "mcp", "python", "flow", "process")
TYPE_ALIASES: Final[Mapping[str, str]] = {
    "rest": "rest_api",
    "llm": "llm_call",
    "model": "llm_call",
    "graph": "graph_query",
    "mcp_service": "mcp",
    "plans": "process",
}
"""The connectors whose calls a worker of another name makes."""


def worker_type(connector: str) -> str:
    """Return the type of worker that makes the calls of a connector; what the house answers itself is Python."""
    found = TYPE_ALIASES.get(connector, connector)
    return found if found in WORKER_TYPES else "python"


def check_run_transition(run_id: str, before: RunState, after: RunState) -> None:
    """Refuse a change of state that cannot follow."""
    if after not in RUN_TRANSITIONS[before]:
        raise IllegalTransition(f"run {run_id!r} is {before} and cannot become {after}", run_id=run_id, state=before)


class RunEnd(NamedTuple):
    """The end of a run, or that it was set aside."""

    tenant_id: str
    run_id: str
    state: RunState
    output: Any = None
    error: dict[str, Any] | None = None
    calls: tuple[dict[str, Any], ...] = ()
    """What is known of the calls it made, each with its tool, its event and what it cost; of attempts alone."""
    target: str | None = None
    """The target it ran, where that is known at its end."""
    created_at: int | None = None
    correlation_id: str | None = None
    """The correlation id of the run's request; None where that request itself ends it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait of a run, at one place of its flow."""

    place: str
    kind: WaitKind
    subject: str | None
    """The approval, the key of the unknown effect, the name of the event, the queue of the job."""
    asked_at: datetime
    until: datetime | None
    question: dict[str, Any]
    answered_at: datetime | None = None
    answered_by: str | None = None

    def is_over(self, now: int) -> bool:
        """Return whether it expired unanswered (compared in microseconds)."""
        return self.answered_at is None and self.until is not None and to_micros(self.until) <= now

    def as_json(self) -> dict[str, Any]:
        moments = {name: getattr(self, name) for name in ("asked_at", "until", "answered_at")}
        return {
            "place": self.place,
            "kind": self.kind,
            "subject": self.subject,
            "question": self.question,
            **{name: None if moment is None else iso(moment) for name, moment in moments.items()},
            "answered_by": self.answered_by,
        }
