"""Implements the pages, one file per group: each queries the API and prepares the values of its template."""

from __future__ import annotations

from twinraven.console.page_requests import ConsolePage
from twinraven.console.views import (
    audit,
    calls,
    chains,
    conversations,
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
    today,
    tools,
    trace,
)

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
    *conversations.PAGES,
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
