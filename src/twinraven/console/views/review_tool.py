"""Shows one version of a learned tool with all the evidence, and takes the decision on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinraven.console.api_caller import ApiRefused, typed_value
from twinraven.console.drawing.wiring import wiring
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line
from twinraven.console.views.waiting_items import AGAIN_S, after_decision, look_at, next_waiting

PAGES: Final = PageTable()
_STALE: Final = (409, 412)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of one argument of one step."""

    step: str
    """The step's tool, at its first argument; else nothing."""
    name: str
    words: str
    is_asked: bool
    agreed: int | None
    disagreed: int | None
    rivals: str


@PAGES.shows("/review/tools/{tool_id}/{version}", "review", live="catalog reservations")
async def review_tool(visit: PageRequest) -> PageView:
    return await _page(visit, refusal=None)


@PAGES.takes("/review/tools/{tool_id}/{version}", "review")
async def decide_tool(visit: PageRequest) -> PageView | Redirect:
    """Put the version that was shown into service, or reject it."""
    tool_id, form = visit.path["tool_id"], visit.form
    body: dict[str, Any] = {"version": typed_value(visit.path["version"])}
    if form.get("verdict") == "promote":
        wanted = form.get("as", "").strip()
        body |= {"as": wanted} if wanted and wanted != tool_id else {}
    else:
        body["reason"] = form.get("reason", "").strip()
    word = "promote" if form.get("verdict") == "promote" else "reject"
    try:
        await visit.api.post("learned-tools", tool_id, word, body=body, if_match=form.get("seen", ""))
    except ApiRefused as refusal:
        if refusal.status not in (*_STALE, 400):
            raise
        return await _page(visit, refusal=refusal)
    return await after_decision(visit, f"learned_tool:{tool_id}@{visit.path['version']}")


async def _page(visit: PageRequest, *, refusal: ApiRefused | None) -> PageView:
    tool_id, version = visit.path["tool_id"], visit.path["version"]
    review, found, definition, occasions = await asyncio.gather(
        visit.api.get("learned-tools", tool_id, "versions", version, "review"),
        visit.api.show("learned-tools", tool_id),
        visit.api.get("learned-tools", tool_id, "versions", version),
        visit.api.get("learned-tools", tool_id, "versions", version, "occasions"),
    )
    stored = next(each for each in found.body["versions"] if str(each["version"]) == version)
    given = list(review["parameters"].get("properties", {}))
    values = {
        "review": review,
        "tool": found.body,
        "stored": stored,
        "definition": definition,
        "seen": found.tag,
        "picture": wiring(tool_id, review["steps"], given),
        "sources": list(_sources(review["steps"])),
        "validation": review["validation"],
        "savings": review["savings"],
        "chain": review["chain"],
        "occasions": occasions["items"],
        "diff": [(_line_kind(line), line) for line in review["diff"]],
        "following": await next_waiting(visit, f"learned_tool:{tool_id}@{version}"),
        "form": visit.form,
        "looking": await look_at(visit, f"learned_tool:{tool_id}@{version}") if review["status"] == "testing" else "",
        "again_s": AGAIN_S,
        "refusal": None if refusal is None else refusal.problem,
    }
    command = command_line("approve", tool_id, "--version", version)
    status = 200 if refusal is None else refusal.status
    return PageView("review_tool.html", f"{tool_id} v{version}", values, command=command, status=status)


def _sources(steps: Sequence[Mapping[str, Any]]) -> Iterator[Source]:
    for step in steps:
        for number, argument in enumerate(step["arguments"]):
            yield Source(
                step=step["tool_id"] if number == 0 else "",
                name=argument["name"],
                words=argument["source"],
                is_asked=argument["for"] is None and argument["source"] == "asked of the caller",
                agreed=argument["for"],
                disagreed=argument["against"],
                rivals=", ".join(argument["also"]),
            )


def _line_kind(line: str) -> str:
    return {"+": "add", "-": "del", "@": "at"}.get(line[:1], "")
