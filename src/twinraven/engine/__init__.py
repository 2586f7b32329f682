"""Runs durable work: runs that survive their processes, on a laptop and on a cluster.

A run is a flow over a journal of step outcomes, kept in the database of the house in the same transactions as
idempotency keys and audit entries. `Runs` starts them and decides about them, `EngineWorker` takes and advances them,
and who advances which is behind the `Dispatcher` port.

Names are resolved on first use: whoever only looks at runs does not pay for working on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.engine.advance import Advancer
    from twinraven.engine.attempts import RunGovernor, RunLineage
    from twinraven.engine.awaiting import Lend, ended_run, somebody_working
    from twinraven.engine.decisions import ProgramFork
    from twinraven.engine.dispatch import Dispatcher, Lease
    from twinraven.engine.dispatch_sql import EmbeddedDispatcher
    from twinraven.engine.errors import RunUnfinished
    from twinraven.engine.invoker import CallingParts
    from twinraven.engine.journal import JournalKit
    from twinraven.engine.model import (
        JOB_TRANSITIONS,
        RUN_STATES,
        RUN_TRANSITIONS,
        RUNS_QUEUE,
        WORKER_TRANSITIONS,
        RunEnd,
        RunState,
        Wait,
    )
    from twinraven.engine.pools import Pool, PoolSlots, all_pools, read_pools, read_types
    from twinraven.engine.programs import CallFraming, Program, ProgramRun
    from twinraven.engine.schedules import Schedules, next_slot
    from twinraven.engine.service import ProgramRequest, RunRequest, Runs
    from twinraven.engine.settings import EngineSettings
    from twinraven.engine.temporal import TemporalWorker
    from twinraven.engine.views import Job, Run, RunDetail, StepRecord, Worker
    from twinraven.engine.waits import WaitStore, wake_approved
    from twinraven.engine.worker import EngineWorker, WorkerParts

__all__ = [
    "JOB_TRANSITIONS",
    "RUNS_QUEUE",
    "RUN_STATES",
    "RUN_TRANSITIONS",
    "WORKER_TRANSITIONS",
    "Advancer",
    "CallFraming",
    "CallingParts",
    "Dispatcher",
    "EmbeddedDispatcher",
    "EngineSettings",
    "EngineWorker",
    "Job",
    "JournalKit",
    "Lease",
    "Lend",
    "Pool",
    "PoolSlots",
    "Program",
    "ProgramFork",
    "ProgramRequest",
    "ProgramRun",
    "Run",
    "RunDetail",
    "RunEnd",
    "RunGovernor",
    "RunLineage",
    "RunRequest",
    "RunState",
    "RunUnfinished",
    "Runs",
    "Schedules",
    "StepRecord",
    "TemporalWorker",
    "Wait",
    "WaitStore",
    "Worker",
    "WorkerParts",
    "all_pools",
    "ended_run",
    "next_slot",
    "read_pools",
    "read_types",
    "somebody_working",
    "wake_approved",
]


__getattr__ = lazy_names(__name__)
