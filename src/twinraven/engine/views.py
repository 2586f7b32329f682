"""Models the views of runs, jobs and workers.

A run's state is shown as it was committed: whether it ended stands in its own row, and whether somebody works on it, or
it waits, follows from the rows of dispatch. Nothing here is a copy that could be behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from twinraven.engine.model import JobState, RunState, Wait, WorkerState
from twinraven.foundation.clock import iso


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
    """When it is due next; None where it only waits for a wake-up, or has ended."""
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
class StepRecord:
    """The outcome of one attempt of one call."""

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
class RunDetail:
    """A run with what was given, what came of its steps, what it waits for, its jobs, and what it came to."""

    run: Run
    parameters: dict[str, Any]
    steps: tuple[StepRecord, ...]
    waits: tuple[Wait, ...]
    jobs: tuple[Job, ...] = ()
    """What of it is on queues at this moment; of a run that has ended, the job that it was."""
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
    """Work on a queue, leased or waiting: a run to advance, or one of its steps."""

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


_ENDS: Final[Mapping[str, JobState]] = {"succeeded": "completed", "failed": "failed"}


def ended_jobs(run: Run) -> list[Job]:
    """Name the job that a run which has ended was; nothing is on a queue any more that could say so."""
    end = _ENDS.get(run.state)
    return [] if end is None else [Job(run.run_id, run.tenant_id, run.run_id, "", run.queue, end, None)]


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
