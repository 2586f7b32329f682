"""Buffers the outcomes of a run while it is worked on: some wait for the next transaction, some are stored at once.

What a call cost money for is stored at once, and its event with it. A program may hold such an outcome back until it
keeps something itself, so that one transaction stores both; whatever it does before that stores the outcome first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from twinraven.engine.errors import RunSuperseded
from twinraven.engine.journal import CallOutcome, Journal
from twinraven.flow import Waiting
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidInput, StorageError
from twinraven.storage import Database, Transaction

if TYPE_CHECKING:
    from twinraven.muninn import TransactionalEvent

_AGAIN_MICROS: Final = 1_000_000


class OutcomeBuffer:
    """Buffers the outcomes of a run until the next transaction."""

    def __init__(self, journal: Journal, database: Database) -> None:
        self._journal = journal
        self._database = database
        self._held: set[str] = set()
        self._riding: list[TransactionalEvent] = []

    @property
    def holds_back(self) -> bool:
        """Whether an outcome that cost money waits for the next transaction."""
        return bool(self._held)

    def hold_back(self, place: str) -> None:
        """Let what a place comes to wait for the next transaction."""
        self._held.add(place)

    def keep(self, place: str, outcome: CallOutcome) -> CallOutcome:
        """Know an outcome, which the next transaction stores."""
        self._journal.note(place, outcome)
        return outcome

    async def keep_at_once(
        self, place: str, outcome: CallOutcome, event: TransactionalEvent | None = None
    ) -> CallOutcome:
        """Know an outcome and store it together with its event, unless its place is held back."""
        self._journal.note(place, outcome)
        if event is not None:
            self._riding.append(event)
        if place not in self._held:
            await self.flush()
        return outcome

    async def flush(self) -> None:
        """Store everything that is known, and the events that ride with it."""
        stored: frozenset[str] = frozenset()
        riding, self._riding = self._riding, []
        self._held.clear()

        def work(tx: Transaction) -> None:
            nonlocal stored
            stored = self._journal.hold(tx)
            for event in riding:
                event.write(tx)

        try:
            await self.write(work)
        except BaseException as error:
            for event in riding:
                event.queue()
            if riding and isinstance(error, (Conflict, InvalidInput, AppendOnly)):
                return await self.flush()
            raise
        return self._journal.stored(stored)

    def part_with_events(self) -> None:
        """Let events go through the queue, because other transactions store what they belong to."""
        riding, self._riding = self._riding, []
        for event in riding:
            event.queue()

    async def write(self, work: Callable[[Transaction], None]) -> None:
        """Commit a write for the run; raise Waiting where another worker has it, or the store is unreachable."""
        try:
            await self._database.write(self._journal.lease.tenant_id, work)
        except RunSuperseded:
            self._journal.is_lost = True
            raise Waiting from None
        except AppendOnly:
            raise
        except StorageError:
            raise Waiting(self.soon()) from None

    def soon(self) -> int:
        """Return when to retry."""
        return self._journal.now() + _AGAIN_MICROS
