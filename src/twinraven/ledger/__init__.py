"""Keeps a double-entry ledger, in integers of the smallest unit of a currency.

A transfer takes an amount from one account and gives it to another of the same currency, so all balances of a currency
add up to zero, always. Transfers are never changed: a mistake is reversed by a transfer the other way. An account that
may not be overdrawn is guarded by the database itself. Budgets and wallets are accounts like any other.
"""

from __future__ import annotations

from twinraven.ledger.errors import LedgerOverdrawn
from twinraven.ledger.model import AccountKind, LedgerAccount, LedgerReport, LedgerTransfer, TransferRequest
from twinraven.ledger.service import Ledger

__all__ = [
    "AccountKind",
    "Ledger",
    "LedgerAccount",
    "LedgerOverdrawn",
    "LedgerReport",
    "LedgerTransfer",
    "TransferRequest",
]
