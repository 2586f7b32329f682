"""Holds the event log as NumPy arrays for the mining kernels.

A million events as Python objects cost hundreds of megabytes and a pointer chase each; as columns they cost 39 bytes
each and whole-array operations. Tools are small integers into `names`, which is sorted, so the numbering depends on the
set of names alone and never on the order of arrival. Sessions are offsets into arrays sorted by (session, sequence).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from twinraven.foundation.errors import InvalidInput

Ints: TypeAlias = NDArray[np.int64]
SmallInts: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

EventRow: TypeAlias = tuple[str, str, bool, bool, int | None, int, bool]
"""(session id, tool id, outside input came before, failed, latency in ms or None, start in µs, start is known)"""

UNKNOWN = -1
LONGEST_LATENCY = 2**31 - 1
_BATCH = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class EventColumns:
    """One row per call, sorted by (session, sequence).

    `breaks` marks a call before which something came from outside; nothing merges across it, and on a session's first
    call it means nothing. `failed` is the stated outcome. `latency` is in ms, -1 where unknown. `start` and `end` are
    in µs and mean something only where `time_known`; the end of a call of unknown latency is its start. `rows` is the
    place of the call in what the caller passed, so that events are found again.
    """

    names: tuple[str, ...]
    tools: SmallInts
    offsets: Ints
    breaks: Flags
    failed: Flags
    latency: Ints
    start: Ints
    end: Ints
    time_known: Flags
    rows: Ints

    def __len__(self) -> int:
        return len(self.tools)

    @property
    def sessions(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def build(cls, events: Iterable[EventRow]) -> EventColumns:
        """Columns from any stream of events.

        Sessions may be interleaved; the events of one session come in its order. Sessions keep the order in which they
        first appear. Only one batch of Python objects is alive at a time.
        """
        draft = _Draft()
        stream = iter(events)
        while batch := list(islice(stream, _BATCH)):
            draft.add(batch)
        return draft.finish()

    @classmethod
    def from_arrays(
        cls,
        names: Sequence[str],
        tools: NDArray[np.integer],
        offsets: NDArray[np.integer],
        *,
        breaks: Flags | None = None,
        failed: Flags | None = None,
        latency: NDArray[np.integer] | None = None,
        start: NDArray[np.integer] | None = None,
    ) -> EventColumns:
        """Columns from arrays that are already sorted; what is left out is unknown or false."""
        count = len(tools)
        millis = np.full(count, UNKNOWN, np.int64) if latency is None else latency.astype(np.int64)
        begins = np.zeros(count, np.int64) if start is None else start.astype(np.int64)
        return cls(
            names=tuple(names),
            tools=tools.astype(np.int32),
            offsets=offsets.astype(np.int64),
            breaks=np.zeros(count, np.bool_) if breaks is None else breaks,
            failed=np.zeros(count, np.bool_) if failed is None else failed,
            latency=millis,
            start=begins,
            end=begins + np.maximum(millis, 0) * 1_000,
            time_known=np.full(count, start is not None),
            rows=np.arange(count, dtype=np.int64),
        )

    def tool_ids(self, tools: Iterable[str]) -> list[int] | None:
        """Return the integers of these names, or None when one of them does not occur."""
        known = {name: number for number, name in enumerate(self.names)}
        ids = [known.get(tool) for tool in tools]
        return None if None in ids else [number for number in ids if number is not None]

    def session_of(self, positions: Ints) -> Ints:
        """Return the session number of each position."""
        return np.searchsorted(self.offsets, positions, side="right") - 1

    def select_sessions(self, sessions: Ints) -> EventColumns:
        """Return the columns of these sessions alone, in the order given.

        `rows` still points into the caller's list.
        """
        return self.at(*self.places_of(sessions))

    def places_of(self, sessions: Ints) -> tuple[Ints, Ints]:
        """Return the positions of the calls of these sessions, and the offsets that cut them into sessions again."""
        lengths = np.diff(self.offsets)[sessions]
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        shift = np.repeat(self.offsets[:-1][sessions] - offsets[:-1], lengths)
        return np.arange(len(shift), dtype=np.int64) + shift, offsets

    def at(self, positions: Ints, offsets: Ints) -> EventColumns:
        """These positions as columns of their own, cut into sessions at `offsets`."""
        return EventColumns(
            names=self.names,
            tools=self.tools[positions],
            offsets=offsets,
            breaks=self.breaks[positions],
            failed=self.failed[positions],
            latency=self.latency[positions],
            start=self.start[positions],
            end=self.end[positions],
            time_known=self.time_known[positions],
            rows=self.rows[positions],
        )


class _Draft:
    """Columns under construction: growing machine arrays, so that an event costs its bytes and no object."""

    def __init__(self) -> None:
        self._session_ids: dict[str, int] = {}
        self._tool_ids: dict[str, int] = {}
        self._sessions, self._tools = array("i"), array("i")
        self._breaks, self._failed, self._timed = array("b"), array("b"), array("b")
        self._latency, self._start = array("i"), array("q")

    def add(self, batch: list[EventRow]) -> None:
        sessions, tools, breaks, failed, latency, start, timed = zip(*batch, strict=True)
        known_sessions, known_tools = self._session_ids, self._tool_ids
        self._sessions.extend([known_sessions.setdefault(name, len(known_sessions)) for name in sessions])
        self._tools.extend([known_tools.setdefault(name, len(known_tools)) for name in tools])
        self._breaks.extend(map(bool, breaks))
        self._failed.extend(map(bool, failed))
        self._timed.extend(map(bool, timed))
        self._start.extend(start)
        self._latency.extend([_checked_latency(millis) for millis in latency])

    def finish(self) -> EventColumns:
        names = sorted(self._tool_ids)
        number = np.empty(len(names), np.int32)
        number[[self._tool_ids[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        sessions = np.frombuffer(self._sessions, np.int32) if self._sessions else np.empty(0, np.int32)
        rows = np.arange(len(sessions), dtype=np.int64)
        if np.any(sessions[1:] < sessions[:-1]):
            rows = np.argsort(sessions, kind="stable")
        counts = np.bincount(sessions, minlength=len(self._session_ids))
        latency = _column(self._latency, rows).astype(np.int64)
        start = _column(self._start, rows)
        return EventColumns(
            names=tuple(names),
            tools=number[_column(self._tools, rows)],
            offsets=np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))).astype(np.int64),
            breaks=_column(self._breaks, rows).astype(np.bool_),
            failed=_column(self._failed, rows).astype(np.bool_),
            latency=latency,
            start=start,
            end=start + np.maximum(latency, 0) * 1_000,
            time_known=_column(self._timed, rows).astype(np.bool_),
            rows=rows,
        )


def _column(values: array[int], rows: Ints) -> NDArray[np.signedinteger]:
    """Return a growing array as a column in row order; the buffer is given back at once."""
    column = np.array(values, dtype=values.typecode)[rows]
    del values[:]
    return column


def _checked_latency(millis: int | None) -> int:
    if millis is None or millis < 0:
        return UNKNOWN
    if millis > LONGEST_LATENCY:
        raise InvalidInput(f"latency_ms {millis} is longer than any call: give milliseconds", field="latency_ms")
    return millis
