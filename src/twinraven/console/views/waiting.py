"""Gathers what waits for a person, from the one inbox of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.visits import Visit
from twinraven.console.words import brief

_MOST: Final = 200
KINDS: Final[Mapping[str, str]] = {
    "call": "calls",
    "learned_tool": "learned tools",
    "changed_tool": "changed upstream tools",
    "question": "questions of runs",
    "judgement": "escalations",
    "unknown_step": "steps with an unknown end",
    "unknown_effect": "unknown effects",
    "duplicate": "entities that may be one",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that waits for a decision."""

    item_id: str
    kind: str
    name: str
    about: str
    why: str
    since: str
    href: str
    by: str | None
    ends: str | None
    cost: str


async def everything_waiting(visit: Visit) -> list[Waiting]:
    """All of it: what ends first, then the longest waiting."""
    found = [waiting_of(each) for each in (await visit.api.get("inbox", limit=_MOST))["items"]]
    return sorted(found, key=lambda each: (each.ends is None, each.ends or "", each.since))


async def next_waiting(visit: Visit, item_id: str) -> str:
    """Where the next thing is after one was looked at or decided."""
    rest = [each for each in await everything_waiting(visit) if each.item_id != item_id]
    return rest[0].href if rest else "/console/review"


async def waiting_count(visit: Visit) -> int:
    """How much waits, for the badge of the menu."""
    return int((await visit.api.send("GET", "/v1/inbox?limit=1")).body["count"])


def waiting_of(item: Mapping[str, Any]) -> Waiting:
    """An item of the inbox as a line of the queue."""
    kind, ref, evidence = item["kind"], str(item["ref"]), item["evidence"]
    about = str(item["what"])
    href = f"/console/review/items/{quote(item['item_id'], safe='')}"
    if kind == "call":
        about = brief(evidence.get("arguments", {}), 110) or about
        href = f"/console/review/calls/{quote(ref, safe='')}"
    elif kind == "learned_tool":
        tool_id, _, version = ref.rpartition("@")
        about = f"learned tool, version {version}"
        href = f"/console/review/tools/{quote(tool_id, safe='')}/{quote(version, safe='')}"
    return Waiting(
        item_id=item["item_id"],
        kind=kind,
        name=str(item["target"]),
        about=about,
        why=str(item["why"]).removeprefix(f"'{item['target']}': "),
        since=item["asked_at"],
        href=href,
        by=item["requested_by"],
        ends=item["expires_at"],
        cost=cost_of(item["cost"]),
    )


def cost_of(cost: Mapping[str, Any] | None) -> str:
    """What saying yes costs, in words."""
    if cost is None:
        return ""
    parts: list[str] = []
    if cost["amount_minor"] is not None:
        parts.append(f"{cost['amount_minor'] / 100:,.2f} {cost['currency'] or ''}".strip())
    if cost["tokens"]:
        parts.append(f"{cost['tokens']:,} tokens")
    return ", ".join(parts)


def plain_reason(approval: Mapping[str, Any]) -> str:
    """Why a call asks, without the name of its tool in front, which stands beside it already."""
    return str(approval["reason"]).removeprefix(f"'{approval['tool_id']}': ")
