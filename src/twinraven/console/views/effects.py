"""Lists effects: posts, messages and payments, each with its trace."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from twinraven.console.api_caller import items_of, members
from twinraven.console.page_requests import PageRequest

_MOST: Final = 50
_KINDS: Final = (
    ("publications", "post", "publish_id"),
    ("messages", "message", "message_id"),
    ("transactions", "payment", "transaction_id"),
)


@dataclass(frozen=True, slots=True)
class EffectLine:
    """One effect: what it is, where it went, and how it stands."""

    kind: str
    words: str
    status: str
    campaign_id: str
    task_id: str
    at: str
    by: str | None
    error_code: str | None
    href: str


async def effect_lines(visit: PageRequest, task_id: str | None = None) -> list[EffectLine]:
    """Return the effects, the newest first; of one task, or the last fifty of each kind."""
    kinds = [each for each in _KINDS if visit.has(each[0])]
    found = await asyncio.gather(*(visit.api.find(part, task_id=task_id, limit=_MOST) for part, _, _ in kinds))
    lines = [
        _line(kind, key, each) for (_, kind, key), page in zip(kinds, found, strict=True) for each in items_of(page)
    ]
    return sorted(lines, key=lambda each: each.at, reverse=True)


def _line(kind: str, key: str, effect: Mapping[str, Any]) -> EffectLine:
    error = members(effect.get("error"))
    return EffectLine(
        kind=kind,
        words=_words(kind, effect),
        status=str(effect["status"]),
        campaign_id=str(effect["campaign_id"]),
        task_id=str(effect["task_id"]),
        at=str(effect.get("created_at") or effect.get("requested_at") or effect["updated_at"]),
        by=effect.get("created_by") or effect.get("requested_by"),
        error_code=error.get("code"),
        href=f"/console/trace/{quote(str(effect[key]), safe='')}",
    )


def _words(kind: str, effect: Mapping[str, Any]) -> str:
    if kind == "payment":
        return f"{effect['amount']} {effect['currency']} to {effect['counterparty']}"
    request = members(effect.get("request"))
    said = str(request.get("text") or request.get("subject") or "")
    return f"on {effect['channel']}: {said}" if said else f"on {effect['channel']}"
