"""Carries out plans: a request becomes steps, run one at a time, repaired where needed, and logged.

`Plans` starts them, shows their state and forks them; `run_plan` is the kernel, a program of the engine, so a plan
survives its processes. `Supervisor` repairs what a model says, `Memory` keeps values for steps, `PlanTools` offers both
as tools.

Names are resolved on first use: a command that needs none of them does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.plans.errors import PlanExpired, PlanFailed, PlanUnrecoverable
    from twinraven.plans.kernel import RUN_PLAN, PlanRequest, run_plan
    from twinraven.plans.log_file import PlanLogFile
    from twinraven.plans.memory import MEMORY_SCOPES, Memory, MemoryEntry, MemoryPlace, MemoryScope
    from twinraven.plans.model import STEP_STATUSES, STEP_TRANSITIONS, Plan, PlanStep
    from twinraven.plans.saving import plan_as_process
    from twinraven.plans.service import PlanRun, Plans
    from twinraven.plans.settings import PlansSettings
    from twinraven.plans.state import ACTION_TYPES, LogEntry, OrchestrationState, SupervisorAction
    from twinraven.plans.tools import MEMORY_TOOLS, PlanTools

__all__ = [
    "ACTION_TYPES",
    "MEMORY_SCOPES",
    "MEMORY_TOOLS",
    "RUN_PLAN",
    "STEP_STATUSES",
    "STEP_TRANSITIONS",
    "LogEntry",
    "Memory",
    "MemoryEntry",
    "MemoryPlace",
    "MemoryScope",
    "OrchestrationState",
    "Plan",
    "PlanExpired",
    "PlanFailed",
    "PlanLogFile",
    "PlanRequest",
    "PlanRun",
    "PlanStep",
    "PlanTools",
    "PlanUnrecoverable",
    "Plans",
    "PlansSettings",
    "SupervisorAction",
    "plan_as_process",
    "run_plan",
]


__getattr__ = lazy_names(__name__)
