"""Plans: a request becomes steps that are carried out one at a time, repaired where need be, and logged.

`Plans` starts them, shows their state and forks them; `run_plan` is the kernel, a program of the engine, so a plan
survives its processes. `Supervisor` repairs what a model says, `Memory` keeps values for steps, `PlanTools` offers both
as tools.

Names are resolved on first use: a command that needs none of them does not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinraven.plans.errors import PlanExpired, PlanFailed, PlanUnrecoverable
    from twinraven.plans.kernel import RUN_PLAN, PlanWish, run_plan
    from twinraven.plans.log_file import PlanLogFile
    from twinraven.plans.memory import MEMORY_SCOPES, Memory, MemoryEntry, MemoryPlace, MemoryScope
    from twinraven.plans.model import STEP_STATUSES, STEP_TRANSITIONS, Plan, PlanStep
    from twinraven.plans.saving import plan_as_process
    from twinraven.plans.service import PlanRun, Plans
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
    "PlanRun",
    "PlanStep",
    "PlanTools",
    "PlanUnrecoverable",
    "PlanWish",
    "Plans",
    "SupervisorAction",
    "plan_as_process",
    "run_plan",
]

_HOMES = {
    "errors": ("PlanExpired", "PlanFailed", "PlanUnrecoverable"),
    "kernel": ("RUN_PLAN", "PlanWish", "run_plan"),
    "log_file": ("PlanLogFile",),
    "memory": ("MEMORY_SCOPES", "Memory", "MemoryEntry", "MemoryPlace", "MemoryScope"),
    "model": ("STEP_STATUSES", "STEP_TRANSITIONS", "Plan", "PlanStep"),
    "saving": ("plan_as_process",),
    "service": ("PlanRun", "Plans"),
    "state": ("ACTION_TYPES", "LogEntry", "OrchestrationState", "SupervisorAction"),
    "tools": ("MEMORY_TOOLS", "PlanTools"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'twinraven.plans' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"twinraven.plans.{_HOME_OF[name]}"), name)
    return value
