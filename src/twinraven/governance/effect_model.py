"""Models effects and the money behind them: assets, posts, messages, wallets, transactions, budgets.

Each effect names the decision that allows it, its idempotency key and where it comes from. Amounts are integers in the
smallest unit of their currency.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from twinraven.foundation.clock import iso
from twinraven.governance.model import Lineage
from twinraven.governance.money import format_minor
from twinraven.governance.states import BudgetStatus, MessageStatus, PublishStatus, TransactionStatus, WalletStatus

AssetKind = Literal["image", "video", "audio", "other"]
WalletKind = Literal["commerce", "internal"]
Direction = Literal["debit", "credit"]


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


@dataclass(frozen=True, slots=True)
class MediaAsset:
    """A picture, a film, a sound or a text body that was made; it never changes."""

    tenant_id: str
    asset_id: str
    campaign_id: str
    task_id: str | None
    kind: AssetKind
    storage_uri: str
    content_hash: str | None
    duration_seconds: float | None
    width: int | None
    height: int | None
    format: str | None
    character_id: str | None
    metadata: dict[str, Any]
    created_by: str
    created_at: datetime

    def as_json(self) -> dict[str, Any]:
        names = ("kind", "storage_uri", "content_hash", "duration_seconds", "width", "height", "format")
        return {
            "tenant_id": self.tenant_id,
            "asset_id": self.asset_id,
            "campaign_id": self.campaign_id,
            "task_id": self.task_id,
            **{name: getattr(self, name) for name in names},
            "character_id": self.character_id,
            "metadata": self.metadata,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The fields that posts and messages share: provenance, decision, key, provider and its answer."""

    lineage: Lineage
    decision_id: str
    channel: str
    provider: str
    request: dict[str, Any]
    request_hash: str
    answer: dict[str, Any] | None
    error: dict[str, Any] | None
    idempotency_key: str
    correlation_id: str
    attempts: int
    scheduled_at: datetime | None
    created_by: str
    created_at: datetime
    updated_at: datetime

    def as_json(self) -> dict[str, Any]:
        names = ("decision_id", "channel", "provider", "request", "answer", "error", "idempotency_key")
        return {
            **self.lineage.as_json(),
            **{name: getattr(self, name) for name in names},
            "correlation_id": self.correlation_id,
            "attempts": self.attempts,
            "scheduled_at": _moment(self.scheduled_at),
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class PublishEvent:
    """One publication on one channel."""

    publish_id: str
    status: PublishStatus
    outgoing: Outgoing
    media_asset_id: str | None
    external_post_id: str | None
    disclosure_applied: bool
    published_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        return {
            "publish_id": self.publish_id,
            "status": self.status,
            **self.outgoing.as_json(),
            "media_asset_id": self.media_asset_id,
            "external_post_id": self.external_post_id,
            "disclosure_applied": self.disclosure_applied,
            "published_at": _moment(self.published_at),
        }


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message to a person or a channel."""

    message_id: str
    status: MessageStatus
    outgoing: Outgoing
    recipient: str
    external_message_id: str | None
    sent_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        return {
            "message_id": self.message_id,
            "status": self.status,
            **self.outgoing.as_json(),
            "recipient": self.recipient,
            "external_message_id": self.external_message_id,
            "sent_at": _moment(self.sent_at),
        }


@dataclass(frozen=True, slots=True)
class Wallet:
    """A wallet with the money of an agent or a campaign."""

    tenant_id: str
    wallet_id: str
    agent_or_campaign_id: str
    kind: WalletKind
    status: WalletStatus
    currency: str
    provider: str
    provider_ref: str | None
    state_version: int
    created_by: str
    created_at: datetime
    updated_at: datetime

    def as_json(self) -> dict[str, Any]:
        names = ("tenant_id", "wallet_id", "agent_or_campaign_id", "kind", "status", "currency", "provider")
        return {
            **{name: getattr(self, name) for name in names},
            "provider_ref": self.provider_ref,
            "state_version": self.state_version,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class MoneyTransaction:
    """Money that moves out of a wallet, or into it."""

    tenant_id: str
    transaction_id: str
    wallet_id: str
    campaign_id: str | None
    goal_id: str | None
    task_id: str | None
    decision_id: str | None
    budget_id: str | None
    direction: Direction
    amount: int
    currency: str
    counterparty: str
    description: str
    status: TransactionStatus
    chain_tx_hash: str | None
    provider_ref: str | None
    reverses: str | None
    request: dict[str, Any]
    request_hash: str
    answer: dict[str, Any] | None
    error: dict[str, Any] | None
    idempotency_key: str
    correlation_id: str
    attempts: int
    requested_by: str
    requested_at: datetime
    executed_at: datetime | None
    updated_at: datetime

    def as_json(self) -> dict[str, Any]:
        ids = ("tenant_id", "transaction_id", "wallet_id", "campaign_id", "goal_id", "task_id", "decision_id")
        told = ("counterparty", "description", "status", "chain_tx_hash", "provider_ref", "reverses", "answer", "error")
        return {
            **{name: getattr(self, name) for name in ids},
            "budget_id": self.budget_id,
            "direction": self.direction,
            "amount": format_minor(self.amount, self.currency),
            "currency": self.currency,
            **{name: getattr(self, name) for name in told},
            "idempotency_key": self.idempotency_key,
            "correlation_id": self.correlation_id,
            "attempts": self.attempts,
            "requested_by": self.requested_by,
            "requested_at": iso(self.requested_at),
            "executed_at": _moment(self.executed_at),
            "updated_at": iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a campaign in one currency."""

    tenant_id: str
    budget_id: str
    campaign_id: str
    name: str
    status: BudgetStatus
    currency: str
    total: int
    state_version: int
    created_by: str
    created_at: datetime
    updated_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "budget_id": self.budget_id,
            "campaign_id": self.campaign_id,
            "name": self.name,
            "status": self.status,
            "currency": self.currency,
            "total": format_minor(self.total, self.currency),
            "state_version": self.state_version,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }
