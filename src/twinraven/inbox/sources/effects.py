"""Shows effects whose provider gave no answer as inbox items: a person looks and says what happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, cast

from twinraven.calls import EffectWord
from twinraven.effects import EFFECT_KINDS, Delivery, EffectKind, StoredEffect
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import NotFound
from twinraven.inbox.model import InboxAnswer, InboxChoice, InboxItem, ItemCost, ItemHold
from twinraven.tenancy import Principal

_CHOICES: Final = (
    InboxChoice(
        "happened",
        "it happened; say what the provider calls it",
        needs="answer",
        answer_schema={"type": "string", "minLength": 1, "maxLength": 500},
    ),
    InboxChoice("did_not_happen", "it did not happen: the effect failed, and money that was held is given back"),
)


class UnknownEffects:
    """Posts, messages and payments that may or may not have happened."""

    kind: Literal["unknown_effect"] = "unknown_effect"

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    async def open_items(self, tenant_id: str) -> Sequence[InboxItem]:
        return [_item(effect) for effect in await self._delivery.unknown(tenant_id)]

    async def find(self, tenant_id: str, ref: str) -> InboxItem:
        kind, _, effect_id = ref.partition(":")
        if kind not in EFFECT_KINDS:
            raise NotFound(f"no effect {ref!r}", effect_id=ref)
        return _item(await self._delivery.find(tenant_id, kind, effect_id))

    async def decide(self, item: InboxItem, said: InboxAnswer, *, by: Principal) -> None:
        kind, _, effect_id = item.ref.partition(":")
        await self._delivery.resolve(
            cast("EffectKind", kind), effect_id, cast("EffectWord", said.choice), by=by, external_id=said.answer
        )


def _item(effect: StoredEffect) -> InboxItem:
    row, error = effect.row, effect.row["error_json"]
    return InboxItem(
        tenant_id=effect.tenant_id,
        kind="unknown_effect",
        ref=f"{effect.kind}:{effect.effect_id}",
        what=f"settle whether this {effect.kind} happened; it is not sent again until then",
        target=str(row.get("channel") or row.get("wallet_id")),
        why="its provider may have been sent it and cannot say what became of it",
        choices=_CHOICES,
        asked_at=from_micros(row["updated_at"]),
        evidence={
            **effect.facts(),
            "request": effect.request,
            "attempts": effect.attempts,
            "error": None if error is None else parse_json(error, field="error"),
        },
        cost=ItemCost(row["amount"], row["currency"]) if effect.kind == "transaction" else None,
        holds=_hold(effect),
        requested_by=effect.requested_by,
        state="open" if effect.status == "unknown" else "decided",
        decision=None if effect.status == "unknown" else _word(effect.status),
        decided_by=None if effect.status == "unknown" else _decider(effect),
        decided_at=None if effect.status == "unknown" else from_micros(row["updated_at"]),
        correlation_id=effect.correlation_id,
    )


def _hold(effect: StoredEffect) -> ItemHold | None:
    """Return what a payment holds of its wallet and budget while its outcome is unknown."""
    if effect.kind != "transaction" or effect.status != "unknown":
        return None
    row = effect.row
    return ItemHold(row["amount"], row["currency"], row["wallet_id"], row["budget_id"])


def _decider(effect: StoredEffect) -> str:
    """Return whose word settled it: a person's, or the provider's."""
    told = effect.row["answer_json"] or effect.row["error_json"]
    said: dict[str, Any] = {} if told is None else parse_json(told, field="stored")
    details: dict[str, Any] = said.get("details") or said
    return str(details.get("stated_by") or effect.provider)


def _word(status: str) -> str:
    return "did_not_happen" if status == "failed" else "happened"
