"""Stores an event in its caller's transaction, so that one commit serves both.

A call that settles its key, or whose answer is kept at once, commits anyway. Its event can ride in that transaction
instead of waiting a few milliseconds for a commit of its own: the record is on disk as soon as the answer is, for one
synchronised write instead of two. Where that transaction fails, the event goes the common way through the queue.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from twinraven.muninn.batch import Encoded, write_rows
from twinraven.muninn.model import Observation
from twinraven.muninn.receipt import Receipt
from twinraven.muninn.row import RowEncoder
from twinraven.storage import Transaction


class EventQueue(Protocol):
    """Stores events by itself."""

    def submit_again(self, event: TransactionalEvent) -> Receipt: ...


class TransactionalEvent:
    """An event that is stored in its caller's transaction."""

    def __init__(self, seen: Observation, encoder: RowEncoder, queue: EventQueue) -> None:
        self.event_id: UUID = seen.event_id
        self._seen = seen
        self._encoder = encoder
        self._queue = queue
        self._encoded: Encoded | None = None

    def encoded(self) -> Encoded:
        """Return the rows of the event, made once: its tags depend on what was recorded before it."""
        if self._encoded is None:
            self._encoded = self._encoder.encode(self._seen)
        return self._encoded

    def write(self, tx: Transaction) -> None:
        """Store the event with whatever else the transaction holds, which belongs to the same tenant."""
        write_rows(tx, [self.encoded()])

    def queue(self) -> Receipt:
        """Queue the event to be stored apart: the transaction failed, or its outcome is unknown."""
        return self._queue.submit_again(self)
