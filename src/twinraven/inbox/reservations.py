"""Keeps who is looking at an inbox item, so that two reviewers do not read the same one unawares.

A reservation keeps nobody from deciding: of two who decide, the first wins as ever. It ends two minutes after its
holder last looked, and with the decision.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from twinraven.foundation.clock import now_micros
from twinraven.inbox.model import Reservation
from twinraven.inbox.sql import SqlReservationStore
from twinraven.storage import Database, Transaction

LASTS: Final = timedelta(minutes=2)


class Reservations:
    """The reservations of one database."""

    def __init__(self, database: Database, *, micros: Callable[[], int] = now_micros) -> None:
        self._database = database
        self._store = SqlReservationStore()
        self._micros = micros

    async def take(self, tenant_id: str, item_id: str, user_id: str) -> list[Reservation]:
        """Reserve an item for a user, or hold on to it, and return all reservations of it."""

        def work(tx: Transaction) -> list[Reservation]:
            now = self._micros()
            self._store.take(tx, tenant_id, item_id, user_id, now=now, until=now + LASTS // timedelta(microseconds=1))
            return self._store.current(tx, tenant_id, now=now, item_id=item_id)

        return await self._database.write(tenant_id, work)

    async def release(self, tenant_id: str, item_id: str, user_id: str | None = None) -> None:
        """Give up a user's reservation of an item, or everybody's."""
        await self._database.write(tenant_id, lambda tx: self._store.release(tx, tenant_id, item_id, user_id))

    async def current(self, tenant_id: str) -> list[Reservation]:
        """Return all reservations in force, the oldest first."""
        return await self._database.read(tenant_id, lambda tx: self._store.current(tx, tenant_id, now=self._micros()))
