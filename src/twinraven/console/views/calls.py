"""Shows calls by status, tool, code and time, and one call with its arguments and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from twinraven.console.visits import PageTable, Shown, Visit, command_line

PAGES: Final = PageTable()
_FILTERS: Final = ("raised", "tool_id", "error_code", "tag", "session_id", "correlation_id", "since", "until")
_PER_PAGE: Final = 100


@PAGES.shows("/calls", "calls", live="events", held=True)
async def list_calls(visit: Visit) -> Shown:
    where = {name: visit.query[name] for name in _FILTERS if visit.query.get(name)}
    page = await visit.api.get("events", newest=True, limit=_PER_PAGE, cursor=visit.query.get("cursor"), **where)
    more = {**where, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values: dict[str, Any] = {
        "events": page["items"],
        "where": where,
        "is_later": "cursor" in visit.query,
        "more": None if more is None else f"/console/calls?{urlencode(more)}",
    }
    return Shown("calls.html", "Calls", values, command=command_line("events", "list", "--newest", *_options(where)))


def _options(where: Mapping[str, str]) -> list[str]:
    """The filters of the list as options of the command, as far as it has them."""
    named = {"tool_id": "--tool", "session_id": "--session", "tag": "--tag", "since": "--since", "until": "--until"}
    return [word for name, option in named.items() if name in where for word in (option, where[name])]


@PAGES.shows("/calls/{event_id}", "calls")
async def show_call(visit: Visit) -> Shown:
    event = await visit.api.get("events", visit.path["event_id"])
    command = command_line("events", "show", event["event_id"])
    return Shown("call.html", event["tool_id"], {"event": event, "chosen": event["event_id"]}, command=command)


@PAGES.shows("/keys/{key}", "calls")
async def show_key(visit: Visit) -> Shown:
    """What happened under an idempotency key."""
    found = await visit.api.get("idempotency-keys", visit.path["key"])
    return Shown(
        "key.html",
        f"Key {found['idempotency_key']}",
        {"found": found},
        command=command_line("trace", found["idempotency_key"]),
    )
