"""Finds sessions, calls, tools and keys by their ids and names, and goes there at once where one thing fits exactly."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.api_caller import ApiRefused
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect

PAGES: Final = PageTable()
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@PAGES.shows("/find", "find")
async def find(visit: PageRequest) -> PageView | Redirect:
    wanted = visit.query.get("q", "").strip()
    if not wanted:
        return PageView("find.html", "Find", {"wanted": "", "hits": []}, command="")
    if _UUID.fullmatch(wanted):
        event = await _maybe(visit.api.get("events", wanted))
        if event is not None:
            return Redirect(f"/console/sessions/{quote(event['session_id'], safe='')}?call={wanted}")
    found = await visit.api.get("search", q=wanted, limit=50)
    exact = [each for each in found["items"] if each["id"] == wanted]
    if len(exact) == 1:
        return Redirect(place_of(exact[0]))
    hits = [(each, place_of(each)) for each in found["items"]]
    return PageView("find.html", f"Find {wanted}", {"wanted": wanted, "hits": hits}, command="")


async def _maybe(asked: Any) -> Any:
    try:
        return await asked
    except ApiRefused:
        return None


def place_of(hit: Any) -> str:
    """Return the page of something that was found."""
    name = quote(hit["id"], safe="")
    return {
        "session": f"/console/sessions/{name}",
        "tool": f"/console/tools/{name}",
        "learned_tool": f"/console/learned/{name}",
        "run": f"/console/runs/{name}",
        "process": f"/console/processes/{name}",
        "entity": f"/console/entities/{name}",
        "key": f"/console/keys/{name}",
        "approval": f"/console/review/calls/{name}",
    }.get(hit["kind"], "/console/")
