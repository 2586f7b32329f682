"""Computes the low watermark of an append-only log: no arrival number below it can still appear.

A growing key is given out before its transaction commits. SQLite lets one writer in at a time, so there the order of
numbers is the order of commits. On Postgres a row with a smaller number can become visible after one with a greater
number; whoever has counted the rows up to some number must first have waited for the writers who were at work then.
"""

from __future__ import annotations

from twinraven.foundation.errors import StorageBusy
from twinraven.storage.database import Database, Transaction

_PAUSE_S = 0.02
_NEWEST = 500
_WRITERS = (
    "SELECT l.virtualtransaction AS writer FROM pg_locks l WHERE l.locktype = 'relation' "
    "AND l.relation = CAST(:log AS regclass) AND l.mode = 'RowExclusiveLock' AND l.granted "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


async def settled_arrival(database: Database, tenant_id: str, table: str, *, patience_s: float = 30.0) -> int:
    """Return the tenant's highest arrival number, once no smaller one can follow; zero for an empty log."""
    highest = await database.read(tenant_id, lambda tx: _highest(tx, tenant_id, table))
    if database.dialect == "postgres":
        await _await_writers(database, tenant_id, table, patience_s)
    return highest


def _highest(tx: Transaction, tenant_id: str, table: str) -> int:
    if tx.dialect == "sqlite":
        # SQLite would count through an index of the tenant. Who asks has mostly just written: it is among the newest.
        newest = f"SELECT arrival, tenant_id FROM {table} ORDER BY arrival DESC LIMIT {_NEWEST}"
        found = tx.fetch_one(
            f"SELECT max(arrival) AS highest FROM ({newest}) n WHERE tenant_id = :tenant", tenant=tenant_id
        )
        if found is not None and found["highest"] is not None:
            return found["highest"]
    row = tx.fetch_one(f"SELECT max(arrival) AS highest FROM {table} WHERE tenant_id = :tenant", tenant=tenant_id)
    return 0 if row is None or row["highest"] is None else row["highest"]


async def _await_writers(database: Database, tenant_id: str, table: str, patience_s: float) -> None:
    """A writer holds its lock on the table from before it draws a number until it ends."""
    import asyncio

    def writers(tx: Transaction) -> set[str]:
        return {row["writer"] for row in tx.fetch_all(_WRITERS, log=table)}

    pending = await database.read(tenant_id, writers)
    patience = int(patience_s / _PAUSE_S)
    while pending:
        if patience == 0:
            raise StorageBusy(f"a transaction has been writing to {table} for more than {patience_s:.0f} s")
        patience -= 1
        await asyncio.sleep(_PAUSE_S)
        pending &= await database.read(tenant_id, writers)
