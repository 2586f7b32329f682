"""Tells listeners of changes to the database, made by any process: one watcher per process, any number of listeners.

SQLite has no way to push, so one connection looks a few times a second at a number that moves with every commit, and
only when it moved at what is new, of all tenants in one statement. On Postgres triggers send NOTIFY with the commit and
one connection listens. After a gap (a start, a connection that was lost, a listener that failed) listeners are told
that anything may have changed.

A change says where to look, not what is there: listeners read what they need in transactions of their own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from twinraven.foundation.clock import now_micros
from twinraven.storage.database import DEFAULT_TENANT, Database, Transaction
from twinraven.storage.forks import forget_after_fork

if TYPE_CHECKING:
    from twinraven.storage.postgres import PostgresConnection

POLL_S: Final = 0.25
CHANNEL: Final = "twinraven_changes"
_SLICE_S: Final = 0.2
_RETRY_S: Final = 0.5
_logger = logging.getLogger("twinraven.storage")


class WatchedTable(NamedTuple):
    """A table whose changes are told: under which topic, and which number grows with each of them."""

    topic: str
    table: str
    mark: str
    is_log: bool = True
    """Whether the number grows over all tenants; else each tenant has one row with a number of its own."""
    where: str = "1 = 1"
    """Which rows of the table are those of the topic."""

    @property
    def name(self) -> str:
        return self.table if self.table != "change_marks" else f"{self.topic}_marks"


WATCHED: Final[tuple[WatchedTable, ...]] = (
    WatchedTable("events", "muninn_event_log", "arrival"),
    WatchedTable("approvals", "approvals", "rowid"),
    WatchedTable("approvals", "approval_decisions", "rowid"),
    WatchedTable("catalog", "catalog_version", "version", is_log=False),
    *(
        WatchedTable(topic, "change_marks", "mark", is_log=False, where=f"topic = '{topic}'")
        for topic in ("runs", "conversations", "work", "reservations")
    ),
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change notification; without tenant and topic, anything may have changed."""

    topic: str | None = None
    tenant_id: str | None = None

    def concerns(self, topic: str) -> bool:
        return self.topic is None or self.topic == topic


Listener = Callable[[Change], None]
"""Called on the feed's thread; what it raises makes the feed tell everything again."""

_ANYTHING: Final = Change()


class ChangeFeed:
    """Watches one database as long as there are listeners."""

    def __init__(self, database: Database, *, poll_s: float = POLL_S) -> None:
        self._database = database
        self._poll_s = poll_s
        self._listeners: list[Listener] = []
        self._begin()
        forget_after_fork(self)

    def _begin(self) -> None:
        self._starting = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: dict[Change, int] = {}

    def after_fork(self) -> None:
        """Watch anew in a child, for the listeners that it inherited."""
        self._begin()
        if self._listeners:
            self._start()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener of every change from now on; calling what is returned ends it."""
        with self._starting:
            self._listeners.append(listener)
        self._start()
        return lambda: self._listeners.remove(listener)

    def changed_since(self, tenant_id: str, micros: int) -> list[str] | None:
        """Return the topics of a tenant of which a change was seen from a moment on.

        None where anything may have changed.

        A change is seen after its commit, never before, so what was read at that moment lacks nothing else.
        """
        gap = self._told.get(_ANYTHING)
        if gap is None or gap >= micros:
            return None
        told = [change for change, at in list(self._told.items()) if at >= micros and change.tenant_id == tenant_id]
        return [change.topic for change in told if change.topic is not None]

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._watch, name="twinraven-changes", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        stop, source, is_said = self._stop, None, False
        while not stop.is_set():
            try:
                source = source or self._open()
                for change in source.look(stop):
                    self._told[change] = now_micros()
                    for listener in list(self._listeners):
                        listener(change)
                is_said = False
            except Exception as error:  # noqa: BLE001 - the thread's edge: what is known stays known meanwhile
                if not is_said:
                    _logger.warning("changes of the database cannot be followed, trying on: %s", error)
                is_said = True
                if source is not None:
                    source.close()
                source = None
                stop.wait(_RETRY_S)
        if source is not None:
            source.close()

    def _open(self) -> _Source:
        if self._database.dialect == "postgres":
            return _Notifications(self._database)
        return _Marks(self._database, self._poll_s)


class _Source(Protocol):
    def look(self, stop: threading.Event) -> list[Change]: ...

    def close(self) -> None: ...


class _Notifications:
    """Changes as Postgres pushes them."""

    def __init__(self, database: Database) -> None:
        self._connection = cast("PostgresConnection", database.connect())

    def look(self, stop: threading.Event) -> list[Change]:
        del stop
        payloads = self._connection.notifications(CHANNEL, within_s=_SLICE_S)
        if payloads is None:
            return [_ANYTHING]
        told = dict.fromkeys(payloads)
        return [Change(topic, tenant_id) for topic, _, tenant_id in (each.partition(" ") for each in told)]

    def close(self) -> None:
        self._connection.close()


class _Marks:
    """Changes as numbers that grew, in an embedded file."""

    def __init__(self, database: Database, poll_s: float) -> None:
        self._connection = database.connect()
        self._poll_s = poll_s
        self._version: int | None = None
        self._seen: dict[str, int] = {}
        self._own: dict[tuple[str, str], int] = {}

    def look(self, stop: threading.Event) -> list[Change]:
        is_first = self._version is None
        if not is_first and stop.wait(self._poll_s):
            return []
        with self._connection.transaction(DEFAULT_TENANT, write=False) as tx:
            row = tx.fetch_one("PRAGMA data_version")
            version = 0 if row is None else int(row["data_version"])
            if version == self._version:
                return []
            changes = self._changes(tx, is_first=is_first)
        self._version = version
        return [_ANYTHING] if is_first else changes

    def close(self) -> None:
        self._connection.close()

    def _changes(self, tx: Transaction, *, is_first: bool) -> list[Change]:
        if is_first:
            for each in WATCHED:
                row = tx.fetch_one(f"SELECT max({each.mark}) AS mark FROM {each.table}") if each.is_log else None
                self._seen[each.name] = -1 if row is None or row["mark"] is None else row["mark"]
        found: dict[Change, None] = {}
        for row in tx.fetch_all(_NEW, **self._seen):
            watched = WATCHED[int(row["place"])]
            tenant_id, mark = row["tenant_id"], row["mark"]
            if watched.is_log:
                self._seen[watched.name] = max(self._seen[watched.name], mark)
            elif self._own.get((watched.name, tenant_id)) == mark:
                continue
            self._own[watched.name, tenant_id] = mark
            found[Change(watched.topic, tenant_id)] = None
        return list(found)


# The sign keeps SQLite from going through a whole log in the order of an index by tenant: what is new is at its end.
_NEW: Final = " UNION ALL ".join(
    f"SELECT {place} AS place, tenant_id, max({each.mark}) AS mark FROM {each.table} "
    f"WHERE {each.mark} > :{each.name} AND {each.where} GROUP BY {'+' if each.is_log else ''}tenant_id"
    for place, each in enumerate(WATCHED)
)
