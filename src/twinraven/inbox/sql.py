"""Stores who is looking at inbox items; a reservation ends by itself, and those that have ended are removed."""

from __future__ import annotations

from twinraven.foundation.clock import from_micros
from twinraven.inbox.model import Reservation
from twinraven.storage import Row, Transaction

_COLUMNS = "item_id, user_id, since, until"


class SqlReservationStore:
    """The table of reservations."""

    def take(self, tx: Transaction, tenant_id: str, item_id: str, user_id: str, *, now: int, until: int) -> None:
        """Reserve an item, or hold on to it; a changed row tells nobody, a new one tells who listens."""
        tx.execute(
            "DELETE FROM inbox_reservations WHERE tenant_id = :tenant AND until <= :now", tenant=tenant_id, now=now
        )
        mine = {"tenant": tenant_id, "item": item_id, "user": user_id, "until": until}
        held = tx.execute(
            "UPDATE inbox_reservations SET until = :until "
            "WHERE tenant_id = :tenant AND item_id = :item AND user_id = :user",
            **mine,
        )
        if not held:
            tx.execute(
                "INSERT INTO inbox_reservations (tenant_id, item_id, user_id, since, until) "
                "VALUES (:tenant, :item, :user, :now, :until) ON CONFLICT DO NOTHING",
                **mine,
                now=now,
            )

    def release(self, tx: Transaction, tenant_id: str, item_id: str, user_id: str | None = None) -> None:
        """Give up one user's reservation of an item, or everybody's."""
        whose = "" if user_id is None else "AND user_id = :user"
        tx.execute(
            f"DELETE FROM inbox_reservations WHERE tenant_id = :tenant AND item_id = :item {whose}",
            tenant=tenant_id,
            item=item_id,
            user=user_id,
        )

    def current(self, tx: Transaction, tenant_id: str, *, now: int, item_id: str | None = None) -> list[Reservation]:
        """Return the reservations in force, of one item or of all, the oldest first."""
        which = "" if item_id is None else "AND item_id = :item"
        rows = tx.fetch_all(
            f"SELECT {_COLUMNS} FROM inbox_reservations WHERE tenant_id = :tenant AND until > :now {which} "
            "ORDER BY since, item_id, user_id",
            tenant=tenant_id,
            now=now,
            item=item_id,
        )
        return [_reservation(row) for row in rows]


def _reservation(row: Row) -> Reservation:
    return Reservation(row["item_id"], row["user_id"], from_micros(row["since"]), from_micros(row["until"]))
