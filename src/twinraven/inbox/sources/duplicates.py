"""Shows proposals to merge two entities as inbox items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from twinraven.inbox.model import InboxAnswer, InboxChoice, InboxItem
from twinraven.knowledge import Entities, MergeProposal
from twinraven.tenancy import Principal

_CHOICES: Final = (
    InboxChoice("merge", "make one of the two; it can be undone"),
    InboxChoice("reject", "they are two; it is not proposed again"),
)


class EntityDuplicates:
    """Entities that may be one."""

    kind: Literal["duplicate"] = "duplicate"

    def __init__(self, entities: Entities) -> None:
        self._entities = entities

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        return [_item(tenant_id, each) for each in await self._entities.proposals(tenant_id)]

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        return _item(tenant_id, await self._entities.proposal(tenant_id, ref))

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        await self._entities.decide_proposal(
            item.tenant_id, item.ref, is_one=said.choice == "merge", by=by.user_id, actor=by.actor
        )


def _item(tenant_id: str, proposal: MergeProposal) -> InboxItem:
    return InboxItem(
        tenant_id=tenant_id,
        kind="duplicate",
        ref=proposal.proposal_id,
        what=f"merge {proposal.second_name!r} into {proposal.first_name!r}",
        target=proposal.first_id,
        why="two that may be one are merged only when somebody says so",
        choices=_CHOICES,
        asked_at=proposal.created_at,
        evidence={
            "first_id": proposal.first_id,
            "second_id": proposal.second_id,
            "similarity": proposal.similarity,
            **proposal.evidence,
        },
        state="open" if proposal.status == "open" else "decided",
        decision={"merged": "merge", "rejected": "reject"}.get(proposal.status),
        decided_by=proposal.decided_by,
        decided_at=proposal.decided_at,
    )
