"""Mining a tenant's log: columns streamed from the store, chains stored with samples that lead back to events."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from twinraven.catalog import BATCH_READS, RUN_CODE
from twinraven.huginn.chains import CandidateChain, mine_chains
from twinraven.huginn.mining import EventColumns, EventRow, MiningConfig
from twinraven.huginn.selection import Prices
from twinraven.muninn import EventFilter, EventStore, Outcome


async def load_columns(
    store: EventStore, tenant_id: str, *, idle_gap_s: float, where: EventFilter | None = None
) -> tuple[EventColumns, array[int]]:
    """The agents' own calls as columns, and the arrival number of each; a long idle gap counts as outside input."""
    arrivals: array[int] = array("q")
    verdicts = await store.verdicts(tenant_id)

    def read(batches: Iterator[list[tuple[Any, ...]]]) -> EventColumns:
        return EventColumns.build(_rows(batches, verdicts, arrivals))

    columns = await store.read_columns(tenant_id, read, where=where)
    return _with_idle_breaks(columns, idle_gap_s), arrivals


async def mine_log(
    store: EventStore,
    tenant_id: str,
    config: MiningConfig,
    *,
    idle_gap_s: float,
    now: datetime,
    where: EventFilter | None = None,
    most: int | None = None,
    prices: Prices | None = None,
) -> list[CandidateChain]:
    """The most valuable chains of a log, each with the events of some of its instances."""
    columns, arrivals = await load_columns(store, tenant_id, idle_gap_s=idle_gap_s, where=where)
    snapshot = {} if where is None else _filter_snapshot(where)
    mined = mine_chains(columns, config, now=now, most=most, prices=prices)
    ids = await store.event_ids(tenant_id, [arrivals[row] for item in mined for row in item.rows])
    return [
        replace(
            item.chain,
            sample_event_ids=tuple(ids[arrivals[row]] for row in item.rows if arrivals[row] in ids),
            mining_config={**item.chain.mining_config, **snapshot},
        )
        for item in mined
    ]


def _rows(
    batches: Iterator[list[tuple[Any, ...]]], verdicts: dict[str, Outcome], arrivals: array[int]
) -> Iterator[EventRow]:
    after_script: str | None = None
    for batch in batches:
        for session, tool, outside, outcome, latency, timestamp, time_known, arrival in batch:
            if tool in (RUN_CODE, BATCH_READS):
                # No step of a chain, and no chain goes on across it.
                after_script = session
                continue
            arrivals.append(arrival)
            known = bool(time_known)
            failed = verdicts.get(session, outcome) == "failure"
            is_cut = bool(outside) or session == after_script
            after_script = None
            yield (session, tool, is_cut, failed, latency if known else None, timestamp, known)


def _with_idle_breaks(columns: EventColumns, idle_gap_s: float) -> EventColumns:
    if len(columns) < 2:
        return columns
    breaks = columns.breaks.copy()
    timed = columns.time_known[1:] & columns.time_known[:-1]
    breaks[1:] |= timed & (columns.start[1:] - columns.end[:-1] > np.int64(idle_gap_s * 1_000_000))
    return replace(columns, breaks=breaks)


def _filter_snapshot(where: EventFilter) -> dict[str, Any]:
    """What part of the log was mined, so that a run can be repeated."""
    stated = {
        "tag": where.tag,
        "since": None if where.since is None else where.since.isoformat(),
        "until": None if where.until is None else where.until.isoformat(),
    }
    return {name: value for name, value in stated.items() if value is not None}
