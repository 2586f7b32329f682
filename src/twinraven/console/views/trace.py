"""Shows the trace of any record: back to its goal, and forward to its effects."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.api_caller import ApiRefused
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.formatting import spaced
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.effects import effect_lines

PAGES: Final = PageTable()
_PLACES: Final = {
    "run": "runs",
    "task": "tasks",
    "approval": "review/calls",
    "audit_entry": "audit",
    "event": "calls",
    "plan": "plans",
    "session": "sessions",
    "process": "processes",
    "conversation": "talk",
}
_LOOKS: Final = {
    "approval": "good",
    "goal": "now",
    "campaign": "now",
    "audit_entry": "quiet",
    "ledger_transfer": "quiet",
}
_STANDS: Final = {"approve": "good", "reject": "bad", "failed": "bad", "unknown": "wait", "escalate": "wait"}
_EFFECTS: Final = frozenset({"publish_event", "message", "transaction"})


@PAGES.shows("/trace", "trace", needs="trace")
async def find_trace(visit: PageRequest) -> PageView | Redirect:
    key = visit.query.get("id", "").strip()
    if key:
        return Redirect(f"/console/trace/{quote(key, safe='')}")
    values = {"found": None, "picture": None, "lines": [], "key": "", "effects": await effect_lines(visit)}
    return PageView("trace.html", "Trace", values, command="twinraven effects list transaction")


@PAGES.shows("/trace/{key}", "trace", needs="trace")
async def show_trace(visit: PageRequest) -> PageView:
    key = visit.path["key"]
    try:
        found = await visit.api.get("trace", key)
    except ApiRefused as refusal:
        if refusal.status != 404:
            raise
        # Whoever mistyped an id types it again in the same place.
        missing: dict[str, Any] = {
            "found": None,
            "picture": None,
            "lines": [],
            "key": key,
            "effects": [],
            "is_missing": True,
        }
        # Nothing here tells when it was made: what is another's is answered as if it had never been.
        values = {**missing, "live": "", "begun": ""}
        return PageView("trace.html", "Trace", values, command=command_line("trace", key), status=404)
    noted = _entries(found)
    nodes = tuple(_node(each, found["start"], noted) for each in found["nodes"] if not _is_folded(each, found["start"]))
    edges = tuple(GraphEdge(each["before"], each["after"], note=each["word"]) for each in found["links"])
    values = {
        "found": found,
        "picture": await asyncio.to_thread(graph, nodes, edges, title=f"How {found['start']} came to be"),
        "lines": [(each, place_of(each)) for each in found["nodes"]],
        "key": key,
        "effects": [],
    }
    return PageView("trace.html", f"Trace of {key}", values, command=command_line("trace", key))


def place_of(node: Mapping[str, Any]) -> str:
    """Return the page of a record, or its trace where it has no page of its own."""
    folder = _PLACES.get(node["kind"])
    name = quote(str(node["id"]), safe="")
    return f"/console/trace/{quote(node['key'], safe='')}" if folder is None else f"/console/{folder}/{name}"


def _is_folded(node: Mapping[str, Any], start: str) -> bool:
    """Return whether a record is counted on its neighbour in the picture, and stands in the table alone."""
    return node["kind"] == "audit_entry" and node["key"] != start


def _entries(found: Mapping[str, Any]) -> Counter[str]:
    """Return how many audit entries hang on each record."""
    folded = {each["key"] for each in found["nodes"] if _is_folded(each, found["start"])}
    pairs = [(each["before"], each["after"]) for each in found["links"]]
    return Counter(
        other for before, after in pairs for other, entry in ((before, after), (after, before)) if entry in folded
    )


def _node(node: Mapping[str, Any], start: str, noted: Mapping[str, int]) -> GraphNode:
    entries = noted.get(node["key"], 0)
    look = _STANDS.get(str(node["status"])) or _LOOKS.get(node["kind"], "done" if node["kind"] in _EFFECTS else "")
    return GraphNode(
        node["key"],
        place_of(node),
        f"{look} chosen".strip() if node["key"] == start else look,
        " · ".join(filter(None, (_kind(node), f"+{entries} audit" if entries else ""))),
        node["title"],
    )


def _kind(node: Mapping[str, Any]) -> str:
    return spaced(" ".join(filter(None, (node["kind"], node["status"]))))
