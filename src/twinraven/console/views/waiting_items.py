"""Gathers what waits for a person, from the one inbox of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.api_caller import ApiRefused, api_path, members
from twinraven.console.formatting import brief, percent
from twinraven.console.page_requests import PageRequest, Redirect

AGAIN_S: Final = 60
"""How often a page that is looked at says so; what it says holds for twice as long."""
_MOST: Final = 200
_MOST_TASKS: Final = 50
_NOT_THEIRS: Final = (403, 404, 409)
_NO_ITEM: Final = (400, 403, 404)
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
class WaitingItem:
    """One item that waits for a decision."""

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
    worth: float
    """The turns that it would save, where it is a learned tool."""
    holds: str
    """What of a wallet cannot be spent as long as it waits."""
    looking: str
    """Which others are looking at it just now."""


@dataclass(frozen=True, slots=True)
class DecidedItem:
    """One item that was decided a moment ago, and where it is seen."""

    name: str
    about: str
    decision: str
    href: str


async def everything_waiting(visit: PageRequest, kind: str = "") -> tuple[list[WaitingItem], int]:
    """Return the longest waiting, of one kind or of all, by urgency; and how much waits in all."""
    page = await visit.api.get("inbox", limit=_MOST, kind=kind or None)
    names = await task_names(visit, page["items"])
    looking = await _others_looking(visit) if page["items"] else {}
    found = [waiting_of(each, names, looking.get(each["item_id"], ())) for each in page["items"]]
    return sorted(found, key=_urgency), int(page["count"])


def _urgency(item: WaitingItem) -> tuple[bool, str, float, str]:
    """Order what ends first, then what is worth most, then by age."""
    return item.ends is None, item.ends or "", -item.worth, item.since


async def next_waiting(visit: PageRequest, item_id: str) -> str:
    """Return the URL of the next item after one was viewed or decided; what nobody else is looking at comes first."""
    found, _ = await everything_waiting(visit)
    others = sorted((each for each in found if each.item_id != item_id), key=lambda each: bool(each.looking))
    return others[0].href if others else "/console/review"


async def after_decision(visit: PageRequest, item_id: str) -> Redirect:
    """Lead on to what waits next, where it is said what was decided."""
    return Redirect(f"{await next_waiting(visit, item_id)}?decided={quote(item_id, safe='')}")


async def decided_before(visit: PageRequest) -> DecidedItem | None:
    """Return what was decided on the page before, as it stands now; None where the address names no such thing."""
    item_id = visit.query.get("decided")
    if not item_id:
        return None
    try:
        item = await visit.api.get("inbox", item_id)
    except ApiRefused as refusal:
        if refusal.status not in _NO_ITEM:
            raise
        return None
    if not item["decision"]:
        return None
    line = waiting_of(item, await task_names(visit, [item]))
    learned = f"/console/learned/{quote(line.name, safe='')}"
    return DecidedItem(line.name, line.about, item["decision"], learned if line.kind == "learned_tool" else line.href)


async def look_at(visit: PageRequest, item_id: str) -> str:
    """Reserve an open item for whoever views it, if they may decide it, and return which others are looking at it."""
    try:
        found = await visit.api.send("PUT", api_path("inbox", item_id, "reservation"))
    except ApiRefused as refusal:
        if refusal.status not in _NOT_THEIRS:
            raise
        return ""
    return _looking([each["name"] for each in found.body["items"] if each["user_id"] != visit.me.user_id])


async def _others_looking(visit: PageRequest) -> dict[str, list[str]]:
    """Return the names of the others who are looking at items, by item."""
    found = await visit.api.send("GET", "/v1/inbox-reservations")
    names: dict[str, list[str]] = {}
    for each in found.body["items"]:
        if each["user_id"] != visit.me.user_id:
            names.setdefault(each["item_id"], []).append(each["name"])
    return names


def _looking(names: Sequence[str]) -> str:
    """Say who is looking."""
    if not names:
        return ""
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return f"{listed} {'is' if len(names) == 1 else 'are'} looking"


async def waiting_count(visit: PageRequest, kind: str = "") -> int:
    """Return the number of waiting items, for the badge of the menu."""
    of_kind = f"&kind={kind}" if kind else ""
    return int((await visit.api.send("GET", f"/v1/inbox?limit=1{of_kind}")).body["count"])


async def task_names(visit: PageRequest, items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the descriptions of the tasks of escalated results, by their ids."""
    ids = {each["evidence"]["task_id"] for each in items if each["kind"] == "judgement"}
    names: dict[str, str] = {}
    for task_id in sorted(ids)[:_MOST_TASKS]:
        found = await visit.api.send("GET", api_path("tasks", task_id))
        names[task_id] = task_words(found.body)
    return names


