"""Answers repeated reads of a session from its own record, where `gateway.repeat_reads_s` allows it.

A read with the same arguments, by the same caller in the same session, is answered with what it gave before, if nothing
in that session can have changed anything meanwhile: no write by anybody, through whatever door, that had not ended
before that read began. Policy has spoken before the record is asked, and the log shows the call, tagged
`cached-result`. The answer says how old it is.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from twinraven.catalog import Catalog, ToolEntry
from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.errors import NotFound
from twinraven.muninn import EventFilter, EventStore, MuninnEvent

_MOST_KEPT: Final = 2_000
_MOST_BYTES: Final = 262_144
_LONGEST_WRITE: Final = timedelta(hours=1)
_MOST_EVENTS: Final = 500

SessionKey = tuple[str, str, str | None]
"""Tenant, session and caller."""
ReadKey = tuple[SessionKey, str, str, bytes]


@dataclass(frozen=True, slots=True)
class EarlierRead:
    """An earlier answer to a read: its output, the upstream's exact result, and its time."""

    output: Any
    exact: dict[str, Any] | None
    started: int
    event_id: UUID

    def meta(self, now: int) -> dict[str, Any]:
        """Return the metadata of an answer from the cache."""
        return {"age_s": round((now - self.started) / 1_000_000, 3), "event_id": str(self.event_id)}


class RepeatableRead:
    """One read of a session: finds its cached answer, or caches the one it gets."""

    def __init__(self, reads: RepeatedReads, session: SessionKey) -> None:
        self._reads = reads
        self._session = session
        self._key: ReadKey | None = None
        self.started = reads.micros()
        self.found: EarlierRead | None = None

    async def recall(self, entry: ToolEntry, params: bytes) -> Any | None:
        """Return the earlier output of this read, for the call path; None where it must be made."""
        self._key = (self._session, entry.tool_id, entry.fingerprint, params)
        self.found = await self._reads.earlier(self._key)
        return None if self.found is None else self.found.output

    def keep(self, output: Any, exact: dict[str, Any] | None, event_id: UUID | None) -> None:
        """Remember what the read gave."""
        if self._key is not None and self.found is None and event_id is not None and output is not None:
            self._reads.keep(self._key, EarlierRead(output, exact, self.started, event_id))


class RepeatedReads:
    """Remembers what the sessions of a gateway read lately."""

    def __init__(
        self, events: EventStore, catalog: Catalog, *, max_age_s: float, micros: Callable[[], int] = now_micros
    ) -> None:
        self._events = events
        self._catalog = catalog
        self._max_age = max_age_s * 1_000_000
        self.micros = micros
        self._kept: OrderedDict[ReadKey, EarlierRead] = OrderedDict()
        self._writing: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def asking(
        self, tenant_id: str, session_id: str, caller: str | None, entry: ToolEntry
    ) -> Generator[RepeatableRead]:
        """Provide one call of a session, for as long as it runs.

        Nothing is answered from the record while a write runs.
        """
        place = (tenant_id, session_id)
        self._writing[place] += entry.writes
        try:
            yield RepeatableRead(self, (tenant_id, session_id, caller))
        finally:
            self._writing[place] -= entry.writes
            if not self._writing[place]:
                del self._writing[place]

    async def earlier(self, key: ReadKey) -> EarlierRead | None:
        """Return the cached answer of the same read, if it is fresh and nothing was written since it began."""
        found = self._kept.get(key)
        if found is None:
            return None
        is_old = self.micros() - found.started > self._max_age
        if is_old or await self._written_since(key[0], found.started):
            self._kept.pop(key, None)
            return None
        return found

    def keep(self, key: ReadKey, read: EarlierRead) -> None:
        if self._writing.get(key[0][:2]) or len(orjson.dumps([read.output, read.exact])) > _MOST_BYTES:
            return
        self._kept[key] = read
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    async def _written_since(self, session: SessionKey, started: int) -> bool:
        """Return whether anything in the session that can write had not ended when the read began."""
        tenant_id, session_id, _ = session
        if self._writing.get((tenant_id, session_id)):
            return True
        since = from_micros(started) - _LONGEST_WRITE
        where = EventFilter(session_id=session_id, since=since, limit=_MOST_EVENTS, newest_first=True)
        events = await self._events.events(tenant_id, where)
        began = from_micros(started)
        later = [event for event in events if event.timestamp + timedelta(milliseconds=event.latency_ms + 1) >= began]
        # Of more events than were read, the older ones may be such writes.
        is_cut = len(events) == _MOST_EVENTS and len(later) == len(events)
        return is_cut or any(self._may_write(tenant_id, event) for event in later)

    def _may_write(self, tenant_id: str, event: MuninnEvent) -> bool:
        try:
            return self._catalog.find(tenant_id, event.tool_id).writes
        except NotFound:
            return True
