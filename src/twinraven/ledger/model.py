"""Models accounts, transfers between them, and what a check of the books finds. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from twinraven.foundation.clock import iso

AccountKind = Literal["wallet", "held", "outside", "budget", "spent"]
"""A wallet and what is held from it while a payment is under way; the world outside; a budget and what was spent."""


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """An account of the ledger; `may_overdraw` is true only of the world outside."""

    tenant_id: str
    account_id: str
    kind: AccountKind
    currency: str
    balance: int
    may_overdraw: bool
    created_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "account_id": self.account_id,
            "kind": self.kind,
            "currency": self.currency,
            "balance": self.balance,
            "may_overdraw": self.may_overdraw,
            "created_at": iso(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """A request to transfer an amount. The idempotency key makes posting it twice the same as once."""

    key: str
    from_account: str
    to_account: str
    amount: int
    currency: str
    subject_type: str
    subject_id: str
    """What it is for: a transaction, a budget, a wallet."""
    reverses: str | None = None
    """The transfer that this one undoes."""


@dataclass(frozen=True, slots=True)
class LedgerTransfer:
    """An amount that moved; it never changes."""

    tenant_id: str
    transfer_id: str
    key: str
    from_account: str
    to_account: str
    amount: int
    currency: str
    subject_type: str
    subject_id: str
    reverses: str | None
    posted_at: datetime

    def as_json(self) -> dict[str, Any]:
        names = ("tenant_id", "transfer_id", "key", "from_account", "to_account", "amount", "currency")
        return {
            **{name: getattr(self, name) for name in names},
            "subject_type": self.subject_type,
            "subject_id": self.subject_id,
            "reverses": self.reverses,
            "posted_at": iso(self.posted_at),
        }


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """The report of a check of a tenant's books."""

    tenant_id: str
    accounts: int
    transfers: int
    sums: dict[str, int]
    """All balances of each currency added up; zero, or something is wrong."""
    wrong_accounts: tuple[str, ...]
    """Accounts whose balance is not what their transfers come to."""
    overdrawn: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not any(self.sums.values()) and not self.wrong_accounts and not self.overdrawn

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant_id,
            "ok": self.ok,
            "accounts": self.accounts,
            "transfers": self.transfers,
            "sums": self.sums,
            "wrong_accounts": list(self.wrong_accounts),
            "overdrawn": list(self.overdrawn),
        }
