"""Stores accounts and transfers; balances move with the transfers that explain them."""

from __future__ import annotations

from typing import Final

from twinraven.foundation.clock import from_micros
from twinraven.ledger.model import AccountKind, LedgerAccount, LedgerReport, LedgerTransfer, TransferRequest
from twinraven.storage import Row, Transaction

_TRANSFER: Final = (
    "tenant_id, transfer_id, transfer_key, from_account, to_account, amount, currency, subject_type, subject_id, "
    "reverses, posted_at"
)
_ACCOUNT: Final = "SELECT * FROM ledger_accounts WHERE tenant_id = :tenant AND account_id = :account"


class LedgerStore:
    """The two tables; every statement names its tenant."""

    def open(
        self, tx: Transaction, tenant_id: str, account_id: str, kind: AccountKind, currency: str, *, now: int
    ) -> LedgerAccount:
        """Open an account that may have been opened concurrently; returns it as it is."""
        tx.execute(
            "INSERT INTO ledger_accounts (tenant_id, account_id, kind, currency, balance, may_overdraw, created_at) "
            "VALUES (:tenant, :account, :kind, :currency, 0, :overdraw, :now) ON CONFLICT DO NOTHING",
            tenant=tenant_id,
            account=account_id,
            kind=kind,
            currency=currency,
            overdraw=int(kind == "outside"),
            now=now,
        )
        (row,) = tx.fetch_all(_ACCOUNT, tenant=tenant_id, account=account_id)
        return _to_account(row)

    def account(self, tx: Transaction, tenant_id: str, account_id: str) -> LedgerAccount | None:
        row = tx.fetch_one(_ACCOUNT, tenant=tenant_id, account=account_id)
        return None if row is None else _to_account(row)

    def accounts(self, tx: Transaction, tenant_id: str) -> list[LedgerAccount]:
        rows = tx.fetch_all(
            "SELECT * FROM ledger_accounts WHERE tenant_id = :tenant ORDER BY account_id", tenant=tenant_id
        )
        return [_to_account(row) for row in rows]

    def move(self, tx: Transaction, tenant_id: str, account_id: str, change: int, *, largest: int) -> bool:
        """Change a balance; False where that would overdraw the account, or make it larger than it may be."""
        done = tx.execute(
            "UPDATE ledger_accounts SET balance = balance + :change WHERE tenant_id = :tenant "
            "AND account_id = :account AND (may_overdraw = 1 OR balance + :change >= 0) "
            "AND balance + :change BETWEEN -CAST(:largest AS BIGINT) AND :largest",
            change=change,
            largest=largest,
            tenant=tenant_id,
            account=account_id,
        )
        return done == 1

    def add(self, tx: Transaction, tenant_id: str, transfer_id: str, wish: TransferRequest, *, now: int) -> bool:
        """Store a transfer; False where its key is taken already."""
        done = tx.execute(
            f"INSERT INTO ledger_transfers ({_TRANSFER}) VALUES (:tenant, :id, :key, :source, :target, :amount, "
            ":currency, :subject_type, :subject_id, :reverses, :now) "
            "ON CONFLICT (tenant_id, transfer_key) DO NOTHING",
            tenant=tenant_id,
            id=transfer_id,
            key=wish.key,
            source=wish.from_account,
            target=wish.to_account,
            amount=wish.amount,
            currency=wish.currency,
            subject_type=wish.subject_type,
            subject_id=wish.subject_id,
            reverses=wish.reverses,
            now=now,
        )
        return done == 1

    def of_key(self, tx: Transaction, tenant_id: str, key: str) -> LedgerTransfer | None:
        row = tx.fetch_one(
            f"SELECT {_TRANSFER} FROM ledger_transfers WHERE tenant_id = :tenant AND transfer_key = :key",
            tenant=tenant_id,
            key=key,
        )
        return None if row is None else _to_transfer(row)

    def transfer(self, tx: Transaction, tenant_id: str, transfer_id: str) -> LedgerTransfer | None:
        row = tx.fetch_one(
            f"SELECT {_TRANSFER} FROM ledger_transfers WHERE tenant_id = :tenant AND transfer_id = :id",
            tenant=tenant_id,
            id=transfer_id,
        )
        return None if row is None else _to_transfer(row)

    def about(self, tx: Transaction, tenant_id: str, subject_type: str, subject_id: str) -> list[LedgerTransfer]:
        """Return the transfers for one thing, in the order in which they were posted."""
        rows = tx.fetch_all(
            f"SELECT {_TRANSFER} FROM ledger_transfers WHERE tenant_id = :tenant AND subject_type = :type "
            "AND subject_id = :id ORDER BY posted_at, transfer_id",
            tenant=tenant_id,
            type=subject_type,
            id=subject_id,
        )
        return [_to_transfer(row) for row in rows]

    def statement(self, tx: Transaction, tenant_id: str, account_id: str, *, limit: int) -> list[LedgerTransfer]:
        """Return the newest transfers into and out of an account."""
        rows = tx.fetch_all(
            f"SELECT {_TRANSFER} FROM ledger_transfers WHERE tenant_id = :tenant AND from_account = :account "
            f"UNION ALL SELECT {_TRANSFER} FROM ledger_transfers WHERE tenant_id = :tenant AND to_account = :account "
            "ORDER BY posted_at DESC, transfer_id DESC LIMIT :limit",
            tenant=tenant_id,
            account=account_id,
            limit=limit,
        )
        return [_to_transfer(row) for row in rows]

    def check(self, tx: Transaction, tenant_id: str) -> LedgerReport:
        """Add everything up and compare each balance with its transfers."""
        accounts = self.accounts(tx, tenant_id)
        flows = tx.fetch_all(
            "SELECT account, CAST(SUM(change) AS BIGINT) AS total, COUNT(*) AS number FROM ("
            "SELECT to_account AS account, amount AS change FROM ledger_transfers WHERE tenant_id = :tenant UNION ALL "
            "SELECT from_account, -amount FROM ledger_transfers WHERE tenant_id = :tenant) AS flows GROUP BY account",
            tenant=tenant_id,
        )
        totals = {row["account"]: int(row["total"]) for row in flows}
        sums: dict[str, int] = {}
        for account in accounts:
            sums[account.currency] = sums.get(account.currency, 0) + account.balance
        return LedgerReport(
            tenant_id=tenant_id,
            accounts=len(accounts),
            transfers=sum(row["number"] for row in flows) // 2,
            sums=sums,
            wrong_accounts=tuple(
                each.account_id for each in accounts if totals.get(each.account_id, 0) != each.balance
            ),
            overdrawn=tuple(each.account_id for each in accounts if each.balance < 0 and not each.may_overdraw),
        )


def _to_account(row: Row) -> LedgerAccount:
    return LedgerAccount(
        tenant_id=row["tenant_id"],
        account_id=row["account_id"],
        kind=row["kind"],
        currency=row["currency"],
        balance=row["balance"],
        may_overdraw=bool(row["may_overdraw"]),
        created_at=from_micros(row["created_at"]),
    )


def _to_transfer(row: Row) -> LedgerTransfer:
    return LedgerTransfer(
        tenant_id=row["tenant_id"],
        transfer_id=row["transfer_id"],
        key=row["transfer_key"],
        from_account=row["from_account"],
        to_account=row["to_account"],
        amount=row["amount"],
        currency=row["currency"],
        subject_type=row["subject_type"],
        subject_id=row["subject_id"],
        reverses=row["reverses"],
        posted_at=from_micros(row["posted_at"]),
    )
