"""Sends the heartbeat of a worker process, on a thread and a connection of its own.

A tool that blocks the event loop must not cost the process its runs, so nothing here needs the loop. A beat also says
how much was done. A process that is not heard for its lease loses its runs to others; what keeps two from working on
one is the epoch, not the clock.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from threading import Event, Lock, Thread

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import TwinRavenError
from twinraven.storage import Connection, Database, Transaction

_logger = logging.getLogger("twinraven.engine")
_FORGOTTEN_AFTER = 7 * 86_400 * 1_000_000

_BEAT = """
    INSERT INTO engine_workers (worker, host, pools, started_at, seen_at, alive_until, processed, errors)
    VALUES (:worker, :host, :pools, :now, :now, :until, :processed, :errors)
    ON CONFLICT (worker) DO UPDATE SET seen_at = excluded.seen_at, alive_until = excluded.alive_until,
        pools = excluded.pools, processed = excluded.processed, errors = excluded.errors"""


class Heartbeat:
    """Says that a worker process is alive, until it is stopped."""

    def __init__(
        self,
        database: Database,
        worker: str,
        counts: Callable[[], dict[str, list[list[int]]]],
        *,
        lease_s: float,
        now: Callable[[Transaction], int],
    ) -> None:
        self._database = database
        self._worker = worker
        self._counts = counts
        self._lease_s = lease_s
        self._now = now
        self._stopped = Event()
        self._thread = Thread(target=self._beat_until_stopped, name=f"heartbeat-{worker}", daemon=True)
        self._connection: Connection | None = None
        self._turning = Lock()

    def start(self) -> None:
        """Beat once, so that this process counts as alive, and go on in the background; not after it was stopped."""
        with self._turning:
            if not self._stopped.is_set():
                self._beat(self._lease_s)
                self._thread.start()

    def stop(self) -> None:
        """Say that the process is gone; what it had can be taken at once."""
        self._stopped.set()
        with self._turning:
            if self._thread.ident is not None:
                self._thread.join()
                self._say_goodbye()
            if self._connection is not None:
                self._connection.close()

    def _say_goodbye(self) -> None:
        try:
            self._beat(0)
        except TwinRavenError as error:
            _logger.warning("the worker ends, but could not say so: %s", error.message)

    def _beat_until_stopped(self) -> None:
        while not self._stopped.wait(self._lease_s / 3):
            try:
                self._beat(self._lease_s)
            except TwinRavenError as error:
                _logger.warning("the heartbeat was not stored: %s", error.message)

    def _beat(self, lease_s: float) -> None:
        if self._connection is None:
            self._connection = self._database.connect()
        with self._connection.transaction("", write=True) as tx:
            now, counts = self._now(tx), self._counts()
            tx.execute(
                _BEAT,
                worker=self._worker,
                host=socket.gethostname()[:200],
                pools=canonical_json(counts).decode(),
                now=now,
                until=now + round(lease_s * 1_000_000),
                processed=sum(slot[0] for pool in counts.values() for slot in pool),
                errors=sum(slot[1] for pool in counts.values() for slot in pool),
            )
            tx.execute("DELETE FROM engine_workers WHERE alive_until < :before", before=now - _FORGOTTEN_AFTER)
