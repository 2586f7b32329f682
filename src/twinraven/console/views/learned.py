"""Shows learned tools, their versions and use, and takes the steps of their lives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

from twinraven.console.api_caller import ApiRefused
from twinraven.console.drawing.columns import TimeColumn, columns, meter
from twinraven.console.drawing.wiring import wiring
from twinraven.console.formatting import brief, count, percent, plural
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.spans import last_days
from twinraven.foundation.clock import iso

PAGES: Final = PageTable()
_DAYS: Final = 28
_STEPS: Final = ("rollback", "quarantine", "retire", "release")


@PAGES.shows("/learned", "learned", live="catalog")
async def list_learned(visit: PageRequest) -> PageView:
    found = (await visit.api.get("learned-tools", limit=500, adoption=True))["items"]
    state = visit.query.get("status", "")
    states = sorted({each["status"] for each in found})
    saved: dict[str, float] = {each["tool_id"]: _adopted(each, "turns_saved") for each in found}
    most = max(saved.values(), default=0) or 1
    values = {
        "tools": [
            (each, meter(max(saved[each["tool_id"]], 0) / most, "solid"))
            for each in found
            if state in ("", each["status"])
        ],
        "states": states,
        "state": state,
        "in_all": len(found),
        "turns_saved": sum(saved.values()),
        "uses": sum(_adopted(each, "uses") for each in found),
        "is_counting": any(_is_counting(each) for each in found),
    }
    return PageView("learned_list.html", "Learned tools", values, command="twinraven registry list")


def _is_counting(record: Mapping[str, Any]) -> bool:
    """Return whether calls are recorded that a tool's figures do not hold yet."""
    adoption: Mapping[str, Any] | None = record["adoption"]
    if adoption is None:
        return record["status"] == "promoted" and not record["quarantine"]
    return bool(adoption["pending"])


def _adopted(record: Mapping[str, Any], name: str) -> float:
    """Return a measured figure of a learned tool; 0 where nothing was measured."""
    adoption: Mapping[str, Any] | None = record["adoption"]
    return 0 if adoption is None else adoption[name] or 0


