"""Models requests for effects, stored effects, and the orders and answers of providers. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, get_args

from twinraven.foundation.canonical import content_hash, parse_json
from twinraven.foundation.errors import IllegalTransition
from twinraven.governance import OutgoingContent

EffectKind = Literal["publish", "message", "transaction"]
SubjectType = Literal["publish_event", "message", "transaction"]

EFFECT_KINDS: Final[tuple[EffectKind, ...]] = get_args(EffectKind)
LOCAL_LEDGER: Final = "ledger"
"""The provider of wallets whose money is in our own ledger: a payment is a transfer there and nothing is sent."""


_POSTS: Final = "publish_events"
_MESSAGES: Final = "outgoing_messages"


class KindTable(NamedTuple):
    """The table of one kind of effect, and the column names that differ."""

    table: str
    key: str
    external: str
    done: str
    done_at: str
    first: str
    subject: SubjectType


TABLES: Final[Mapping[EffectKind, KindTable]] = {
    "publish": KindTable(
        _POSTS, "publish_id", "external_post_id", "published", "published_at", "scheduled", "publish_event"
    ),
    "message": KindTable(_MESSAGES, "message_id", "external_message_id", "sent", "sent_at", "scheduled", "message"),
    "transaction": KindTable(
        "transactions", "transaction_id", "provider_ref", "executed", "executed_at", "approved", "transaction"
    ),
}
WAS_SENT: Final = "was_sent"
"""Where the error of an attempt says whether anything may have been sent by then."""
OPEN: Final = frozenset({"scheduled", "pending", "approved", "sending"})
"""States in which an effect still has to be delivered."""


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """A request to publish: the content, the channel and the task."""

    task_id: str
    channel: str
    text: str
    idempotency_key: str
    media_asset_id: str | None = None
    disclosure: str | None = None
    """The words that tell readers how it was made; they are put under the text."""
    persona_id: str | None = None
    """In whose voice it speaks, where that is not the campaign's."""
    scheduled_at: datetime | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class MessageRequest:
    """A request to send a message: the text, the recipient, the channel and the task."""

    task_id: str
    channel: str
    recipient: str
    text: str
    idempotency_key: str
    persona_id: str | None = None
    """In whose voice it speaks, where that is not the campaign's."""
    scheduled_at: datetime | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class PaymentRequest:
    """A request to pay: the recipient, the wallet, the task, and the amount as decimal text."""

    task_id: str
    wallet_id: str
    amount: str
    currency: str
    counterparty: str
    idempotency_key: str
    description: str = ""
    budget_id: str | None = None


@dataclass(frozen=True, slots=True)
class StoredEffect:
    """A stored effect, with the fields that all kinds share; `row` holds the rest."""

    kind: EffectKind
    tenant_id: str
    effect_id: str
    status: str
    campaign_id: str | None
    goal_id: str | None
    task_id: str | None
    decision_id: str | None
    provider: str
    request: dict[str, Any]
    request_hash: str
    key: str
    correlation_id: str
    attempts: int
    scheduled_at: int | None
    requested_by: str
    row: Mapping[str, Any]

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def may_be_sent(self) -> bool:
        """Whether the provider may have been sent an effect that is `sending`; False where every attempt said no."""
        told = self.row["error_json"]
        return told is None or bool(parse_json(told, field="error")["details"].get(WAS_SENT, True))

    @property
    def subject(self) -> SubjectType:
        return TABLES[self.kind].subject

    def facts(self) -> dict[str, Any]:
        """Return the fields of every audit entry about the effect: its lineage and the decision that allows it."""
        return {
            "campaign_id": self.campaign_id,
            "goal_id": self.goal_id,
            "task_id": self.task_id,
            "decision_id": self.decision_id,
            "idempotency_key": self.key,
            "provider": self.provider,
            "request_hash": self.request_hash,
        }


@dataclass(frozen=True, slots=True)
class EffectOrder:
    """An order to a provider, with the idempotency key under which it happens once, for ever."""

    tenant_id: str
    kind: EffectKind
    effect_id: str
    key: str
    request: dict[str, Any]
    correlation_id: str

    @classmethod
    def of(cls, effect: StoredEffect) -> EffectOrder:
        return cls(
            effect.tenant_id,
            effect.kind,
            effect.effect_id,
            provider_key(effect.tenant_id, effect.kind, effect.key),
            effect.request,
            effect.correlation_id,
        )


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """A provider's answer about an effect that happened."""

    external_id: str
    details: dict[str, Any] = field(default_factory=dict[str, Any])


def leaving_of(kind: EffectKind, request: Mapping[str, Any]) -> OutgoingContent:
    """Return the part of an effect that is visible outside, for checks."""
    names = ("text", "recipient", "counterparty", "description")
    return OutgoingContent(
        texts=tuple(str(request[name]) for name in names if request.get(name)),
        channel=request.get("channel"),
        persona_id=request.get("persona_id"),
        is_disclosed=kind != "publish" or bool(request["disclosure"]),
    )


def refuse_closed_wallet(wallet_id: str, status: str) -> None:
    """Refuse a payment out of a wallet that is frozen or closed."""
    if status != "open":
        raise IllegalTransition(f"wallet {wallet_id!r} is {status}; nothing is paid out of it", wallet_id=wallet_id)


def provider_key(tenant_id: str, kind: str, key: str) -> str:
    """Return the key that providers are shown: tenants may use the same words, and a key tells nothing about either."""
    return content_hash(f"{tenant_id}\0{kind}\0{key}".encode())
