"""Shows sessions, newest first, and one session as a waterfall with the chosen call beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

from twinraven.console.api_caller import ApiRefused
from twinraven.console.drawing.columns import TimeColumn, columns
from twinraven.console.drawing.timeline import lay_out
from twinraven.console.formatting import plural
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.spans import last_hours
from twinraven.foundation.clock import iso

PAGES: Final = PageTable()
_FILTERS: Final = ("outcome", "since", "until", "tool_id", "failed", "starts_with")
_PER_PAGE: Final = 100
_MOST_CALLS: Final = 500
_STRIP_HOURS: Final = 72


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One session in the list."""

    session_id: str
    words: str | None
    outcome: str
    calls: int
    failed: int
    turns: int
    tools: list[str]
    ended_at: str
    lasted_ms: float
    time_known: bool
    is_judged: bool


@PAGES.shows("/sessions", "sessions", live="events", held=True)
async def list_sessions(visit: PageRequest) -> PageView:
    where = {name: visit.query[name] for name in _FILTERS if visit.query.get(name)}
    page, (strip, has_activity) = await asyncio.gather(
        visit.api.get("sessions", order="newest", limit=_PER_PAGE, cursor=visit.query.get("cursor"), **where),
        _recent_activity(visit),
    )
    more = {**where, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "lines": [_line(each) for each in page["items"]],
        "where": where,
        "is_filtered": bool(where),
        "strip": strip,
        "has_activity": has_activity,
        "more": None if more is None else f"/console/sessions?{urlencode(more)}",
        "is_later": "cursor" in visit.query,
    }
    return PageView("sessions.html", "Sessions", values, command=command_line("sessions", "list", *_options(where)))


def _options(where: Mapping[str, str]) -> list[str]:
    """Return the filters of the list as options of the command."""
    named = {"outcome": "--outcome", "since": "--since", "until": "--until", "tool_id": "--tool"}
    given = [word for name, option in named.items() if name in where for word in (option, where[name])]
    return [*given, "--failed"] if where.get("failed") == "true" else given


async def _recent_activity(visit: PageRequest) -> tuple[Markup, bool]:
    """Return the last three days as a strip that sets the range, and whether there were any calls in them."""
    begin, until = last_hours(_STRIP_HOURS)
    found = await visit.api.get("activity", since=iso(begin), until=iso(until), bucket_s=3600, tools=0, failures=0)
    buckets = {each["begins_at"]: each for each in found["buckets"]}
    hours = [begin + timedelta(hours=hour) for hour in range(_STRIP_HOURS)]
    strip = columns([_hour(at, buckets) for at in hours], height=66, title="Calls in each hour of the last three days")
    return strip, any(each["calls"] for each in found["buckets"])


def _hour(at: datetime, buckets: Mapping[str, Mapping[str, Any]]) -> TimeColumn:
    found = buckets.get(iso(at), {"calls": 0, "failed": 0})
    query = urlencode({"since": iso(at), "until": iso(at + timedelta(hours=1))})
    return TimeColumn(
        found["calls"],
        found["failed"],
        said=f"{at.day} {at:%b, %H:00} UTC: {plural(found['calls'], 'call')}, {found['failed']:,} failed",
        tick=f"{at.day} {at:%b}" if at.hour == 0 else "",
        href=f"/console/sessions?{query}",
    )


def _line(session: Mapping[str, Any]) -> SessionLine:
    return SessionLine(
        session_id=session["session_id"],
        words=session["first_words"],
        outcome=session["outcome"],
        calls=session["event_count"],
        failed=session["failed"],
        turns=session["turns"],
        tools=session["tools"],
        ended_at=session["ended_at"],
        lasted_ms=session["lasted_ms"],
        time_known=session["time_known"],
        is_judged=session["is_judged"],
    )


@PAGES.shows("/sessions/{session_id}", "sessions", live="events")
async def show_session(visit: PageRequest) -> PageView:
    return await _session_page(visit)


async def _session_page(visit: PageRequest) -> PageView:
    session_id, query = visit.path["session_id"], visit.query
    begin = query.get("from")
    session, calls = await asyncio.gather(
        visit.api.get("sessions", session_id, events=0),
        visit.api.get("events", session_id=session_id, limit=_MOST_CALLS, cursor=begin),
    )
    chosen = None if "call" not in query else await _chosen(visit, query["call"])
    is_full = query.get("idle") == "full"
    values = {
        "session": session,
        "fall": await asyncio.to_thread(lay_out, calls["items"], cut=not is_full),
        "is_full": is_full,
        "chosen": None if chosen is None else chosen["event_id"],
        "event": chosen,
        "run": await _run_of(visit, session_id),
        "begin": begin,
        "onwards": calls["next_cursor"],
        "is_cut": bool(begin or calls["next_cursor"]),
        "at": f"/console/sessions/{quote(session_id, safe='')}",
        "keep": "&idle=full" if is_full else "",
    }
    command, about = command_line("sessions", "show", session_id), {"events": [session_id]}
    # Behind a full page come others, so nothing that happens changes its rows.
    is_full_page = bool(calls["next_cursor"])
    return PageView("session.html", session_id, values, command=command, about=about, held=is_full_page)


async def _run_of(visit: PageRequest, session_id: str) -> Any:
    """Return the run whose calls a session holds, if it is one of a run."""
    run_id = session_id.removeprefix("run:").partition(":")[0]
    is_of_run = visit.has("runs") and session_id.startswith("run:")
    return await visit.api.find("runs", run_id) if is_of_run and run_id else None


async def _chosen(visit: PageRequest, event_id: str) -> Any:
    """Return the call that the address names; a wrong name shows the session without one."""
    try:
        return await visit.api.get("events", event_id)
    except ApiRefused as refusal:
        if refusal.status in (400, 404):
            return None
        raise


@PAGES.takes("/sessions/{session_id}/verdict", "sessions")
async def state_outcome(visit: PageRequest) -> Redirect:
    """Say how the task went."""
    session_id = visit.path["session_id"]
    await visit.api.post("sessions", session_id, "verdicts", body={"outcome": visit.form.get("outcome", "")})
    return Redirect(f"/console/sessions/{quote(session_id, safe='')}")
