"""Runs mining over a tenant's log, and records the window and the configuration needed to repeat it.

Columns are streamed from the store, chains are stored with samples that lead back to events. A `MiningRun` is all that
decides what is found; its snapshot is each chain's `mining_config`, and the same events with that snapshot give the
same chains in the same order, also where the run was filtered, windowed or cut by its budget.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinraven.catalog import BATCH_READS, RUN_CODE
from twinraven.foundation.clock import iso, parse_iso
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.chains import CandidateChain, columns_of, mine_chains
from twinraven.huginn.mining import EventColumns, EventRow, MiningConfig
from twinraven.huginn.scripts import load_script_traces
from twinraven.huginn.selection import Prices
from twinraven.huginn.traces import SessionTrace
from twinraven.muninn import EventFilter, EventStore, Outcome

if TYPE_CHECKING:
    from twinraven.huginn.settings import MiningSettings

Note = Callable[[str], None]

_OWN = ("of", "idle_gap_s", "tag", "since", "until", "last_sessions", "through_arrival", "prices", "most", "learning")
"""What a snapshot holds besides the mining options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWindow:
    """The window of a log; unset fields do not restrict. `last_sessions` are those that began last."""

    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    last_sessions: int | None = None
    through_arrival: int | None = None
    """Up to which arrival number, so that a run can be repeated after the log has grown."""

    def __post_init__(self) -> None:
        if self.last_sessions is not None and self.last_sessions < 1:
            raise InvalidInput(f"last_sessions must be at least 1, it is {self.last_sessions}", field="last_sessions")

    @property
    def where(self) -> EventFilter:
        """The part of the restriction that the store applies."""
        return EventFilter(tag=self.tag, since=self.since, until=self.until, through_arrival=self.through_arrival)


@dataclass(frozen=True, slots=True, kw_only=True)
class MiningRun:
    """All that decides which chains a run finds, and in which order."""

    config: MiningConfig
    idle_gap_s: float
    window: LogWindow = field(default_factory=LogWindow)
    prices: Prices = field(default_factory=Prices)
    most: int | None = None
    learning: Mapping[str, Any] | None = None
    """What else a round of learning decided by, such as its sample of sessions; mining does not look at it."""
    of: Literal["calls", "scripts"] = "calls"
    """Whether the agents' own calls are mined, or the calls that their recurring scripts made."""

    @classmethod
    def of_settings(cls, settings: MiningSettings, *, idle_gap_s: float, now: datetime) -> MiningRun:
        """Return the run that the settings ask for; a window in days begins so long before now."""
        days = settings.window_days
        config: dict[str, Any] = {
            "algorithm": settings.algorithm,
            "min_support": settings.min_support,
            "min_sessions": settings.min_sessions,
            "min_confidence": settings.min_confidence,
            "min_length": settings.min_length,
            "max_length": settings.max_length,
            "max_gap_ms": settings.max_gap_ms if settings.algorithm == "gsp" else None,
            "max_patterns": settings.max_patterns,
            "max_work": settings.max_work,
        }
        window = LogWindow(
            since=None if days is None else now - timedelta(days=days), last_sessions=settings.last_sessions
        )
        return cls(config=MiningConfig.from_dict(config), idle_gap_s=idle_gap_s, window=window)

    def as_dict(self) -> dict[str, Any]:
        """Return the snapshot: plain JSON values, every field named, what is unset as null."""
        return {**self.config.as_dict(), **self.surroundings()}

    def surroundings(self) -> dict[str, Any]:
        """Return the snapshot without the mining options themselves."""
        window = self.window
        return {
            "of": self.of,
            "idle_gap_s": self.idle_gap_s,
            "tag": window.tag,
            "since": None if window.since is None else iso(window.since),
            "until": None if window.until is None else iso(window.until),
            "last_sessions": window.last_sessions,
            "through_arrival": window.through_arrival,
            "prices": asdict(self.prices),
            "most": self.most,
            "learning": None if self.learning is None else dict(self.learning),
        }

    @classmethod
    def from_dict(cls, snapshot: Mapping[str, Any], *, idle_gap_s: float) -> MiningRun:
        """Return the run a snapshot was taken of; one of an older release may lack the idle gap, which is then the
        given.
        """
        rest = dict(snapshot)
        own = {name: rest.pop(name) for name in _OWN if name in rest}
        since, until = own.get("since"), own.get("until")
        window = LogWindow(
            tag=own.get("tag"),
            since=None if since is None else parse_iso(since),
            until=None if until is None else parse_iso(until),
            last_sessions=own.get("last_sessions"),
            through_arrival=own.get("through_arrival"),
        )
        gap = own.get("idle_gap_s")
        return cls(
            config=MiningConfig.from_dict(rest),
            idle_gap_s=idle_gap_s if gap is None else float(gap),
            window=window,
            prices=Prices(**own.get("prices", {})),
            most=own.get("most"),
            learning=own.get("learning"),
            of=own.get("of", "calls"),
        )


