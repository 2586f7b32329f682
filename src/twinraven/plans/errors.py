"""Defines the errors with which a plan ends.

ToolError
├── PlanFailed          PLAN_FAILED            a critical step failed, or no plan could be made
├── PlanExpired         PLAN_TTL_EXPIRED       the plan used up its cycles; its state is kept
└── PlanUnrecoverable   PLAN_UNRECOVERABLE     what the model said could not be repaired
"""

from __future__ import annotations

from twinraven.foundation.errors import ToolError


class PlanFailed(ToolError):
    """a critical step of a plan failed, or the model gave no plan; details name the step and its error"""

    code = "PLAN_FAILED"
    acts = "caller"


class PlanExpired(ToolError):
    """TTL expired: a plan used up its cycles before all steps had ended; its state is kept"""

    code = "PLAN_TTL_EXPIRED"
    acts = "caller"


class PlanUnrecoverable(ToolError):
    """what a model said could not be repaired in two attempts, so the plan ended in order"""

    code = "PLAN_UNRECOVERABLE"
    acts = "caller"
