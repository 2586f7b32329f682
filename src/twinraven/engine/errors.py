"""Defines the errors of durable runs."""

from __future__ import annotations

from twinraven.foundation.errors import Conflict, TwinRavenError


class RunSuperseded(Conflict):
    """somebody else works on the run by now; whoever finds out stops"""

    code = "RUN_SUPERSEDED"
    acts = "nobody"
    retryable = True


class RunSetAside(TwinRavenError):
    """the workers that took the run died with it, so nobody takes it until a person resumes it"""

    code = "RUN_SET_ASIDE"


class RunCancelled(TwinRavenError):
    """somebody cancelled the run before it had ended"""

    code = "RUN_CANCELLED"
    acts = "caller"


class WaitExpired(TwinRavenError):
    """nobody answered what a run asked before its time was over"""

    code = "WAIT_EXPIRED"
    acts = "caller"


class TokenBudgetExceeded(TwinRavenError):
    """the steps of a run took more tokens than they may"""

    code = "TOKEN_BUDGET_EXCEEDED"
    acts = "caller"


class StepRefused(TwinRavenError):
    """a person was asked whether a step may run, and said no"""

    code = "STEP_REFUSED"
    acts = "caller"


class RecursionLimitExceeded(TwinRavenError):
    """processes of a run called each other deeper than `max_recursion_depth` allows"""

    code = "RECURSION_LIMIT_EXCEEDED"
    acts = "caller"


class RunUnfinished(TwinRavenError):
    """a run goes on without the call that started it: it waits for a person, or takes longer than the call may"""

    code = "RUN_UNFINISHED"
    acts = "nobody"
    retryable = True


STOPS = {each.code: each for each in (TokenBudgetExceeded, StepRefused, RecursionLimitExceeded)}
"""What ends a run where the condition of a step `stop:CODE` holds."""
