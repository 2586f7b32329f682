"""Posts transfers inside the caller's transaction, reverses them, and checks that the books add up.

Accounts are moved in the order of their names, so that two postings never wait for each other. A posting that would
overdraw an account raises, and with it the caller's transaction comes to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import Conflict, IdempotencyConflict, InvalidInput, NotFound, TwinRavenError
from twinraven.foundation.ids import new_id
from twinraven.ledger.errors import LedgerOverdrawn
from twinraven.ledger.model import AccountKind, LedgerAccount, LedgerReport, LedgerTransfer, TransferRequest
from twinraven.ledger.sql import LedgerStore
from twinraven.storage import Database, Transaction

LARGEST: Final = 2**62 - 1
"""The most that a transfer moves and an account holds, or owes: a balance and a change always add up in 64 bits."""


class Ledger:
    """Accounts and transfers of all tenants."""

    def __init__(self, database: Database, *, micros: Callable[[], int] = now_micros) -> None:
        self._database = database
        self._micros = micros
        self._store = LedgerStore()

    def open(self, tx: Transaction, tenant_id: str, account_id: str, kind: AccountKind, currency: str) -> LedgerAccount:
        """Open an account, or find the one that is there; a name stands for one kind and one currency."""
        found = self._store.account(tx, tenant_id, account_id)
        if found is None:
            found = self._store.open(tx, tenant_id, account_id, kind, currency, now=self._micros())
        if (found.kind, found.currency) != (kind, currency):
            raise Conflict(
                f"account {account_id!r} is a {found.kind} in {found.currency}, not a {kind} in {currency}",
                account_id=account_id,
            )
        return found

    def post(self, tx: Transaction, tenant_id: str, wishes: Sequence[TransferRequest]) -> list[LedgerTransfer]:
        """Post transfers that belong together: all of them, or none; what was posted under its key stays as it is."""
        changes: dict[str, int] = {}
        posted: list[LedgerTransfer] = []
        for wish in wishes:
            self._check(tx, tenant_id, wish)
            known = self._store.of_key(tx, tenant_id, wish.key)
            if known is None and self._store.add(tx, tenant_id, new_id(), wish, now=self._micros()):
                changes[wish.from_account] = changes.get(wish.from_account, 0) - wish.amount
                changes[wish.to_account] = changes.get(wish.to_account, 0) + wish.amount
            posted.append(self._same(tx, tenant_id, wish))
        for account_id in sorted(changes):
            if not self._move(tx, tenant_id, account_id, changes[account_id]):
                raise self._unmoved(tx, tenant_id, account_id, changes[account_id])
        return posted

    def reverse(self, tx: Transaction, tenant_id: str, transfer_id: str) -> LedgerTransfer:
        """Undo a transfer by one the other way, once."""
        found = self._store.transfer(tx, tenant_id, transfer_id)
        if found is None:
            raise NotFound(f"there is no transfer {transfer_id!r}", transfer_id=transfer_id)
        if found.reverses is not None:
            raise Conflict("a reversal is not reversed; post a new transfer", transfer_id=transfer_id)
        wish = TransferRequest(
            key=f"reverse:{transfer_id}",
            from_account=found.to_account,
            to_account=found.from_account,
            amount=found.amount,
            currency=found.currency,
            subject_type=found.subject_type,
            subject_id=found.subject_id,
            reverses=transfer_id,
        )
        return self.post(tx, tenant_id, [wish])[0]

    def balance(self, tx: Transaction, tenant_id: str, account_id: str) -> int:
        """Return the balance of an account; one that was never opened holds nothing."""
        found = self._store.account(tx, tenant_id, account_id)
        return 0 if found is None else found.balance

    def transfer(self, tx: Transaction, tenant_id: str, transfer_id: str) -> LedgerTransfer | None:
        """Return one transfer, or None."""
        return self._store.transfer(tx, tenant_id, transfer_id)

    def about(self, tx: Transaction, tenant_id: str, subject_type: str, subject_id: str) -> list[LedgerTransfer]:
        """Return the transfers for one thing."""
        return self._store.about(tx, tenant_id, subject_type, subject_id)

    def moved(self, tx: Transaction, tenant_id: str, account_id: str, *, limit: int) -> list[LedgerTransfer]:
        """Return the newest transfers into and out of an account."""
        return self._store.statement(tx, tenant_id, account_id, limit=limit)

    async def account(self, tenant_id: str, account_id: str) -> LedgerAccount:
        """Return one account, or NotFound."""
        found = await self._database.read(tenant_id, lambda tx: self._store.account(tx, tenant_id, account_id))
        if found is None:
            raise NotFound(f"there is no account {account_id!r}", account_id=account_id)
        return found

    async def statement(self, tenant_id: str, account_id: str, *, limit: int = 100) -> list[LedgerTransfer]:
        """Return the same in a transaction of its own."""
        return await self._database.read(tenant_id, lambda tx: self.moved(tx, tenant_id, account_id, limit=limit))

    async def verify(self, tenant_id: str) -> LedgerReport:
        """Check that each currency adds up to zero and each balance is what its transfers come to."""
        return await self._database.read(tenant_id, lambda tx: self._store.check(tx, tenant_id))

    def _check(self, tx: Transaction, tenant_id: str, wish: TransferRequest) -> None:
        # A bool is an int to Python, and True would be a cent.
        if type(wish.amount) is not int or not 0 < wish.amount <= LARGEST:
            raise InvalidInput(f"amount must be a whole number from 1 to {LARGEST}", field="amount")
        if wish.from_account == wish.to_account:
            raise InvalidInput("a transfer needs two accounts", field="to_account")
        for field, account_id in (("from_account", wish.from_account), ("to_account", wish.to_account)):
            found = self._store.account(tx, tenant_id, account_id)
            if found is None:
                raise NotFound(f"there is no account {account_id!r}", field=field, account_id=account_id)
            if found.currency != wish.currency:
                raise InvalidInput(
                    f"account {account_id!r} holds {found.currency}, not {wish.currency}; currencies are not mixed",
                    field="currency",
                )

    def _same(self, tx: Transaction, tenant_id: str, wish: TransferRequest) -> LedgerTransfer:
        """Return the transfer under a key, which must be the one that is wished for."""
        found = self._store.of_key(tx, tenant_id, wish.key)
        assert found is not None
        said = (wish.from_account, wish.to_account, wish.amount, wish.currency)
        if (found.from_account, found.to_account, found.amount, found.currency) != said:
            raise IdempotencyConflict(
                f"transfer key {wish.key!r} was used for another transfer", idempotency_key=wish.key
            )
        return found

    def _move(self, tx: Transaction, tenant_id: str, account_id: str, change: int) -> bool:
        return abs(change) <= LARGEST and self._store.move(tx, tenant_id, account_id, change, largest=LARGEST)

    def _unmoved(self, tx: Transaction, tenant_id: str, account_id: str, change: int) -> TwinRavenError:
        """Why a balance did not change: it would fall below zero, or grow beyond what can be counted."""
        balance = self.balance(tx, tenant_id, account_id)
        if abs(balance + change) > LARGEST:
            return InvalidInput(
                f"account {account_id!r} holds {balance}, and {change:+} is more than can be counted; nothing moved",
                field="amount",
                account_id=account_id,
            )
        return LedgerOverdrawn(
            f"account {account_id!r} holds {balance}, and {-change} was to be taken; nothing moved",
            account_id=account_id,
            balance=balance,
            wanted=-change,
        )
