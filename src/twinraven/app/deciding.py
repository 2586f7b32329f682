"""Opens the inbox of everything that waits for people, and traces from any record to all around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.app.calling import approvals, runs
from twinraven.app.catalogue import learned, upstream_tools
from twinraven.app.effecting import delivery, ledger
from twinraven.app.foundations import audit, database
from twinraven.app.governing import judge
from twinraven.app.knowing import entities
from twinraven.app.learning import registry
from twinraven.app.parts import Home, Part

if TYPE_CHECKING:
    from twinraven.flow import ToolLookup
    from twinraven.inbox import Inbox
    from twinraven.tracing import Tracer


@Part
def inbox(home: Home) -> Inbox:
    """Open the inbox."""
    from twinraven.inbox import (
        CallApprovals,
        ChangedUpstreamTools,
        EntityDuplicates,
        EscalatedJudgements,
        Inbox,
        LearnedToolReviews,
        Reservations,
        RunQuestions,
        UnknownEffects,
        UnknownStepEffects,
    )

    async def lookup(tenant_id: str) -> ToolLookup:
        await learned(home).refresh(tenant_id)
        return lambda name: learned(home).find_any(tenant_id, name)

    return Inbox(
        (
            CallApprovals(approvals(home)),
            RunQuestions(runs(home)),
            UnknownStepEffects(runs(home)),
            LearnedToolReviews(registry(home), lookup),
            ChangedUpstreamTools(upstream_tools(home)),
            EntityDuplicates(entities(home)),
            EscalatedJudgements(judge(home)),
            UnknownEffects(delivery(home)),
        ),
        Reservations(database(home), micros=home.micros),
    )


@Part
def tracer(home: Home) -> Tracer:
    """Traces from any record to everything before and after it."""
    from twinraven.tracing import CallTraces, EffectTraces, Tracer, WorkTraces

    return Tracer(
        database(home),
        (WorkTraces(), EffectTraces(ledger(home)), CallTraces(audit(home), approvals(home), lambda: runs(home))),
    )