@dataclass(frozen=True, slots=True, eq=False)
class LogColumns:
    """The agents' own calls of a window, as columns and with what leads back to the log.

    `arrivals` holds the arrival number of each row of the log, by `columns.rows`; `session_ids` and `turns` each
    session's id and how many turns its assistant took, by the number of the session in `columns`.
    """

    columns: EventColumns
    arrivals: array[int]
    session_ids: list[str]
    turns: array[int]


async def load_columns(
    store: EventStore, tenant_id: str, *, idle_gap_s: float, window: LogWindow | None = None
) -> LogColumns:
    """Load the agents' own calls as columns; a long idle gap counts as outside input."""
    chosen = window or LogWindow()
    verdicts = await store.verdicts(tenant_id)
    reader = _ColumnReader(verdicts)

    def read(batches: Iterator[list[tuple[Any, ...]]]) -> EventColumns:
        return EventColumns.build(reader.rows(batches))

    columns = await store.read_columns(tenant_id, read, where=chosen.where)
    loaded = LogColumns(with_idle_breaks(columns, idle_gap_s), reader.arrivals, reader.session_ids, reader.turns)
    return loaded if chosen.last_sessions is None else _latest(loaded, chosen.last_sessions)


async def mine_log(
    store: EventStore, tenant_id: str, run: MiningRun, *, now: datetime, note: Note | None = None
) -> list[CandidateChain]:
    """Return the most valuable chains of a log, each with the events of some of its instances."""
    run = await bounded(store, tenant_id, run)
    if run.of == "scripts":
        return mine_traces(await load_scripts(store, tenant_id, run), run, now=now, note=note)
    loaded = await load_columns(store, tenant_id, idle_gap_s=run.idle_gap_s, window=run.window)
    return await mine_loaded(store, tenant_id, run, loaded, now=now, note=note)


async def mine_loaded(
    store: EventStore, tenant_id: str, run: MiningRun, loaded: LogColumns, *, now: datetime, note: Note | None = None
) -> list[CandidateChain]:
    """`mine_log` of columns that are loaded already."""
    stored = run.surroundings()
    mined = mine_chains(
        loaded.columns, run.config, now=now, most=run.most, prices=run.prices, snapshot=stored, note=note
    )
    arrivals = loaded.arrivals
    ids = await store.event_ids(tenant_id, [arrivals[row] for item in mined for row in item.rows])
    return [
        replace(item.chain, sample_event_ids=tuple(ids[arrivals[row]] for row in item.rows if arrivals[row] in ids))
        for item in mined
    ]


async def load_scripts(store: EventStore, tenant_id: str, run: MiningRun) -> list[SessionTrace]:
    """Load the runs of recurring scripts in a run's window, each as a session."""
    window = run.window
    found = await load_script_traces(store, tenant_id, where=window.where, last_sessions=window.last_sessions)
    return found.sessions


