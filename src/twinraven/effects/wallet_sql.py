"""Stores wallets."""

from __future__ import annotations

from typing import Any

from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import NotFound
from twinraven.governance import Wallet, WalletStatus
from twinraven.storage import Row, Transaction


class WalletStore:
    """The table of wallets; every statement names its tenant."""

    def add(self, tx: Transaction, row: dict[str, Any]) -> None:
        columns, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        tx.execute(f"INSERT INTO wallets ({columns}) VALUES ({marks})", **row)

    def find(self, tx: Transaction, tenant_id: str, wallet_id: str) -> Wallet:
        row = tx.fetch_one(
            "SELECT * FROM wallets WHERE tenant_id = :tenant AND wallet_id = :id", tenant=tenant_id, id=wallet_id
        )
        if row is None:
            raise NotFound(f"there is no wallet {wallet_id!r}", subject="wallet", subject_id=wallet_id)
        return _to_wallet(row)

    def listing(self, tx: Transaction, tenant_id: str, *, limit: int, after: str | None) -> list[Wallet]:
        rows = tx.fetch_all(
            "SELECT * FROM wallets WHERE tenant_id = :tenant AND wallet_id > :after ORDER BY wallet_id LIMIT :limit",
            tenant=tenant_id,
            after=after or "",
            limit=limit,
        )
        return [_to_wallet(row) for row in rows]

    def set_status(self, tx: Transaction, wallet: Wallet, status: WalletStatus, *, now: int) -> None:
        tx.execute(
            "UPDATE wallets SET status = :status, updated_at = :now, state_version = state_version + 1 "
            "WHERE tenant_id = :tenant AND wallet_id = :id AND state_version = :seen",
            status=status,
            now=now,
            tenant=wallet.tenant_id,
            id=wallet.wallet_id,
            seen=wallet.state_version,
        )


def _to_wallet(row: Row) -> Wallet:
    given = {name: value for name, value in row.items() if name not in ("created_at", "updated_at")}
    return Wallet(**given, created_at=from_micros(row["created_at"]), updated_at=from_micros(row["updated_at"]))
