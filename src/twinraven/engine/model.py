"""Models runs, jobs and workers: their states, and which state may follow which.

A run's state is shown as it was committed: whether it ended stands in its own row, and whether somebody works on it, or
it waits, follows from the rows of dispatch. Nothing here is a copy that could be behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, get_args

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
    """The type of worker that makes the calls of a connector; what the house answers itself is Python."""
    found = TYPE_ALIASES.get(connector, connector)
    return found if found in WORKER_TYPES else "python"


def check_run_transition(run_id: str, before: RunState, after: RunState) -> None:
    """Refuse a change of state that cannot follow."""
    if after not in RUN_TRANSITIONS[before]:
        raise IllegalTransition(f"run {run_id!r} is {before} and cannot become {after}", run_id=run_id, state=before)


@dataclass(frozen=True, slots=True)
class Run:
    """One piece of durable work."""

    tenant_id: str
    run_id: str
    target: str
    state: RunState
    queue: str
    priority: int
    caller: str | None
    actor: str
    created_at: datetime
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    due_at: datetime | None = None
    """When it is looked at next; None where it is looked at only if somebody wakes it, or never again."""
    worker: str | None = None
    epoch: int = 0
    """How often it was taken up."""
    error_code: str | None = None
    forked_from: str | None = None

    def as_json(self) -> dict[str, Any]:
        times = ("created_at", "finished_at", "deadline_at", "due_at")
        plain = ("tenant_id", "run_id", "target", "state", "queue", "priority", "caller", "actor", "worker", "epoch")
        moments = {name: getattr(self, name) for name in times}
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: None if moment is None else iso(moment) for name, moment in moments.items()},
            "error_code": self.error_code,
            "forked_from": self.forked_from,
        }


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended, or that it was set aside."""

    tenant_id: str
    run_id: str
    state: RunState
    output: Any = None
    error: dict[str, Any] | None = None
    calls: tuple[dict[str, Any], ...] = ()
    """What is known of the calls it made, each with its tool, its event and what it cost; of attempts alone."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What came of one attempt of one call."""

    place: str
    tool_id: str
    epoch: int
    settled_at: datetime
    error_code: str | None
    output: Any = None
    error: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "tool_id": self.tool_id,
            "epoch": self.epoch,
            "settled_at": iso(self.settled_at),
            "error_code": self.error_code,
            "output": self.output,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Wait:
    """What a run waits for at a place."""

    place: str
    kind: WaitKind
    subject: str | None
    """The approval, the key of the unknown effect, the name of the event, the queue of the job."""
    asked_at: datetime
    until: datetime | None
    question: dict[str, Any] = field(default_factory=dict[str, Any])
    answered_at: datetime | None = None
    answered_by: str | None = None

    def is_over(self, now: int) -> bool:
        """Whether nobody answered before its time (compared in microseconds) was over."""
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


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with what was given, what came of its steps, what it waits for, its jobs, and what it came to."""

    run: Run
    parameters: dict[str, Any]
    steps: tuple[StepRecord, ...]
    waits: tuple[Wait, ...]
    jobs: tuple[Job, ...] = ()
    """What of it is on queues at this moment."""
    output: Any = None
    error: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            **self.run.as_json(),
            "parameters": self.parameters,
            "output": self.output,
            "error": self.error,
            "steps": [step.as_json() for step in self.steps],
            "waits": [wait.as_json() for wait in self.waits],
            "jobs": [job.as_json() for job in self.jobs],
        }


@dataclass(frozen=True, slots=True)
class Job:
    """Work on a queue that somebody has or will have: a run to advance, or one of its steps."""

    job_id: str
    tenant_id: str
    run_id: str
    place: str
    queue: str
    state: JobState
    worker: str | None

    def as_json(self) -> dict[str, Any]:
        names = ("job_id", "tenant_id", "run_id", "place", "queue", "state", "worker")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Worker:
    """One unit of execution: a slot of a process, for work of one type."""

    worker_id: str
    type: str
    status: WorkerState
    current_job_id: str | None
    last_heartbeat: datetime
    processed_count: int
    error_count: int
    created_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.worker_id,
            "type": self.type,
            "status": self.status,
            "currentJobId": self.current_job_id,
            "lastHeartbeat": iso(self.last_heartbeat),
            "processedCount": self.processed_count,
            "errorCount": self.error_count,
            "createdAt": iso(self.created_at),
        }
