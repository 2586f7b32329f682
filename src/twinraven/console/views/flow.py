"""Shows the graph of transitions: which tool agents call directly after which, with its table."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from twinraven.console.drawing.columns import meter
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.drawing.placement import commonest
from twinraven.console.page_requests import PageRequest, PageTable, PageView
from twinraven.foundation.clock import iso

PAGES: Final = PageTable()
_DRAWN: Final = 24
_ASKED: Final = 500
_SPANS: Final = (("1", "a day"), ("7", "7 days"), ("30", "30 days"))


@PAGES.shows("/flow", "flow")
async def what_follows(visit: PageRequest) -> PageView:
    query = visit.query
    days = query.get("days", "7") if query.get("days") in dict(_SPANS) else "7"
    now = datetime.now(UTC)
    span = {
        "since": query.get("since") or iso(now - timedelta(days=int(days))),
        "until": query.get("until") or iso(now),
    }
    found = (await visit.api.get("transitions", limit=_ASKED, **span))["items"]
    tool_id = query.get("tool_id", "")
    if tool_id:
        found = [each for each in found if tool_id in (each["from_tool"], each["to_tool"])]
    counts = {(each["from_tool"], each["to_tool"]): each["count"] for each in found}
    shown = commonest(counts, _DRAWN)
    names = list(dict.fromkeys(name for edge in shown for name in edge))
    nodes = tuple(
        GraphNode(
            name, f"/console/flow?{urlencode({'tool_id': name, 'days': days})}", "chosen" if name == tool_id else ""
        )
        for name in names
    )
    edges = tuple(GraphEdge(a, b, float(number), f"{number:,}") for (a, b), number in shown.items())
    # Untangling a large graph takes a while, which the calls of agents must not wait for.
    picture = await asyncio.to_thread(graph, nodes, edges, title="What follows what", weighted=True)
    most = max(counts.values(), default=1)
    values: dict[str, Any] = {
        "picture": picture,
        "is_empty": not found and not await _has_calls(visit),
        "lines": [(each, meter(each["count"] / most)) for each in found[:100]],
        "left_out": len(counts) - len(shown),
        "tool_id": tool_id,
        "days": days,
        "spans": _SPANS,
        "sessions": f"/console/sessions?tool_id={quote(tool_id, safe='')}" if tool_id else "",
    }
    return PageView("flow.html", "What follows what", values, command="twinraven mine")


async def _has_calls(visit: PageRequest) -> bool:
    return bool((await visit.api.get("sessions", order="newest", limit=1))["items"])
