"""Asks for effects: publish, message, pay, cancel, take back; wallets, media assets and the ledger."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any, Literal

from twinraven.foundation.clock import iso
from twinraven.foundation.ids import new_id
from twinraven.sdk.effecting_model import (
    AssetInfo,
    LedgerReportInfo,
    MessageInfo,
    PublicationInfo,
    TransactionInfo,
    WalletInfo,
)
from twinraven.sdk.exchange import RequestSpec, path_of
from twinraven.sdk.model import JsonObject
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, stated


class EffectOperations(ServerRequests):
    """Requests effects. The idempotency key makes asking twice the same as asking once, for ever."""

    async def publish(  # noqa: PLR0913 - a publication has that many facts, each by name
        self,
        task_id: str,
        channel: str,
        text: str,
        *,
        key: str,
        media_asset_id: str | None = None,
        disclosure: str | None = None,
        persona_id: str | None = None,
        scheduled_at: datetime | None = None,
        provider: str | None = None,
    ) -> PublicationInfo:
        """Publish on a channel, for a task whose result was approved."""
        more = {
            "media_asset_id": media_asset_id,
            "disclosure": disclosure,
            "persona_id": persona_id,
            "provider": provider,
        }
        body = {"task_id": task_id, "channel": channel, "text": text, **_sending(key, scheduled_at), **stated(more)}
        return read(PublicationInfo, await self._post(body, "publications"))

    async def post_message(
        self,
        task_id: str,
        channel: str,
        recipient: str,
        text: str,
        *,
        key: str,
        persona_id: str | None = None,
        scheduled_at: datetime | None = None,
        provider: str | None = None,
    ) -> MessageInfo:
        """Send a message, for a task whose result was approved."""
        said = {"task_id": task_id, "channel": channel, "recipient": recipient, "text": text}
        body = {**said, **_sending(key, scheduled_at), **stated({"persona_id": persona_id, "provider": provider})}
        return read(MessageInfo, await self._post(body, "messages"))

    async def pay(
        self,
        task_id: str,
        wallet_id: str,
        amount: str,
        currency: str,
        counterparty: str,
        *,
        key: str,
        description: str | None = None,
        budget_id: str | None = None,
    ) -> TransactionInfo:
        """Pay out of a wallet, for a task whose result was approved; the amount is decimal text."""
        said = {"task_id": task_id, "wallet_id": wallet_id, "amount": amount, "currency": currency}
        more = stated({"description": description, "budget_id": budget_id})
        body = {**said, "counterparty": counterparty, "idempotency_key": key, **more}
        return read(TransactionInfo, await self._post(body, "transactions"))

    def publications(self, *, status: str | None = None, task_id: str | None = None) -> AsyncGenerator[PublicationInfo]:
        """List your publications by id; for approvers and administrators, those of all users."""
        return self._list(PublicationInfo, "publications", status=status, task_id=task_id)

    async def publication(self, publish_id: str) -> PublicationInfo:
        """Return one publication as it stands."""
        return read(PublicationInfo, await self._get("publications", publish_id))

    async def cancel_publication(self, publish_id: str) -> PublicationInfo:
        """Cancel what was not sent."""
        return read(PublicationInfo, await self._post({}, "publications", publish_id, "cancel"))

    async def reconcile_publication(self, publish_id: str) -> PublicationInfo:
        """Ask the provider what became of one that is unknown; nothing is sent."""
        return read(PublicationInfo, await self._post({}, "publications", publish_id, "reconcile"))

    def messages(self, *, status: str | None = None, task_id: str | None = None) -> AsyncGenerator[MessageInfo]:
        """List your messages by id; for approvers and administrators, those of all users."""
        return self._list(MessageInfo, "messages", status=status, task_id=task_id)

    async def message(self, message_id: str) -> MessageInfo:
        """Return one message as it stands."""
        return read(MessageInfo, await self._get("messages", message_id))

    async def cancel_message(self, message_id: str) -> MessageInfo:
        """Cancel what was not sent."""
        return read(MessageInfo, await self._post({}, "messages", message_id, "cancel"))

    async def reconcile_message(self, message_id: str) -> MessageInfo:
        """Ask the provider what became of one that is unknown; nothing is sent."""
        return read(MessageInfo, await self._post({}, "messages", message_id, "reconcile"))

    def transactions(self, *, status: str | None = None, task_id: str | None = None) -> AsyncGenerator[TransactionInfo]:
        """List your payments by id; for approvers and administrators, those of all users."""
        return self._list(TransactionInfo, "transactions", status=status, task_id=task_id)

    async def transaction(self, transaction_id: str) -> TransactionInfo:
        """Return one payment as it stands."""
        return read(TransactionInfo, await self._get("transactions", transaction_id))

    async def cancel_transaction(self, transaction_id: str) -> TransactionInfo:
        """Cancel what was not sent; what was held is given back."""
        return read(TransactionInfo, await self._post({}, "transactions", transaction_id, "cancel"))

    async def reconcile_transaction(self, transaction_id: str) -> TransactionInfo:
        """Ask the provider what became of one that is unknown; nothing is sent."""
        return read(TransactionInfo, await self._post({}, "transactions", transaction_id, "reconcile"))

    async def reverse_transaction(self, transaction_id: str, note: str) -> TransactionInfo:
        """Take an executed payment of the local ledger back, once."""
        return read(TransactionInfo, await self._post({"note": note}, "transactions", transaction_id, "reverse"))

    def wallets(self) -> AsyncGenerator[WalletInfo]:
        """Wallets, and what they hold."""
        return self._list(WalletInfo, "wallets")

    async def wallet(self, wallet_id: str) -> WalletInfo:
        """Return one wallet, and what it holds."""
        return read(WalletInfo, await self._get("wallets", wallet_id))

    async def open_wallet(
        self,
        agent_or_campaign_id: str,
        currency: str,
        *,
        kind: Literal["commerce", "internal"] | None = None,
        provider: str | None = None,
        provider_ref: str | None = None,
    ) -> WalletInfo:
        """Open an empty wallet for an agent or a campaign."""
        more = stated({"kind": kind, "provider": provider, "provider_ref": provider_ref})
        return await self._make(
            WalletInfo, {"agent_or_campaign_id": agent_or_campaign_id, "currency": currency, **more}, "wallets"
        )

    async def fund_wallet(self, wallet_id: str, amount: str, *, key: str | None = None) -> WalletInfo:
        """Put money from outside into a wallet, once under its key."""
        body = {"amount": amount, "idempotency_key": key or new_id()}
        return read(WalletInfo, await self._post(body, "wallets", wallet_id, "fund"))

    async def change_wallet(
        self, wallet_id: str, status: Literal["open", "frozen", "closed"], *, version: int | None = None
    ) -> WalletInfo:
        """Freeze, reopen or close a wallet."""
        return await self._change(WalletInfo, {"status": status}, "wallets", wallet_id, version=version)

    async def wallet_statement(self, wallet_id: str) -> list[JsonObject]:
        """Return the newest transfers into and out of a wallet."""
        return list((await self._get("wallets", wallet_id, "statement"))["items"])

    async def verify_ledger(self) -> LedgerReportInfo:
        """Return whether the books add up to zero."""
        return read(LedgerReportInfo, await self._get("ledger"))

    async def add_asset(self, campaign_id: str, kind: str, storage_uri: str, **more: Any) -> AssetInfo:
        """Register a medium by where it is kept."""
        body = {"campaign_id": campaign_id, "kind": kind, "storage_uri": storage_uri, **stated(more)}
        return await self._make(AssetInfo, body, "assets")

    def assets(self, *, task_id: str | None = None) -> AsyncGenerator[AssetInfo]:
        """Media assets by id."""
        return self._list(AssetInfo, "assets", task_id=task_id)

    async def asset(self, asset_id: str) -> AssetInfo:
        """Return one media asset."""
        return read(AssetInfo, await self._get("assets", asset_id))

    async def _post(self, body: JsonObject, *parts: str) -> Any:
        return await self._exchange.json(RequestSpec("POST", path_of(*parts), body=body))


def _sending(key: str, scheduled_at: datetime | None) -> JsonObject:
    return {"idempotency_key": key, **stated({"scheduled_at": None if scheduled_at is None else iso(scheduled_at)})}
