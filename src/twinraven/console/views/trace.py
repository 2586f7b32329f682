"""Shows how something came to be and what came of it: from any record back to its goal, and forward."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.visits import PageTable, Redirect, Shown, Visit

PAGES: Final = PageTable()
_PLACES: Final = {
    "run": "runs",
    "task": "tasks",
    "approval": "review/calls",
    "audit": "audit",
    "event": "calls",
    "plan": "plans",
    "session": "sessions",
    "process": "processes",
    "conversation": "talk",
}
_LOOKS: Final = {"decision": "good", "approval": "good", "goal": "learned", "campaign": "learned", "audit": "quiet"}
_EFFECTS: Final = frozenset({"publication", "message", "transaction", "effect"})


@PAGES.shows("/trace", "trace", needs="trace")
async def find_trace(visit: Visit) -> Shown | Redirect:
    key = visit.query.get("id", "").strip()
    if key:
        return Redirect(f"/console/trace/{quote(key, safe='')}")
    return Shown("trace.html", "Trace", {"found": None, "picture": None, "lines": [], "key": ""}, command="")


@PAGES.shows("/trace/{key}", "trace", needs="trace")
async def show_trace(visit: Visit) -> Shown:
    key = visit.path["key"]
    found = await visit.api.get("trace", key)
    nodes = tuple(_node(each, found["start"]) for each in found["nodes"])
    edges = tuple(GraphEdge(each["before"], each["after"], note=each["word"]) for each in found["links"])
    values = {
        "found": found,
        "picture": await asyncio.to_thread(graph, nodes, edges, title=f"How {found['start']} came to be"),
        "lines": [(each, place_of(each)) for each in found["nodes"]],
        "key": key,
    }
    return Shown("trace.html", f"Trace of {key}", values, command=f"twinraven trace {key}")


def place_of(node: Mapping[str, Any]) -> str:
    """The page of a record, or its trace where it has no page of its own."""
    folder = _PLACES.get(node["kind"])
    name = quote(str(node["id"]), safe="")
    return f"/console/trace/{quote(node['key'], safe='')}" if folder is None else f"/console/{folder}/{name}"


def _node(node: Mapping[str, Any], start: str) -> GraphNode:
    look = "wait" if node["kind"] in _EFFECTS else _LOOKS.get(node["kind"], "")
    return GraphNode(
        node["key"],
        place_of(node),
        f"{look} chosen".strip() if node["key"] == start else look,
        " ".join(filter(None, (node["kind"], node["status"]))),
        node["title"],
    )
