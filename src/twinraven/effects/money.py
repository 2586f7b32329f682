"""Moves the money behind payments on the ledger: held when a payment is allowed, paid or given back when it is over.

The accounts of a wallet are the wallet itself and what is held from it; what is paid goes to the world outside. A
budget is an account that is filled to its total; what is paid or held for it lies in a second one.
"""

from __future__ import annotations

from twinraven.effects.model import StoredEffect
from twinraven.foundation.errors import Conflict
from twinraven.governance import Budget, format_minor
from twinraven.ledger import Ledger, LedgerOverdrawn, LedgerTransfer, TransferRequest
from twinraven.storage import Transaction


def wallet_account(wallet_id: str) -> str:
    return f"wallet:{wallet_id}"


def held_account(wallet_id: str) -> str:
    return f"held:{wallet_id}"


def outside_account(currency: str) -> str:
    return f"outside:{currency}"


def budget_account(budget_id: str) -> str:
    return f"budget:{budget_id}"


def spent_account(budget_id: str) -> str:
    return f"spent:{budget_id}"


def allowance_account(currency: str) -> str:
    """Return the account that budgets are filled from: what the tenant allows itself to spend."""
    return f"allowance:{currency}"


class PaymentBooks:
    """The transfers of a payment."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def open_wallet(self, tx: Transaction, tenant_id: str, wallet_id: str, currency: str) -> None:
        """Open the accounts that a wallet needs."""
        self._ledger.open(tx, tenant_id, wallet_account(wallet_id), "wallet", currency)
        self._ledger.open(tx, tenant_id, held_account(wallet_id), "held", currency)
        self._ledger.open(tx, tenant_id, outside_account(currency), "outside", currency)

    def fund(
        self, tx: Transaction, tenant_id: str, wallet_id: str, amount: int, currency: str, *, key: str
    ) -> LedgerTransfer:
        """Put money from outside into a wallet."""
        wish = TransferRequest(
            key=f"fund:{wallet_id}:{key}",
            from_account=outside_account(currency),
            to_account=wallet_account(wallet_id),
            amount=amount,
            currency=currency,
            subject_type="wallet",
            subject_id=wallet_id,
        )
        return self._ledger.post(tx, tenant_id, [wish])[0]

    def balance(self, tx: Transaction, tenant_id: str, wallet_id: str) -> tuple[int, int]:
        """Return the free balance of a wallet, and its holds."""
        free = self._ledger.balance(tx, tenant_id, wallet_account(wallet_id))
        return free, self._ledger.balance(tx, tenant_id, held_account(wallet_id))

    def hold(self, tx: Transaction, payment: StoredEffect, budget: Budget | None) -> None:
        """Set a payment's amount aside, from its wallet and its budget; raises LedgerOverdrawn and moves nothing."""
        row = payment.row
        try:
            self._hold(tx, payment, budget)
        except LedgerOverdrawn as error:
            place = "budget" if error.details["account_id"].startswith("budget:") else "wallet"
            free, wanted = (format_minor(error.details[name], row["currency"]) for name in ("balance", "wanted"))
            raise LedgerOverdrawn(
                f"the {place} has {free} {row['currency']} left, and the payment is of {wanted}; nothing moved",
                **error.details,
            ) from error

    def _hold(self, tx: Transaction, payment: StoredEffect, budget: Budget | None) -> None:
        row = payment.row
        wishes = [self._wish(payment, "hold", wallet_account(row["wallet_id"]), held_account(row["wallet_id"]))]
        if budget is not None:
            self._fill(tx, budget)
            accounts = budget_account(budget.budget_id), spent_account(budget.budget_id)
            wishes.append(self._wish(payment, "spend", *accounts))
        self._ledger.post(tx, payment.tenant_id, wishes)

    def settle(self, tx: Transaction, payment: StoredEffect) -> None:
        """Let what was held leave the house."""
        row = payment.row
        wish = self._wish(payment, "pay", held_account(row["wallet_id"]), outside_account(row["currency"]))
        self._ledger.post(tx, payment.tenant_id, [wish])

    def release(self, tx: Transaction, payment: StoredEffect) -> None:
        """Give back what was held or paid: every transfer of the payment is reversed, the last one first."""
        for transfer in reversed(self._ledger.about(tx, payment.tenant_id, "transaction", payment.effect_id)):
            self._ledger.reverse(tx, payment.tenant_id, transfer.transfer_id)

    def _fill(self, tx: Transaction, budget: Budget) -> None:
        """Bring a budget's account to its total; a total below what was spent already is refused."""
        tenant_id, names = budget.tenant_id, (budget_account(budget.budget_id), spent_account(budget.budget_id))
        source = allowance_account(budget.currency)
        self._ledger.open(tx, tenant_id, source, "outside", budget.currency)
        self._ledger.open(tx, tenant_id, names[0], "budget", budget.currency)
        self._ledger.open(tx, tenant_id, names[1], "spent", budget.currency)
        free, spent = (self._ledger.balance(tx, tenant_id, name) for name in names)
        change = budget.total - free - spent
        if not change:
            return
        if free + change < 0:
            raise Conflict(
                f"budget {budget.budget_id!r} is {budget.total} by now, and {spent} of it is spent or held",
                budget_id=budget.budget_id,
            )
        wish = TransferRequest(
            key=f"fill:{budget.budget_id}:{budget.state_version}",
            from_account=source if change > 0 else names[0],
            to_account=names[0] if change > 0 else source,
            amount=abs(change),
            currency=budget.currency,
            subject_type="budget",
            subject_id=budget.budget_id,
        )
        self._ledger.post(tx, tenant_id, [wish])

    @staticmethod
    def _wish(payment: StoredEffect, word: str, source: str, target: str) -> TransferRequest:
        row = payment.row
        return TransferRequest(
            key=f"{word}:{payment.effect_id}",
            from_account=source,
            to_account=target,
            amount=row["amount"],
            currency=row["currency"],
            subject_type="transaction",
            subject_id=payment.effect_id,
        )
