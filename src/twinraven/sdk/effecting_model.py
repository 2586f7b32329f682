"""Models what left the house, as a client reads it: posts, messages, payments, wallets and media assets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class EffectInfo:
    """The fields that posts, messages and payments share."""

    status: str
    idempotency_key: str
    tenant_id: str
    task_id: str | None = None
    campaign_id: str | None = None
    goal_id: str | None = None
    decision_id: str | None = None
    attempts: int = 0
    answer: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    correlation_id: str | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PublicationInfo(EffectInfo):
    """One publication on one channel."""

    publish_id: str = ""
    channel: str = ""
    media_asset_id: str | None = None
    external_post_id: str | None = None
    disclosure_applied: bool = False
    scheduled_at: datetime | None = None
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MessageInfo(EffectInfo):
    """One message to a person or a channel."""

    message_id: str = ""
    channel: str = ""
    recipient: str = ""
    external_message_id: str | None = None
    scheduled_at: datetime | None = None
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TransactionInfo(EffectInfo):
    """Money that moved or is to move; the amount is decimal text."""

    transaction_id: str = ""
    wallet_id: str = ""
    budget_id: str | None = None
    direction: str = "debit"
    amount: str = "0"
    currency: str = ""
    counterparty: str = ""
    description: str = ""
    provider_ref: str | None = None
    chain_tx_hash: str | None = None
    reverses: str | None = None
    executed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WalletInfo:
    """A wallet, and what it holds freely and set aside, as decimal text."""

    wallet_id: str
    agent_or_campaign_id: str
    kind: str
    status: str
    currency: str
    provider: str
    balance: str
    held: str
    state_version: int
    provider_ref: str | None = None


@dataclass(frozen=True, slots=True)
class AssetInfo:
    """A medium by where it is kept."""

    asset_id: str
    campaign_id: str
    kind: str
    storage_uri: str
    task_id: str | None = None
    content_hash: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class LedgerReportInfo:
    """The report of a ledger check."""

    ok: bool
    accounts: int
    transfers: int
    sums: Mapping[str, int]
    wrong_accounts: tuple[str, ...] = ()
    overdrawn: tuple[str, ...] = ()
