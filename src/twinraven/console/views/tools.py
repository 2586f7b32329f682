"""Shows tools and services: what can be called, whether it is there, and calls a tool from its page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from twinraven.console.api_caller import ApiRefused, api_path, items_of, members
from twinraven.console.drawing.columns import hour_marks
from twinraven.console.formatting import cut, plural
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.spans import last_day, last_hours
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_id
from twinraven.serving import encode_json

PAGES: Final = PageTable()
_HOURS: Final = 24
_KINDS: Final = {"integer": "number", "number": "number", "boolean": "boolean", "string": "string"}


@dataclass(frozen=True, slots=True)
class Field:
    """One argument as a field of the form that calls a tool."""

    name: str
    kind: str
    is_required: bool
    said: str
    value: str


@PAGES.shows("/tools", "tools", live="catalog")
async def list_tools(visit: PageRequest) -> PageView:
    begin, until = last_hours(_HOURS)
    tools, services, upstreams, activity, history = await asyncio.gather(
        visit.api.get("tools", limit=500),
        visit.api.get("services", limit=500),
        visit.api.find("upstreams") if visit.has("upstreams") else _nothing(),
        visit.api.get("activity", **last_day(), tools=500, failures=0, bucket_s=86_400),
        visit.api.get("health-history", since=iso(begin), until=iso(until), bucket_s=3600),
    )
    seen = {each["service_id"]: each for each in history["items"]}
    values = {
        "tools": tools["items"],
        "services": [(each, seen[each["id"]], _health_strip(seen[each["id"]], begin)) for each in services["items"]],
        "upstreams": [_reworded(each) for each in items_of(upstreams)],
        "uses": {each["tool_id"]: each for each in activity["tools"]},
    }
    return PageView("tools.html", "Tools and services", values, command="twinraven tools list")


@dataclass(frozen=True, slots=True)
class Reworded:
    """An upstream tool that was changed: what it said of itself, and says now."""

    tool_id: str
    before: str
    now: str


def _health_strip(history: Mapping[str, Any], begin: datetime) -> Markup:
    """Return the last day of a service, an hour a mark: as bad as its worst check."""
    found = {each["begins_at"]: each for each in history["buckets"]}
    marks: list[tuple[str, str]] = []
    for at in (begin + timedelta(hours=hour) for hour in range(_HOURS)):
        hour = found.get(iso(at), {"checks": 0, "down": 0, "degraded": 0})
        kind = "bad" if hour["down"] else "warn" if hour["degraded"] else "good" if hour["checks"] else "none"
        away = hour["down"] + hour["degraded"]
        said = f"{plural(hour['checks'], 'check')}{f', {away} not well' if away else ''}" if hour["checks"] else "none"
        marks.append((kind, f"{at:%H:00} UTC: {said}"))
    share = f"{history['healthy']} of {plural(history['checks'], 'check')} found it well"
    return hour_marks(marks, title=f"The last {_HOURS} hours: {share}")


def _reworded(upstream: Mapping[str, Any]) -> Reworded:
    """Return the words of a changed tool where they are other ones, else its whole definition."""
    both = [members(upstream[name]) for name in ("accepted", "offered")]
    said = [str(each.get("description", "")) for each in both]
    if said[0] == said[1]:
        said = [encode_json(dict(each)).decode() if each else "" for each in both]
    return Reworded(upstream["tool_id"], said[0] or "–", said[1] or "it is gone")


async def _nothing() -> None:
    return None


@PAGES.shows("/tools/{tool_id}", "tools", live="catalog")
async def show_tool(visit: PageRequest) -> PageView:
    return await _page(visit)


@PAGES.takes("/tools/{tool_id}/call", "tools")
async def call_tool(visit: PageRequest) -> PageView | Redirect:
    """Call the tool through the one call path: under policy, recorded, and idempotent under its key."""
    form = visit.form
    given = {name.removeprefix("p_"): text for name, text in form.items() if name.startswith("p_") and text != ""}
    try:
        payload = {name: _value(name, text, form.get(f"k_{name}", "")) for name, text in given.items()}
    except InvalidInput as error:
        problem = {"title": "Bad Request", "detail": str(error), "code": error.code}
        return await _page(visit, problem=problem)
    body = {"tool_name": visit.path["tool_id"], "payload": payload, "session_id": f"console-{visit.me.user_id}"}
    try:
        answer = await visit.api.send("POST", "/v1/calls", body=body, key=form.get("key") or new_id())
    except ApiRefused as refusal:
        if refusal.status >= 500:
            raise
        return await _page(visit, problem=refusal.problem)
    if answer.status == 202:
        return Redirect(f"/console/review/calls/{quote(answer.body['error']['details']['approval_id'], safe='')}")
    return await _page(visit, answer=answer.body)


@PAGES.takes("/services/{service_id}/check", "tools")
async def check_service(visit: PageRequest) -> Redirect:
    """Look whether a service is there, now."""
    await visit.api.send("POST", api_path("services", visit.path["service_id"], "checks"))
    return Redirect("/console/tools#services")


async def _page(visit: PageRequest, *, problem: Any = None, answer: Any = None) -> PageView:
    tool_id = visit.path["tool_id"]
    tool = await visit.api.get("tools", tool_id)
    recent = await visit.api.get("events", tool_id=tool_id, newest=True, limit=8)
    values = {
        "tool": tool,
        "fields": _fields(tool["input_schema"], visit.form),
        "recent": recent["items"],
        "refusal": problem,
        "answer": answer,
        "key": new_id(),
        "can_call": tool.get("callable", True),
    }
    status = 200 if problem is None else 400
    return PageView("tool.html", tool_id, values, command=command_line("tools", "show", tool_id), status=status)


def _fields(schema: Mapping[str, Any], form: Mapping[str, str]) -> list[Field]:
    required = set(schema.get("required", ()))
    return [
        Field(
            name,
            _KINDS.get(str(part.get("type", "")), "json"),
            name in required,
            str(part.get("description", "")),
            form.get(f"p_{name}", ""),
        )
        for name, part in schema.get("properties", {}).items()
    ]


def _value(name: str, text: str, kind: str) -> Any:
    """Return what was typed as an argument: a text as it stands, anything else as JSON.

    InvalidInput names the argument.
    """
    if kind == "string":
        return text
    try:
        return parse_json(text)
    except InvalidInput:
        wanted = {"number": "a number", "boolean": "true or false"}.get(kind, "JSON, with texts in double quotes")
        raise InvalidInput(f"{name} must be {wanted}, not {cut(text, 60)!r}", field=name) from None
