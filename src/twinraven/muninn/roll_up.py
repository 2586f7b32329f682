"""Tracks how far the event log is rolled up: the marks up to which calls and verdicts are aggregated.

Whoever reads adds what arrived behind the marks, in the same snapshot, so the figures are those of the log at any time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from twinraven.storage import Database, Transaction, settled_arrival

MOST_BEHIND: Final = 20_000
"""With more events than this behind the mark, reading the log by time is cheaper than adding them."""
LOG: Final = "muninn_event_log"
VERDICTS: Final = "session_verdicts"
NEW_CALLS: Final = "arrival > :mark AND arrival <= :through AND tenant_id || '' = :tenant"
"""The calls to fold. The tenant is compared as an expression: its index would lead through the whole log."""


class RollUp(NamedTuple):
    """The arrival numbers up to which calls and verdicts are rolled up, and how many are not."""

    mark: int
    verdicts_mark: int
    behind: int
    """Calls that are not."""
    verdicts_behind: int

    @property
    def is_near(self) -> bool:
        return self.behind + self.verdicts_behind <= MOST_BEHIND


class SettledMarks(NamedTuple):
    """The arrival numbers up to which calls and verdicts can be rolled up: no smaller one can follow."""

    calls: int
    verdicts: int


def roll_up(tx: Transaction, tenant_id: str) -> RollUp:
    """Look how far the roll-up is in this snapshot."""
    row = tx.fetch_one("SELECT up_to, verdicts_to FROM activity_marks WHERE tenant_id = :tenant", tenant=tenant_id)
    mark, verdicts = (0, 0) if row is None else (row["up_to"], row["verdicts_to"])
    return RollUp(mark, verdicts, max(0, _highest(tx, LOG) - mark), max(0, _highest(tx, VERDICTS) - verdicts))


async def settled(database: Database, tenant_id: str) -> SettledMarks:
    """Wait, where the store needs it, until no smaller arrival number can follow."""
    if database.dialect == "postgres":
        calls = await settled_arrival(database, tenant_id, LOG)
        return SettledMarks(calls, await settled_arrival(database, tenant_id, VERDICTS))
    return await database.read(tenant_id, lambda tx: SettledMarks(_highest(tx, LOG), _highest(tx, VERDICTS)))


def lock(tx: Transaction, tenant_id: str) -> tuple[int, int]:
    """Lock and return the marks of calls and verdicts, until this transaction ends."""
    tx.insert_missing("activity_marks", ("tenant_id", "up_to"), [(tenant_id, 0)])
    tx.execute("UPDATE activity_marks SET up_to = up_to WHERE tenant_id = :tenant", tenant=tenant_id)
    row = tx.fetch_one("SELECT up_to, verdicts_to FROM activity_marks WHERE tenant_id = :tenant", tenant=tenant_id)
    return (0, 0) if row is None else (row["up_to"], row["verdicts_to"])


def move(tx: Transaction, tenant_id: str, calls: int, verdicts: int) -> None:
    """Set the marks, which this transaction has locked."""
    tx.execute(
        "UPDATE activity_marks SET up_to = :calls, verdicts_to = :verdicts WHERE tenant_id = :tenant",
        tenant=tenant_id,
        calls=calls,
        verdicts=verdicts,
    )


def _highest(tx: Transaction, table: str) -> int:
    """Return the highest arrival number that can be seen: on SQLite of all tenants, which it knows without a search."""
    row = tx.fetch_one(f"SELECT max(arrival) AS highest FROM {table}")  # noqa: S608 - one of the two names above
    return 0 if row is None or row["highest"] is None else row["highest"]
