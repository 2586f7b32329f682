"""Shows calls by status, tool, code and time, and one call with its arguments and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from twinraven.console.api_caller import ApiRefused
from twinraven.console.page_requests import PageRequest, PageTable, PageView, command_line
from twinraven.console.views.spans import last_day

PAGES: Final = PageTable()
_FILTERS: Final = ("raised", "tool_id", "error_code", "tag", "session_id", "correlation_id", "since", "until")
_PER_PAGE: Final = 100
_COMPARED: Final = 500
_MOST_KINDS: Final = 12
_NARROWED: Final = frozenset({"error_code", "tag", "session_id", "correlation_id"})
_BAD_REQUEST: Final = 400
_TOLD: Final[Mapping[str | None, str]] = {
    "success": "Its effect has happened. Whoever sends the same call under it gets the first answer.",
    "failed": "The call failed for good. Whoever sends it again under this key gets the same error.",
    "running": "The call is running. Whoever sends it again meanwhile is told to ask later.",
    "unknown": "Whether the call took effect is unknown, so it is not sent again until a person says what happened.",
}
_FREE: Final = "The key is free: a call under it asked for approval first, or failed in a way that may be tried again."


@PAGES.shows("/calls", "calls", live="events", held=True)
async def list_calls(visit: PageRequest) -> PageView:
    where = {name: visit.query[name] for name in _FILTERS if visit.query.get(name)}
    if visit.query.get("same_as"):
        return await _same_arguments(visit, visit.query["same_as"])
    page, kinds = await asyncio.gather(
        visit.api.get("events", newest=True, limit=_PER_PAGE, cursor=visit.query.get("cursor"), **where),
        _kinds_of_failure(visit, where),
    )
    more = {**where, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values: dict[str, Any] = {
        "events": page["items"],
        "where": where,
        "kinds": kinds,
        "alike": None,
        "is_later": "cursor" in visit.query,
        "more": None if more is None else f"/console/calls?{urlencode(more)}",
    }
    return PageView("calls.html", "Calls", values, command=command_line("events", "list", "--newest", *_options(where)))


async def _same_arguments(visit: PageRequest, event_id: str) -> PageView:
    """Show which of the newest calls of a tool had the arguments of one call."""
    event = await visit.api.get("events", event_id)
    page = await visit.api.get("events", tool_id=event["tool_id"], newest=True, limit=_COMPARED)
    values: dict[str, Any] = {
        "events": [each for each in page["items"] if each["input_hash"] == event["input_hash"]][:_PER_PAGE],
        "where": {"tool_id": event["tool_id"]},
        "kinds": [],
        "alike": {"event": event, "compared": len(page["items"])},
        "is_later": False,
        "more": None,
    }
    command = command_line("events", "list", "--newest", "--tool", event["tool_id"])
    return PageView("calls.html", "Calls", values, command=command)


async def _kinds_of_failure(visit: PageRequest, where: Mapping[str, str]) -> list[tuple[Mapping[str, Any], str]]:
    """Return what failed in the time of the list, by tool and code, each with the list of those calls."""
    if _NARROWED & where.keys() or "cursor" in visit.query or where.get("raised") == "false":
        return []
    span = {name: where[name] for name in ("since", "until") if name in where}
    if len(span) == 1:
        return []
    span = span or last_day()
    try:
        found = await visit.api.get("activity", **span, bucket_s=31 * 86_400, tools=0, failures=_MOST_KINDS)
    except ApiRefused as refusal:
        if refusal.status != _BAD_REQUEST:
            raise
        # More time than is counted at once: the list says what is wrong with a time, if anything is.
        return []
    return [
        (each, f"/console/calls?{urlencode({**span, 'raised': 'true', **_named(each)})}")
        for each in found["failures"]
        if where.get("tool_id") in (None, each["tool_id"])
    ]


def _named(failure: Mapping[str, Any]) -> dict[str, str]:
    code = {"error_code": failure["error_code"]} if failure["error_code"] else {}
    return {"tool_id": failure["tool_id"], **code}


def _options(where: Mapping[str, str]) -> list[str]:
    """Return the filters of the list as options of the command, as far as it has them."""
    named = {"tool_id": "--tool", "session_id": "--session", "tag": "--tag", "since": "--since", "until": "--until"}
    return [word for name, option in named.items() if name in where for word in (option, where[name])]


@PAGES.shows("/calls/{event_id}", "calls")
async def show_call(visit: PageRequest) -> PageView:
    event = await visit.api.get("events", visit.path["event_id"])
    command = command_line("events", "show", event["event_id"])
    return PageView("call.html", event["tool_id"], {"event": event, "chosen": event["event_id"]}, command=command)


@PAGES.shows("/keys/{key}", "calls")
async def show_key(visit: PageRequest) -> PageView:
    """Show the history of an idempotency key."""
    found = await visit.api.get("idempotency-keys", visit.path["key"])
    call = None if found["event_id"] is None else await visit.api.find("events", found["event_id"])
    return PageView(
        "key.html",
        f"Key {found['idempotency_key']}",
        {"found": found, "call": call, "told": _TOLD.get(found["state"], _FREE)},
        command=command_line("trace", found["idempotency_key"]),
    )