def mine_traces(
    sessions: Sequence[SessionTrace], run: MiningRun, *, now: datetime, note: Note | None = None
) -> list[CandidateChain]:
    """Return the most valuable chains of sessions that are loaded in full."""
    stored = run.surroundings()
    mined = mine_chains(
        columns_of(sessions), run.config, now=now, most=run.most, prices=run.prices, snapshot=stored, note=note
    )
    ids = [call.event_id for session in sessions for call in session.calls]
    sampled = ([ids[row] for row in item.rows] for item in mined)
    return [
        replace(item.chain, sample_event_ids=tuple(event_id for event_id in events if event_id is not None))
        for item, events in zip(mined, sampled, strict=True)
    ]


async def bounded(store: EventStore, tenant_id: str, run: MiningRun) -> MiningRun:
    """Return the run over what is stored now, so that its snapshot finds the same when more has been."""
    if run.window.through_arrival is not None:
        return run
    settled = await store.settled(tenant_id)
    return replace(run, window=replace(run.window, through_arrival=settled))


class _ColumnReader:
    """Rows of `MINING_COLUMNS` as event rows, and on the way what the columns do not hold."""

    def __init__(self, verdicts: Mapping[str, Outcome]) -> None:
        self._verdicts = verdicts
        self.arrivals: array[int] = array("q")
        self.session_ids: list[str] = []
        self.turns: array[int] = array("q")

    def rows(self, batches: Iterator[list[tuple[Any, ...]]]) -> Iterator[EventRow]:
        verdicts, arrivals = self._verdicts, self.arrivals
        current: str | None = None
        after_script: str | None = None
        calls = highest = 0
        numbered = True
        for batch in batches:
            for session, tool, outside, outcome, latency, timestamp, time_known, arrival, turn in batch:
                if tool in (RUN_CODE, BATCH_READS):
                    # No step of a chain, and no chain goes on across it.
                    after_script = session
                    continue
                if session != current:
                    self._end(current, highest if numbered else calls)
                    current, calls, highest, numbered = session, 0, 0, True
                is_cut = bool(outside) or session == after_script
                after_script = None
                calls += 1
                numbered = numbered and bool(turn)
                highest = max(highest, turn or 0)
                arrivals.append(arrival)
                known = bool(time_known)
                failed = verdicts.get(session, outcome) == "failure"
                yield (session, tool, is_cut, failed, latency if known else None, timestamp, known)
        self._end(current, highest if numbered else calls)

    def _end(self, session: str | None, turns: int) -> None:
        if session is not None:
            self.session_ids.append(session)
            self.turns.append(turns)


def _latest(loaded: LogColumns, most: int) -> LogColumns:
    """Return the sessions that began last, in the order they had.

    Where times are unknown, those that were stored last.
    """
    columns = loaded.columns
    if columns.sessions <= most:
        return loaded
    first = columns.offsets[:-1]
    stored = np.frombuffer(loaded.arrivals, np.int64)[columns.rows[first]]
    began = np.where(columns.time_known[first], columns.start[first], 0)
    kept = np.sort(np.lexsort((stored, began))[-most:])
    numbers: list[int] = kept.tolist()
    return LogColumns(
        columns.select_sessions(kept),
        loaded.arrivals,
        [loaded.session_ids[number] for number in numbers],
        array("q", (loaded.turns[number] for number in numbers)),
    )


def with_idle_breaks(columns: EventColumns, idle_gap_s: float) -> EventColumns:
    """Return the columns with a break after every idle time longer than the gap."""
    if len(columns) < 2:
        return columns
    breaks = columns.breaks.copy()
    timed = columns.time_known[1:] & columns.time_known[:-1]
    breaks[1:] |= timed & (columns.start[1:] - columns.end[:-1] > np.int64(idle_gap_s * 1_000_000))
    return replace(columns, breaks=breaks)
