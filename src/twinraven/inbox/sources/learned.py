"""Shows learned tools that await approval as inbox items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

from twinraven.flow import ToolLookup
from twinraven.foundation.errors import NotFound
from twinraven.inbox.model import InboxAnswer, InboxChoice, InboxItem
from twinraven.registry import RegisteredTool, Registry, ToolVersion, review_version
from twinraven.tenancy import Principal

_CHOICES: Final = (
    InboxChoice("approve", "put this version into service"),
    InboxChoice("reject", "send it back; it is not proposed again on the same evidence", needs="note"),
)


class LearnedToolReviews:
    """Versions of learned tools that passed validation and wait for a decision."""

    kind: Literal["learned_tool"] = "learned_tool"

    def __init__(self, registry: Registry, lookup: Callable[[str], Awaitable[ToolLookup]]) -> None:
        """`lookup` gives, for a tenant, what finds the tools that a definition calls."""
        self._registry = registry
        self._lookup = lookup

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        waiting = await self._registry.awaiting(tenant_id)
        if not waiting:
            return []
        find = await self._lookup(tenant_id)
        return [await self._item(tenant_id, tool, version, find) for tool, version in waiting]

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        tool_id, _, number = ref.rpartition("@")
        tool = await self._registry.tool(tenant_id, tool_id)
        version = tool.version(int(number)) if number.isdecimal() and len(number) < 10 else None
        if version is None:
            raise NotFound(f"{tool_id!r} has no version {number!r}", tool_id=tool_id)
        return await self._item(tenant_id, tool, version, await self._lookup(tenant_id))

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        tool_id, _, number = item.ref.rpartition("@")
        version, seen = int(number), int(item.evidence["revision"])
        if said.choice == "approve":
            await self._registry.promote(
                item.tenant_id, tool_id, version=version, by=by.user_id, expected_revision=seen
            )
        else:
            await self._registry.reject(
                item.tenant_id, tool_id, reason=said.note, version=version, by=by.user_id, expected_revision=seen
            )

    async def _item(self, tenant_id: str, tool: RegisteredTool, version: ToolVersion, find: ToolLookup) -> InboxItem:
        chain = await self._registry.chain(tenant_id, version.definition.source_chain_id)
        review = review_version(tool, version.version, chain, find)
        is_open = version.is_waiting and not tool.record.is_retired
        return InboxItem(
            tenant_id=tenant_id,
            kind="learned_tool",
            ref=f"{version.tool_id}@{version.version}",
            what=f"put {version.tool_id} v{version.version} into service, which may {review.entry.effect.value}",
            target=version.tool_id,
            why="a learned tool is offered to nobody before a person has read it",
            choices=_CHOICES,
            asked_at=version.created_at,
            evidence={**review.as_json(), "revision": tool.record.revision},
            state="open" if is_open else "decided",
            decision=None if is_open else _decision(version),
            decided_at=version.promoted_at,
        )


def _decision(version: ToolVersion) -> str:
    return "approve" if version.promoted_at is not None else "reject"
