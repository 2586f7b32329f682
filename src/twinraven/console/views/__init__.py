"""The pages, one file per group: each asks the API and computes what its template loops over."""

from __future__ import annotations

from twinraven.console.views import (
    audit,
    calls,
    chains,
    entities,
    find,
    flow,
    goals,
    house,
    learned,
    plans,
    processes,
    review,
    review_call,
    review_tool,
    runs,
    secrets,
    sessions,
    talk,
    today,
    tools,
    trace,
)
from twinraven.console.visits import ConsolePage

PAGES: tuple[ConsolePage, ...] = (
    *today.PAGES,
    *review.PAGES,
    *review_call.PAGES,
    *review_tool.PAGES,
    *sessions.PAGES,
    *calls.PAGES,
    *flow.PAGES,
    *chains.PAGES,
    *learned.PAGES,
    *runs.PAGES,
    *processes.PAGES,
    *plans.PAGES,
    *goals.PAGES,
    *talk.PAGES,
    *entities.PAGES,
    *audit.PAGES,
    *trace.PAGES,
    *tools.PAGES,
    *secrets.PAGES,
    *house.PAGES,
    *find.PAGES,
)
"""Every page; the first that fits a path is shown."""

__all__ = ["PAGES"]
