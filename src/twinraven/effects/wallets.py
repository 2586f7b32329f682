"""Opens wallets, puts money into them, freezes and closes them, and says what they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.effects.delivery import Delivery
from twinraven.effects.model import LOCAL_LEDGER
from twinraven.effects.money import PaymentBooks
from twinraven.effects.wallet_sql import WalletStore
from twinraven.foundation.errors import IllegalTransition, InvalidInput, PolicyViolation, StaleState
from twinraven.foundation.ids import new_id
from twinraven.governance import (
    Wallet,
    WalletKind,
    WalletStatus,
    check_currency,
    check_transition,
    format_minor,
    parse_minor,
)
from twinraven.muninn import check_name
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

_KINDS: Final = ("commerce", "internal")


@dataclass(frozen=True, slots=True)
class WalletBalance:
    """A wallet, and what it holds: freely, and set aside for payments under way."""

    wallet: Wallet
    free: int
    held: int

    def as_json(self) -> dict[str, Any]:
        currency = self.wallet.currency
        return {
            **self.wallet.as_json(),
            "balance": format_minor(self.free, currency),
            "held": format_minor(self.held, currency),
        }


class Wallets:
    """Wallets of all tenants; administrators open and fund them."""

    def __init__(
        self,
        database: Database,
        books: PaymentBooks,
        delivery: Delivery,
        *,
        audit: AuditLog,
        micros: Callable[[], int],
    ) -> None:
        self._database = database
        self._books = books
        self._delivery = delivery
        self._audit = audit
        self._micros = micros
        self._store = WalletStore()

    async def open(
        self,
        agent_or_campaign_id: str,
        currency: str,
        *,
        by: Principal,
        kind: WalletKind = "internal",
        provider: str = LOCAL_LEDGER,
        provider_ref: str | None = None,
    ) -> WalletBalance:
        """Open an empty wallet for an agent or a campaign."""
        _require_admin(by)
        check_name(agent_or_campaign_id, field="agent_or_campaign_id", limit=200)
        if kind not in _KINDS:
            raise InvalidInput(f"kind must be one of {', '.join(_KINDS)}", field="kind")
        if provider_ref is not None:
            check_name(provider_ref, field="provider_ref", limit=200)
        now, wallet_id = self._micros(), new_id()
        row: dict[str, Any] = {
            "tenant_id": by.tenant_id,
            "wallet_id": wallet_id,
            "agent_or_campaign_id": agent_or_campaign_id,
            "kind": kind,
            "status": "open",
            "currency": check_currency(currency),
            "provider": self._delivery.check_wallet_provider(provider),
            "provider_ref": provider_ref,
            "state_version": 1,
            "created_by": by.user_id,
            "created_at": now,
            "updated_at": now,
        }

        def work(tx: Transaction) -> WalletBalance:
            self._store.add(tx, row)
            self._books.open_wallet(tx, by.tenant_id, wallet_id, row["currency"])
            self._note(tx, "wallet.opened", wallet_id, by, currency=row["currency"], provider=row["provider"])
            return self._shown(tx, by.tenant_id, wallet_id)

        return await self._database.write(by.tenant_id, work)

    async def fund(self, wallet_id: str, amount: str, *, key: str, by: Principal) -> WalletBalance:
        """Put money from outside into a wallet, once under its key."""
        _require_admin(by)
        check_name(key, field="idempotency_key", limit=200)

        def work(tx: Transaction) -> WalletBalance:
            wallet = self._store.find(tx, by.tenant_id, wallet_id)
            minor = parse_minor(amount, wallet.currency)
            if minor == 0:
                raise InvalidInput("amount must be more than nothing", field="amount")
            if wallet.status != "open":
                raise IllegalTransition(f"wallet {wallet_id!r} is {wallet.status}", wallet_id=wallet_id)
            before = self._books.balance(tx, by.tenant_id, wallet_id)
            transfer = self._books.fund(tx, by.tenant_id, wallet_id, minor, wallet.currency, key=key)
            if self._books.balance(tx, by.tenant_id, wallet_id) != before:
                self._note(tx, "wallet.funded", wallet_id, by, amount=minor, transfer_id=transfer.transfer_id)
            return self._shown(tx, by.tenant_id, wallet_id)

        return await self._database.write(by.tenant_id, work)

    async def set_status(
        self, wallet_id: str, status: WalletStatus, *, by: Principal, expected: int | None = None
    ) -> WalletBalance:
        """Freeze, reopen or close a wallet; one that holds money is not closed."""
        _require_admin(by)

        def work(tx: Transaction) -> WalletBalance:
            wallet = self._store.find(tx, by.tenant_id, wallet_id)
            if expected not in (None, wallet.state_version):
                raise StaleState("the wallet was changed meanwhile", expected=expected, current=wallet.state_version)
            check_transition("wallet", wallet_id, wallet.status, status)
            if status == "closed" and any(self._books.balance(tx, by.tenant_id, wallet_id)):
                raise IllegalTransition("a wallet that holds money is not closed", wallet_id=wallet_id)
            self._store.set_status(tx, wallet, status, now=self._micros())
            self._note(tx, f"wallet.{status}", wallet_id, by)
            return self._shown(tx, by.tenant_id, wallet_id)

        return await self._database.write(by.tenant_id, work)

    async def get(self, tenant_id: str, wallet_id: str) -> WalletBalance:
        return await self._database.read(tenant_id, lambda tx: self._shown(tx, tenant_id, wallet_id))

    async def list(self, tenant_id: str, *, limit: int = 100, after: str | None = None) -> list[WalletBalance]:
        """Wallets by id."""

        def work(tx: Transaction) -> list[WalletBalance]:
            found = self._store.listing(tx, tenant_id, limit=limit, after=after)
            return [self._with_balance(tx, wallet) for wallet in found]

        return await self._database.read(tenant_id, work)

    def _shown(self, tx: Transaction, tenant_id: str, wallet_id: str) -> WalletBalance:
        return self._with_balance(tx, self._store.find(tx, tenant_id, wallet_id))

    def _with_balance(self, tx: Transaction, wallet: Wallet) -> WalletBalance:
        return WalletBalance(wallet, *self._books.balance(tx, wallet.tenant_id, wallet.wallet_id))

    def _note(self, tx: Transaction, event: str, wallet_id: str, by: Principal, **data: Any) -> None:
        self._audit.append(tx, NewAuditEntry(by.tenant_id, event, "wallet", wallet_id, by.actor, data=data))


def _require_admin(by: Principal) -> None:
    if by.role != "admin":
        raise PolicyViolation("only an administrator of the tenant may do this", user_id=by.user_id)
