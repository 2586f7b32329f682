"""Loads what a round of learning reads: columns of the whole log, and the calls of the sessions that matter.

A log of a million sessions fits into memory as columns and not as objects. So chains are mined on columns, and only
sessions in which a candidate's first tool is called are loaded in full: nowhere else could it be used. Where even
these are more than the sample, those with the lowest hash of their id are taken: a uniform sample, the same in every
run, whatever else is in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import xxhash

from twinraven.huginn.chains import CandidateChain, is_batch
from twinraven.huginn.mining import EventColumns, MiningConfig
from twinraven.huginn.mining.columns import Ints
from twinraven.huginn.mining_run import LogColumns, MiningRun, Note, bounded, load_columns, mine_loaded, mine_traces
from twinraven.huginn.traces import SessionTrace, TraceLog, load_traces
from twinraven.muninn import EventStore

SAMPLE_SESSIONS = 20_000
MOST_CALLS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLimits:
    """Limits of the sample that is read in full: sessions, and calls of each from its first on."""

    sessions: int = SAMPLE_SESSIONS
    calls: int = MOST_CALLS


@dataclass(frozen=True, slots=True)
class LearningEvidence:
    """The input of a round of learning.

    `chains` were counted over all `sessions` of the window; `log` holds the sample of the `relevant` sessions, those
    in which some candidate's first tool is called. Sums over the sample times `scale` estimate those over the window.
    """

    run: MiningRun
    chains: list[CandidateChain]
    log: TraceLog
    sessions: int
    calls: int
    turns: int
    relevant: int

    @property
    def scale(self) -> float:
        """The number of relevant sessions of the window that one of the sample stands for."""
        return self.relevant / len(self.log.sessions) if self.log.sessions else 1.0


async def load_evidence(
    store: EventStore,
    tenant_id: str,
    run: MiningRun,
    *,
    now: datetime,
    limits: SampleLimits | None = None,
    note: Note | None = None,
    calling: Iterable[str] = (),
) -> LearningEvidence:
    """Mine a tenant's log on columns, then load the sessions in which what was found could be used.

    Chains of different tools are those of the run, with repeats collapsed; tools repeated in a row are mined besides.
    Sessions that call one of the tools in `calling` are relevant, too.
    """
    limits = limits or SampleLimits()
    learning = {**(run.learning or {}), "sample_sessions": limits.sessions, "most_calls": limits.calls}
    run = await bounded(store, tenant_id, replace(run, learning=learning))
    loaded = await load_columns(store, tenant_id, idle_gap_s=run.idle_gap_s, window=run.window)
    chains: list[CandidateChain] = []
    for config in (run.config, repeated_pairs(run.config)):
        found = await mine_loaded(store, tenant_id, replace(run, config=config), loaded, now=now, note=note)
        chains += [chain for chain in found if is_batch(chain.tools) != config.collapse_repeats]
    relevant = sessions_calling(loaded.columns, {*calling, *(chain.tools[0] for chain in chains)})
    sample = lowest_hashes(loaded, relevant, limits.sessions)
    if note is not None and len(sample) < len(relevant):
        note(f"read {len(sample):,} of {len(relevant):,} sessions in full, chosen by the hash of their ids")
    log = await load_traces(
        store,
        tenant_id,
        idle_gap_s=run.idle_gap_s,
        sessions=[loaded.session_ids[number] for number in sample],
        where=run.window.where,
        most_calls=limits.calls,
    )
    if note is not None and log.cut_sessions:
        note(f"read the first {limits.calls:,} calls of {log.cut_sessions} sessions that are longer")
    columns = loaded.columns
    return LearningEvidence(run, chains, log, columns.sessions, len(columns), sum(loaded.turns), len(relevant))


async def load_sample(store: EventStore, tenant_id: str, run: MiningRun, limits: SampleLimits) -> TraceLog:
    """Load the sessions of a window in full, whatever they call; of more than the sample, the same uniform one."""
    loaded = await load_columns(store, tenant_id, idle_gap_s=run.idle_gap_s, window=run.window)
    wanted: list[str] | None = None
    if run.window.last_sessions is not None or loaded.columns.sessions > limits.sessions:
        every = np.arange(loaded.columns.sessions, dtype=np.int64)
        wanted = [loaded.session_ids[number] for number in lowest_hashes(loaded, every, limits.sessions)]
    return await load_traces(
        store,
        tenant_id,
        idle_gap_s=run.idle_gap_s,
        sessions=wanted,
        where=run.window.where,
        most_calls=limits.calls,
    )


def mine_both_ways(sessions: Sequence[SessionTrace], run: MiningRun, *, now: datetime) -> list[CandidateChain]:
    """Chains of different tools and tools repeated in a row, as `load_evidence` mines them, of sessions in full."""
    return [
        chain
        for config in (run.config, repeated_pairs(run.config))
        for chain in mine_traces(sessions, replace(run, config=config), now=now)
        if is_batch(chain.tools) != config.collapse_repeats
    ]


def repeated_pairs(config: MiningConfig) -> MiningConfig:
    """Return the configuration that finds tools called twice in a row."""
    return MiningConfig.from_dict({**config.as_dict(), "collapse_repeats": False, "min_length": 2, "max_length": 2})


def sessions_calling(columns: EventColumns, tools: set[str]) -> Ints:
    """Return the numbers of the sessions that call one of these tools."""
    wanted = np.array([name in tools for name in columns.names], np.bool_)
    if not wanted.any():
        return np.empty(0, np.int64)
    return np.unique(columns.session_of(np.flatnonzero(wanted[columns.tools])))


def lowest_hashes(loaded: LogColumns, sessions: Ints, most: int) -> Sequence[int]:
    """At most so many of these sessions, those with the lowest hash of their id, ascending by number."""
    numbers: list[int] = sessions.tolist()
    if len(numbers) <= most:
        return numbers
    ids = loaded.session_ids
    hashes = np.array([xxhash.xxh64_intdigest(ids[number].encode()) for number in numbers], np.uint64)
    return np.sort(sessions[np.argsort(hashes, kind="stable")[:most]]).tolist()
