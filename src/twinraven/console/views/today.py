"""Shows today: what happened in the last 24 hours, what was earned, what waits, and what people did."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup

from twinraven.console.api_caller import items_of
from twinraven.console.drawing.columns import TimeColumn, columns, meter
from twinraven.console.formatting import plural
from twinraven.console.page_requests import PageRequest, PageTable, PageView
from twinraven.console.views.audit import about, subject_page
from twinraven.console.views.spans import last_hours
from twinraven.console.views.waiting_items import everything_waiting
from twinraven.foundation.clock import iso

PAGES: Final = PageTable()
_HOURS: Final = 24
_TICK: Final = 3
_MOST_WAITING: Final = 8
_MOST_TOOLS: Final = 8
_MOST_SAVINGS: Final = 5
_MOST_FAILURES: Final = 6


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A tool's line: how often, how often it failed, how long it took."""

    tool_id: str
    calls: int
    failed: int
    mean_ms: float | None
    bar: Markup

    @property
    def failed_share(self) -> float:
        return self.failed / max(self.calls, 1)


@dataclass(frozen=True, slots=True)
class Saving:
    """A learned tool's line: what it saves, and whether it serves."""

    tool_id: str
    version: int
    turns: int
    is_serving: bool
    state: str
    bar: Markup


@PAGES.shows("/", "today", live="events/10 approvals catalog runs work")
async def today(visit: PageRequest) -> PageView:
    begin, until = last_hours(_HOURS)
    span = {"since": iso(begin), "until": iso(until)}
    activity, whole_day, (waits, waits_in_all), learned, audit, savings = await asyncio.gather(
        visit.api.get("activity", **span, bucket_s=3600, tools=_MOST_TOOLS, failures=_MOST_FAILURES),
        visit.api.get("activity", **span, bucket_s=_HOURS * 3600, tools=0, failures=0),
        everything_waiting(visit),
        visit.api.get("learned-tools", limit=100),
        visit.api.find("audit", newest=True, limit=6),
        visit.api.get("savings"),
    )
    buckets = {each["begins_at"]: each for each in activity["buckets"]}
    recent = await visit.api.get("sessions", order="newest", limit=1)
    values = {
        "is_empty": not recent["items"],
        "origin": visit.api.origin,
        "last": recent["items"][0] if recent["items"] else None,
        "calls": sum(each["calls"] for each in buckets.values()),
        "failed": sum(each["failed"] for each in buckets.values()),
        "sessions": sum(each["sessions"] for each in whole_day["buckets"]),
        **span,
        "bars": columns(
            [_column(begin + timedelta(hours=hour), buckets, is_first=hour < _TICK) for hour in range(_HOURS)],
            height=140,
            title="Calls in each of the last 24 hours",
        ),
        "hours": [each for each in activity["buckets"] if each["calls"]],
        "tools": _uses(activity["tools"]),
        "failures": activity["failures"],
        "waits": waits[:_MOST_WAITING],
        "waits_in_all": waits_in_all,
        "turns_saved": savings["turns_saved"],
        "is_counting": savings["is_counting"],
        "savings": _savings(savings["items"], {each["tool_id"]: each["current_version"] for each in learned["items"]}),
        "flags": [each for each in learned["items"] if each["flags"]],
        "acts": [(each, about(each), subject_page(each)) for each in items_of(audit)],
    }
    return PageView("today.html", "Today", values, command="twinraven status")


def _column(at: datetime, buckets: Mapping[str, Mapping[str, Any]], *, is_first: bool) -> TimeColumn:
    found = buckets.get(iso(at), {"calls": 0, "failed": 0, "sessions": 0})
    query = urlencode({"since": iso(at), "until": iso(at + timedelta(hours=1))})
    said = f"{at:%H:00} UTC: {plural(found['calls'], 'call')} in {plural(found['sessions'], 'session')}"
    return TimeColumn(
        calls=found["calls"],
        failed=found["failed"],
        said=f"{said}, {found['failed']:,} failed",
        tick=f"{at:%H}{' UTC' if is_first else ''}" if at.hour % _TICK == 0 else "",
        href=f"/console/calls?{query}",
    )


def _uses(tools: list[Mapping[str, Any]]) -> list[ToolLine]:
    most = max((each["calls"] for each in tools), default=1)
    return [
        ToolLine(
            each["tool_id"],
            each["calls"],
            each["raised"],
            each["mean_latency_ms"],
            meter(each["calls"] / most, more=each["raised"] / most),
        )
        for each in tools
    ]


def _savings(found: list[Mapping[str, Any]], versions: Mapping[str, int]) -> list[Saving]:
    """Return the learned tools that are alive, by what they would have saved in the record."""
    alive = [each for each in found if each["status"] in ("testing", "promoted") and each["possible_turns"]]
    alive.sort(key=lambda each: (-each["possible_turns"], each["tool_id"]))
    most = alive[0]["possible_turns"] if alive else 1
    return [
        Saving(
            each["tool_id"],
            versions[each["tool_id"]],
            each["possible_turns"],
            is_serving=each["status"] == "promoted",
            state=_state(each),
            bar=meter(each["possible_turns"] / most, "solid" if each["status"] == "promoted" else "ghost"),
        )
        for each in alive[:_MOST_SAVINGS]
    ]


def _state(saving: Mapping[str, Any]) -> str:
    if saving["status"] != "promoted":
        return "waits for a decision"
    saved = saving["turns_saved"]
    measured = "" if saved is None else f", {saved:,.0f} turns saved"
    return f"in service, {plural(saving['uses'], 'use')}{measured}"
