"""Tells listeners of changes to the database, made by any process: one watcher per process, any number of listeners.

SQLite has no way to push, so one connection looks a few times a second at a number that moves with every commit, and
only when it moved at what is new, of all tenants in one statement. On Postgres triggers send NOTIFY with the commit and
one connection listens. After a gap (a start, a connection that was lost, a listener that failed) listeners are told
that anything may have changed.

A change says where to look, not what is there: listeners read what they need in transactions of their own. It names
what it is about (the session of a call, a run, a conversation, a task) where few things changed at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
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
_MOST_NAMED: Final = 32
"""At most so many things of one topic are named that changed between two looks; of more it is told that some did."""
_MOST_REMEMBERED: Final = 4_096
_logger = logging.getLogger("twinraven.storage")


class WatchedTable(NamedTuple):
    """A table in which changes show: their topic, what they are about, and a number that grows with each of them."""

    topic: str
    table: str
    mark: str
    about: str = "NULL"
    is_log: bool = True
    """Whether the number grows over all tenants; else each tenant has one row with a number of its own."""


WATCHED: Final[tuple[WatchedTable, ...]] = (
    WatchedTable("'events'", "muninn_event_log", "arrival", about="session_id"),
    WatchedTable("'approvals'", "approvals", "rowid"),
    WatchedTable("'approvals'", "approval_decisions", "rowid"),
    WatchedTable("'catalog'", "catalog_version", "version", is_log=False),
    WatchedTable("topic", "change_notes", "number", about="about"),
)
"""Topics and what changes are about are SQL expressions."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change notification; without tenant and topic, anything may have changed."""

    topic: str | None = None
    tenant_id: str | None = None
    about: str | None = None
    """The id of what changed; without one, anything of the topic may have."""

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
        self._most = _MOST_REMEMBERED

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

    def changed_since(self, tenant_id: str, micros: int) -> list[Change] | None:
        """Return the changes of a tenant that were seen from a moment on, each once.

        None where anything may have changed.

        A change is seen after its commit, never before, so what was read at that moment lacks nothing else.
        """
        gap = self._told.get(_ANYTHING)
        if gap is None or gap >= micros:
            return None
        return [change for change, at in list(self._told.items()) if at >= micros and change.tenant_id == tenant_id]

    def _remember(self, change: Change) -> None:
        """Note when a change was seen; of what was seen long ago only the topic stays known."""
        self._told[change] = now_micros()
        if len(self._told) > self._most:
            by_time = sorted(self._told.items(), key=lambda each: each[1])
            half = len(by_time) // 2
            self._told = {replace(each, about=None): at for each, at in by_time[:half]} | dict(by_time[half:])
            self._most = len(self._told) + _MOST_REMEMBERED

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
                    self._remember(change)
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
        return [Change(*each.split(" ", 2)) for each in dict.fromkeys(payloads)]

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
                self._seen[each.table] = -1 if row is None or row["mark"] is None else row["mark"]
        oldest = tx.fetch_one("SELECT min(number) AS number FROM change_notes")
        is_gap = oldest is not None and (oldest["number"] or 0) > max(self._seen["change_notes"], 0) + 1
        found: dict[Change, None] = {_ANYTHING: None} if is_gap else {}
        rows = tx.fetch_all(_NEW, most=_MOST_NAMED + 1, **self._seen)
        for place, watched in enumerate(WATCHED):
            own = [row for row in rows if row["place"] == place]
            if len(own) > _MOST_NAMED:
                whole = _new(place, watched._replace(about="NULL"))
                own = tx.fetch_all(whole, most=-1, **{watched.table: self._seen[watched.table]})
            for row in own:
                tenant_id, mark = row["tenant_id"], row["mark"]
                if watched.is_log:
                    self._seen[watched.table] = max(self._seen[watched.table], mark)
                elif self._own.get((watched.table, tenant_id)) == mark:
                    continue
                else:
                    self._own[watched.table, tenant_id] = mark
                found[Change(row["topic"], tenant_id, row["about"])] = None
        return list(found)


def _new(place: int, each: WatchedTable) -> str:
    """Return the statement for what is new in a table, the newest first."""
    # The sign keeps SQLite from reading a whole log in the order of an index by tenant: what is new is at its end.
    tenant = f"{'+' if each.is_log else ''}tenant_id"
    return (
        f"SELECT * FROM (SELECT {place} AS place, {each.topic} AS topic, tenant_id, {each.about} AS about, "
        f"max({each.mark}) AS mark FROM {each.table} WHERE {each.mark} > :{each.table} "
        f"GROUP BY {tenant}, topic, about ORDER BY mark DESC LIMIT :most)"
    )


_NEW: Final = " UNION ALL ".join(_new(place, each) for place, each in enumerate(WATCHED))