def task_words(task: Mapping[str, Any]) -> str:
    """Return the description of a task, in the words of its spec."""
    return str(members(task["spec_json"]).get("description") or task["task_type"])


def waiting_of(item: Mapping[str, Any], names: Mapping[str, str], looking: Sequence[str] = ()) -> WaitingItem:
    """Return an item of the inbox as a line of the queue; `names` says what tasks are about."""
    kind, ref, evidence = item["kind"], str(item["ref"]), item["evidence"]
    name, about = _told(item, names)
    why = str(item["why"]).removeprefix(f"'{item['target']}': ")
    href = f"/console/review/items/{quote(item['item_id'], safe='')}"
    if kind == "call":
        about = brief(evidence.get("arguments", {}), 110) or about
        href = f"/console/review/calls/{quote(ref, safe='')}"
    elif kind == "learned_tool":
        tool_id, _, version = ref.rpartition("@")
        name, about = str(item["target"]), f"learned tool, version {version}"
        href = f"/console/review/tools/{quote(tool_id, safe='')}/{quote(version, safe='')}"
    return WaitingItem(
        item_id=item["item_id"],
        kind=kind,
        name=name,
        about=about,
        # What stands in the first line is not said again in the second.
        why=why if about != why else "a run waits for the answer",
        since=item["asked_at"],
        href=href,
        by=item["requested_by"],
        ends=item["expires_at"],
        cost=cost_of(item["cost"]),
        worth=float(members(evidence.get("savings")).get("turns_saved") or 0) if kind == "learned_tool" else 0.0,
        holds=hold_of(item["holds"]),
        looking=_looking(looking),
    )


def _told(item: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, str]:
    """Return what an item is called and what it is about, in words instead of ids."""
    kind, evidence, target = item["kind"], item["evidence"], str(item["target"])
    what = str(item["what"])
    if kind == "judgement":
        return names.get(evidence["task_id"], target), f"decide whether attempt {evidence['attempt_number']} stands"
    if kind == "duplicate":
        first, second = evidence["names"]
        return (
            f"{first} and {second}",
            f"decide whether the two are one; they are {percent(evidence['similarity'])} alike",
        )
    if kind == "unknown_effect":
        request = members(evidence["request"])
        if "amount" in request:
            return f"{request['amount']} {request['currency']} to {request['counterparty']}", what
        return f"{target}: {brief(request.get('text', ''), 60)}", what
    if kind == "question":
        return target, str(item["why"])
    return target, what


def cost_of(cost: Mapping[str, Any] | None) -> str:
    """Format the cost of approving an item."""
    if cost is None:
        return ""
    parts: list[str] = []
    if cost["amount_minor"] is not None:
        parts.append(f"{cost['amount'] or cost['amount_minor']} {cost['currency'] or ''}".strip())
    if cost["tokens"]:
        parts.append(f"{cost['tokens']:,} tokens")
    return ", ".join(parts)


def hold_of(hold: Mapping[str, Any] | None) -> str:
    """Format the money that is held while an item waits."""
    return "" if hold is None else f"{hold['amount']} {hold['currency']}"


def plain_reason(approval: Mapping[str, Any]) -> str:
    """Why a call asks, without the name of its tool in front, which stands beside it already."""
    return str(approval["reason"]).removeprefix(f"'{approval['tool_id']}': ")
