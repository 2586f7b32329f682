"""Shows the audit log, one entry, and whether the chain is whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from twinraven.console.api_caller import members
from twinraven.console.formatting import spaced
from twinraven.console.page_requests import PageRequest, PageTable, PageView, command_line
from twinraven.console.views.spans import day_of

PAGES: Final = PageTable()
_FILTERS: Final = ("event_type", "subject_type", "subject_id", "actor_id", "correlation_id", "since", "until")
_PER_PAGE: Final = 100
_PLACES: Final = {
    "run": "runs",
    "task": "tasks",
    "approval": "review/calls",
    "learned_tool": "learned",
    "tool": "tools",
    "session": "sessions",
    "process": "processes",
    "conversation": "talk",
    "entity": "entities",
    "plan": "plans",
}
_TRACED: Final = frozenset(
    {"campaign", "goal", "worker_run", "worker_result", "judge_decision", "transaction", "publish_event", "message"}
)


@PAGES.shows("/audit", "audit")
async def list_audit(visit: PageRequest) -> PageView:
    where = {name: visit.query[name] for name in _FILTERS if visit.query.get(name)}
    where |= {name: day_of(where[name]) for name in ("since", "until") if name in where}
    page = await visit.api.get("audit", newest=True, limit=_PER_PAGE, cursor=visit.query.get("cursor"), **where)
    verified = await visit.api.get("audit", "verification") if "verify" in visit.query else None
    more = {**where, "cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "entries": [(each, about(each), subject_page(each)) for each in page["items"]],
        "where": where,
        "verified": verified,
        "more": None if more is None else f"/console/audit?{urlencode(more)}",
        "kinds": sorted({each["event_type"] for each in page["items"]}),
    }
    command = "twinraven audit verify" if verified else command_line("audit", "show", *_options(where))
    return PageView("audit.html", "Audit log", values, command=command)


@PAGES.shows("/audit/{entry_id}", "audit")
async def show_entry(visit: PageRequest) -> PageView:
    entry = await visit.api.get("audit", visit.path["entry_id"])
    command = command_line("audit", "show", entry["id"])
    values = {
        "entry": entry,
        "href": subject_page(entry),
        "session_id": members(entry["data_json"]).get("session_id"),
    }
    return PageView("audit_entry.html", f"Entry {entry['sequence']}", values, command=command)


def _options(where: Mapping[str, str]) -> list[str]:
    """Return the filters of the list as options of the command."""
    named = {
        "event_type": "--event",
        "subject_id": "--subject",
        "actor_id": "--actor",
        "correlation_id": "--correlation",
        "since": "--since",
        "until": "--until",
    }
    return [word for name, option in named.items() if name in where for word in (option, where[name])]


def about(entry: Mapping[str, Any]) -> str:
    """Describe the subject of an entry in a few words."""
    tool_id = members(entry["data_json"]).get("tool_id")
    return str(tool_id or f"{spaced(entry['subject_type'])} {entry['subject_id']}")


def subject_page(entry: Mapping[str, Any]) -> str:
    """Return the page of what an entry is about, or its trace; empty where it has neither."""
    kind, name = entry["subject_type"], quote(str(entry["subject_id"]), safe="")
    if kind in _PLACES:
        return f"/console/{_PLACES[kind]}/{name}"
    return f"/console/trace/{name}" if kind in _TRACED else ""
