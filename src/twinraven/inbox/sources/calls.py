"""Shows calls that policy leaves to people (approvals) as inbox items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from twinraven.calls import Approval, Approvals
from twinraven.inbox.model import InboxAnswer, InboxChoice, InboxItem, ItemState
from twinraven.tenancy import Principal

_CHOICES: Final = (
    InboxChoice("approve", "let the call run, once"),
    InboxChoice("deny", "refuse the call; who makes it again reads the note"),
)
_STATES: Final[dict[str, ItemState]] = {"pending": "open", "expired": "expired"}
_MOST: Final = 1_000


class CallApprovals:
    """Lists and decides calls that wait for an approval."""

    kind: Literal["call"] = "call"

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        return [_item(each) for each in await self._approvals.list(tenant_id, state="pending", limit=_MOST)]

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        return _item(await self._approvals.get(tenant_id, ref))

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        """Grant or deny; a request never changes, so what was shown is what is decided."""
        act = self._approvals.grant if said.choice == "approve" else self._approvals.deny
        await act(item.tenant_id, item.ref, by=by, note=said.note)


def _item(approval: Approval) -> InboxItem:
    return InboxItem(
        tenant_id=approval.tenant_id,
        kind="call",
        ref=approval.approval_id,
        what=f"call {approval.tool_id}, which may {_effect_word(approval.effect)}",
        target=approval.tool_id,
        why=approval.reason,
        choices=_CHOICES,
        asked_at=approval.requested_at,
        evidence={
            "arguments": approval.arguments,
            "covers": list(approval.covers),
            "definition": dict(approval.definition),
            "effect": approval.effect,
            "sensitivity": approval.sensitivity,
            "rule": approval.rule,
            "idempotency_key": approval.idempotency_key,
            "session_id": approval.session_id,
        },
        requested_by=approval.requested_by,
        expires_at=approval.expires_at,
        state=_STATES.get(approval.state, "decided"),
        decision={"granted": "approve", "denied": "deny"}.get(approval.verdict or ""),
        decided_by=approval.decided_by,
        decided_at=approval.decided_at,
        correlation_id=approval.correlation_id,
    )


def _effect_word(effect: str) -> str:
    return {"read": "only read", "write": "write"}.get(effect, "change anything")
