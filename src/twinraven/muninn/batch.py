"""Commits a batch of events: isolates a bad event by halving, retries an unreachable store, reports other errors.

Three kinds of refusal need three answers. A value the store cannot hold, or an id that is taken, is the fault of one
event: the batch is halved until that one is alone, and the others are stored. A store that cannot be reached is tried
again for a moment, since a restart takes seconds and nobody may be waiting who could try again. Everything else (no
space, no permission, a lock held too long) is reported at once.

A failed COMMIT does not say whether it happened, so before an error is believed the events are looked for by id.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import itemgetter

from twinraven.foundation.errors import (
    AppendOnly,
    Conflict,
    InvalidInput,
    StorageBusy,
    StorageError,
    StorageUnavailable,
    TwinRavenError,
)
from twinraven.muninn.columns import BLOB_COLUMNS, COLUMNS, Row
from twinraven.storage import Connection, Database, Transaction

PAUSES_S = (0.05, 0.2, 0.5, 1.0)
_AT_ONCE = 512
"""Rows that are gone through several times before the next ones, while the processor has them at hand."""

Encoded = tuple[Row, Row | None]
"""The log's row and, where the output is kept, the blob's."""

Write = Callable[[Transaction, list[Encoded]], None]


class BatchCommitter:
    """Stores encoded events over a connection of its own, and says of each what came of it."""

    def __init__(self, database: Database, *, may_wait: Callable[[], bool] = lambda: True) -> None:
        self._database = database
        self._may_wait = may_wait
        self._connection: Connection | None = None

    def commit(self, items: list[Encoded]) -> list[TwinRavenError | None]:
        """For each event: nothing where it is durable, else why it is not."""
        return self._commit(items, write_rows)

    def commit_missing(self, items: list[Encoded]) -> list[TwinRavenError | None]:
        """As `commit`, where some may be stored already."""
        return self._commit(items, write_missing)

    def _commit(self, items: list[Encoded], write: Write) -> list[TwinRavenError | None]:
        if not items:
            return []
        error = self._try(items, write)
        if error is None:
            return [None] * len(items)
        if isinstance(error, (Conflict, InvalidInput, AppendOnly)):
            return self._blame(items, error, write)
        for pause in PAUSES_S if self._is_passing(error) else ():
            if not self._may_wait():
                break
            time.sleep(pause)
            again = self._try(items, write_missing)
            if again is None or isinstance(again, (Conflict, InvalidInput, AppendOnly)):
                return [None] * len(items) if again is None else self._blame(items, again, write_missing)
            error = again
        stored = self._stored(items)
        return [None if row[:2] in stored else error for row, _ in items]

    def close(self) -> None:
        """Let go of the connection; the next batch opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _blame(self, items: list[Encoded], error: TwinRavenError, write: Write) -> list[TwinRavenError | None]:
        if len(items) > 1:
            middle = len(items) // 2
            return [*self._commit(items[:middle], write), *self._commit(items[middle:], write)]
        event_id = items[0][0][1]
        if isinstance(error, InvalidInput):
            return [error]
        # SQLite's guard speaks before its unique index does; a taken id is the same mistake on both stores.
        return [Conflict(f"event {event_id} cannot be stored: {error.message}", event_id=event_id)]

    def _is_passing(self, error: TwinRavenError) -> bool:
        if isinstance(error, StorageBusy):
            # SQLite has waited for its lock already; Postgres asks for another try.
            return self._database.dialect == "postgres"
        return isinstance(error, StorageUnavailable)

    def _try(self, items: list[Encoded], write: Write) -> TwinRavenError | None:
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            with self._connection.transaction(items[0][0][0], write=True) as tx:
                write(tx, items)
        except TwinRavenError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the thread's edge: a surprise must not silence the log for everybody
            return StorageError(f"the batch could not be stored: {error!r}")
        return None

    def _stored(self, items: list[Encoded]) -> set[Row]:
        """Return which events are there after all; none, as far as anyone can say, where the store cannot be asked."""
        if self._connection is None:
            return set()
        try:
            with self._connection.transaction(items[0][0][0], write=False) as tx:
                return _present(tx, items)
        except TwinRavenError:
            return set()


def write_rows(tx: Transaction, items: list[Encoded]) -> None:
    """Insert events and the outputs they name, each tenant under its own name."""
    first = items[0][0][0]
    if all(row[0] == first for row, _ in items):
        _write_tenant(tx, items)
        return
    for tenant in dict.fromkeys(row[0] for row, _ in items):
        tx.act_for(tenant)
        _write_tenant(tx, [item for item in items if item[0][0] == tenant])


def write_missing(tx: Transaction, items: list[Encoded]) -> None:
    """Insert the events that an earlier, uncertain commit did not."""
    stored = _present(tx, items)
    missing = [item for item in items if item[0][:2] not in stored]
    if missing:
        tx.act_for(missing[0][0][0])
        write_rows(tx, missing)


def _write_tenant(tx: Transaction, items: list[Encoded]) -> None:
    blobs = {blob[1]: blob for _, blob in items if blob is not None}
    if blobs:
        # In the order of their index: hashes are random, and each page of it is then changed once a batch.
        tx.insert_missing("blobs", BLOB_COLUMNS, [blobs[name] for name in sorted(blobs)])
    rows = [row for row, _ in items]
    # Most events leave most of the optional columns empty; what no row of the batch fills need not be sent.
    parts = [rows[begun : begun + _AT_ONCE] for begun in range(0, len(rows), _AT_ONCE)]
    filled: set[int] = set()
    for part in parts:
        columns = enumerate(zip(*part, strict=True))
        filled.update(place for place, column in columns if place not in filled and set(column) != {None})
    pick = itemgetter(*sorted(filled))
    for part in parts:
        tx.insert_rows("muninn_event_log", pick(COLUMNS), list(map(pick, part)))


def _present(tx: Transaction, items: list[Encoded]) -> set[Row]:
    """Tenant and id of the events that are in the log."""
    ids: dict[str, list[str]] = {}
    for row, _ in items:
        ids.setdefault(row[0], []).append(row[1])
    found: set[Row] = set()
    for tenant, wanted in ids.items():
        tx.act_for(tenant)
        found.update((tenant, event) for event in tx.present("muninn_event_log", "event_id", wanted, tenant_id=tenant))
    return found
