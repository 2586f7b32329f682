"""Shows chains that mining found, what became of each, and begins a round of learning."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from twinraven.console.api_caller import items_of, members
from twinraven.console.page_requests import PageRequest, PageTable, PageView, Redirect, command_line

PAGES: Final = PageTable()
_PER_PAGE: Final = 100
_SAMPLES: Final = 12


@dataclass(frozen=True, slots=True)
class ChainLine:
    """One chain, and what became of it."""

    chain: Mapping[str, Any]
    became: str
    href: str
    why: str = ""
    """Why it became no tool, as far as a round of learning said."""


@PAGES.shows("/chains", "chains", live="catalog")
async def list_chains(visit: PageRequest) -> PageView:
    page, learned, rounds = await asyncio.gather(
        visit.api.get("chains", limit=_PER_PAGE, cursor=visit.query.get("cursor")),
        visit.api.get("learned-tools", limit=500),
        visit.api.find("learning", limit=10),
    )
    made = await _tools_by_chain(visit, learned["items"])
    more = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
    values = {
        "lines": [_line(each, made, _refusals(items_of(rounds))) for each in page["items"]],
        "rounds": items_of(rounds),
        "more": None if more is None else f"/console/chains?{urlencode(more)}",
    }
    return PageView("chains.html", "Chains", values, command="twinraven chains list")


async def _tools_by_chain(visit: PageRequest, learned: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return which learned tool came from which tools in a row."""
    asked = list(visit.api.asked)
    found = await asyncio.gather(
        *(
            visit.api.find("learned-tools", each["tool_id"], "versions", str(each["current_version"]))
            for each in learned
        )
    )
    visit.api.asked[:] = asked
    return {
        str(definition["source_chain_id"]): record
        for record, definition in zip(learned, found, strict=True)
        if definition is not None
    }


def _refusals(rounds: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], str]:
    """Why chains became no tool, by their tools; the newest round that says so counts."""
    told = [left for each in reversed(rounds) for left in members(each["outcome"]).get("refused", ())]
    return {tuple(left["tools"]): str(left["reason"]) for left in told}


def _line(
    chain: Mapping[str, Any], made: Mapping[str, Mapping[str, Any]], refusals: Mapping[tuple[str, ...], str]
) -> ChainLine:
    record = made.get(chain["chain_id"])
    if record is None:
        return ChainLine(chain, "", "", refusals.get(tuple(chain["tools"]), ""))
    return ChainLine(chain, record["status"], f"/console/learned/{quote(record['tool_id'], safe='')}")


@PAGES.shows("/chains/{chain_id}", "chains")
async def show_chain(visit: PageRequest) -> PageView:
    chain = await visit.api.get("chains", visit.path["chain_id"])
    asked = list(visit.api.asked)
    samples = await asyncio.gather(
        *(visit.api.find("events", event_id) for event_id in chain["sample_event_ids"][:_SAMPLES])
    )
    visit.api.asked[:] = asked
    values = {
        "chain": chain,
        "samples": [each for each in samples if each is not None],
        "sample_count": len(chain["sample_event_ids"]),
    }
    command = command_line("chains", "show", chain["chain_id"])
    return PageView("chain.html", ", ".join(chain["tools"]), values, command=command)


@PAGES.takes("/chains/learn", "chains")
async def start_learning(visit: PageRequest) -> Redirect:
    """Begin a round in the background."""
    await visit.api.post("learning", body={"with_model": False})
    return Redirect("/console/chains")