@PAGES.shows("/learned/{tool_id}", "learned", live="catalog")
async def show_learned(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/learned/{tool_id}/{step}", "learned")
async def take_step(visit: PageRequest) -> PageView | Redirect:
    """Roll back, quarantine, release or retire, on the revision that was shown."""
    tool_id, step, form = visit.path["tool_id"], visit.path["step"], visit.form
    if step not in _STEPS:
        raise ApiRefused(404, {"title": "Not Found", "detail": "There is no such step.", "code": "NOT_FOUND"}, "")
    body = _step_body(step, form)
    try:
        await visit.api.send(
            "POST", f"/v1/learned-tools/{quote(tool_id, safe='')}/{step}", body=body, if_match=form.get("seen", "")
        )
    except ApiRefused as refusal:
        if refusal.status not in (400, 409, 412):
            raise
        return await _page(visit, refusal=refusal)
    return Redirect(f"/console/learned/{quote(tool_id, safe='')}")


def _step_body(step: str, form: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what a step says besides its name."""
    reason = form.get("reason", "").strip()
    if step == "rollback":
        return {"to_version": int(form.get("to_version", "0"))}
    if step == "quarantine":
        return {"reason": reason or "no reason given"}
    if step == "retire":
        return {"note": reason} if reason else {}
    return None


def _uses_by_day(tool_id: str, begin: datetime, days: Mapping[str, Mapping[str, Any]]) -> Markup:
    """Return how often a learned tool was called on each day, and how often that failed; a day leads to its calls."""
    found: list[TimeColumn] = []
    for day in (begin + timedelta(days=number) for number in range(_DAYS)):
        calls = days.get(iso(day), {"calls": 0, "failed": 0})
        span = {"tool_id": tool_id, "since": iso(day), "until": iso(day + timedelta(days=1))}
        said = f"{day.day} {day:%b}: {plural(calls['calls'], 'call')}, {calls['failed']:,} failed"
        tick = f"{day.day} {day:%b}" if day.weekday() == 0 else ""
        found.append(TimeColumn(calls["calls"], calls["failed"], said, tick, f"/console/calls?{urlencode(span)}"))
    return columns(found, height=96, title=f"Calls on each of the last {_DAYS} days")


def _saved_by_day(tool_id: str, begin: datetime, days: Mapping[str, Mapping[str, Any]]) -> Markup:
    """Return how many turns the uses of each day saved; a day that cost turns has no column, and the table says so."""
    found: list[TimeColumn] = []
    for day in (begin + timedelta(days=number) for number in range(_DAYS)):
        saving = days.get(iso(day), {"uses": 0, "turns_saved": 0})
        turns = round(saving["turns_saved"])
        said = f"{day.day} {day:%b}: {plural(turns, 'turn')} saved in {plural(saving['uses'], 'use')}"
        span = {"tool_id": tool_id, "since": iso(day), "until": iso(day + timedelta(days=1))}
        tick = f"{day.day} {day:%b}" if day.weekday() == 0 else ""
        found.append(TimeColumn(max(turns, 0), 0, said, tick, f"/console/sessions?{urlencode(span)}"))
    return columns(found, height=96, title=f"Turns saved on each of the last {_DAYS} days")


def _versions(tool: Mapping[str, Any], status: str) -> list[int]:
    """Return the other versions that stand so: only one that was in service can be rolled back to."""
    current = tool["current_version"]
    return [each["version"] for each in tool["versions"] if each["status"] == status and each["version"] != current]


def flag_words(name: str, figures: Mapping[str, Any]) -> str:
    """Return what maintenance found, with its figures; of a flag that is not known, the figures."""
    if name == "drift" and "original_support" in figures:
        return (
            f"agents hardly make these calls in this order any more: in {percent(figures['support'], 1)} of "
            f"{plural(figures['sessions'], 'session')}, {percent(figures['original_support'], 1)} when it was learned"
        )
    if name == "fails_more_than_its_parts" and "expected" in figures:
        return (
            f"{percent(figures['rate'])} of {plural(figures['calls'], 'call')} fail, where its parts would lead one to "
            f"expect {percent(figures['expected'])}"
        )
    if name == "saves_no_turns" and "uses" in figures:
        return f"{plural(figures['uses'], 'use')} saved no turn"
    if name == "not_taken" and "taken" in figures:
        return (
            f"agents took it in {count(figures['taken'])} of {plural(figures['fitted'], 'session')} where it fitted, "
            "and made its calls by hand in the others"
        )
    return brief(dict(figures), 160)


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    tool_id = visit.path["tool_id"]
    found = await visit.api.show("learned-tools", tool_id)
    tool = found.body
    version = int(visit.query.get("version", tool["current_version"]))
    review, definition = await asyncio.gather(
        visit.api.get("learned-tools", tool_id, "versions", str(version), "review"),
        visit.api.get("learned-tools", tool_id, "versions", str(version)),
    )
    adoption = tool["adoption"]
    begin, until = last_days(_DAYS)
    days, savings = await asyncio.gather(
        visit.api.get(
            "activity", since=iso(begin), until=iso(until), bucket_s=86_400, tool_id=tool_id, tools=0, failures=0
        ),
        visit.api.get("savings"),
    )
    saved = {
        each["begins_at"]: each
        for own in savings["items"]
        for each in own["days"]
        if own["tool_id"] == tool_id and each["turns_saved"] is not None
    }
    values = {
        "uses": _uses_by_day(tool_id, begin, {each["begins_at"]: each for each in days["buckets"]}),
        "has_uses": bool(days["buckets"]),
        "saved": _saved_by_day(tool_id, begin, saved),
        "saved_days": list(saved.values()),
        "tool": tool,
        "seen": found.tag,
        "version": version,
        "review": review,
        "definition": definition,
        "picture": wiring(tool_id, review["steps"], list(review["parameters"].get("properties", {}))),
        "adoption": adoption,
        "flags": [(name, flag_words(name, figures), figures.get("since")) for name, figures in tool["flags"].items()],
        "earlier": _versions(tool, "promoted"),
        "waiting": _versions(tool, "testing"),
        "diff": [({"+": "add", "-": "del", "@": "at"}.get(line[:1], ""), line) for line in review["diff"]],
        "refusal": None if refusal is None else refusal.problem,
    }
    status = 200 if refusal is None else refusal.status
    return PageView("learned.html", tool_id, values, command=command_line("registry", "show", tool_id), status=status)
