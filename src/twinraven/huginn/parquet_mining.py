"""Mines exported Parquet files in parts, on any engine, with exactly the counts of the whole.

Three passes over the parts, none of which ever needs two parts at once. Every part proposes the chains frequent in it;
every part counts all proposals, its transitions and its tools; the parts are asked for samples of the chains that are
shown. Counts add up (see `mining.partitions`), so the result does not depend on how the log was cut or who counted.

Ranking differs from that of a home in one thing: which calls a better chain has taken already can only be seen with all
calls at hand, so each chain is weighed by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import numpy as np

from twinraven.catalog import RUN_CODE
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.chains import SAMPLES, CandidateChain, candidate_of
from twinraven.huginn.engines import Engine
from twinraven.huginn.mining import (
    EventColumns,
    InstanceFinder,
    MinedTable,
    TransitionCounts,
    count_partition,
    frequent,
    merge,
    merge_transitions,
    prepare,
    propose_chains,
    transition_counts,
)
from twinraven.huginn.mining.search import OverBudget
from twinraven.huginn.mining_run import MiningRun, Note, with_idle_breaks
from twinraven.huginn.ranking import rank_counts
from twinraven.muninn import CallArrays, ParquetPart, plan_parts, read_part

R = TypeVar("R")
Chain = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartError:
    """An error of a worker as a value, because not every cluster brings exceptions back as they were."""

    message: str
    details: dict[str, Any]
    over_budget: bool


class PartCounts(NamedTuple):
    """The counts of one part."""

    table: MinedTable
    transitions: TransitionCounts
    calls: dict[str, int]


def mine_parquet(
    files: Sequence[Path],
    run: MiningRun,
    engine: Engine,
    *,
    now: datetime,
    part_rows: int | None = None,
    note: Note | None = None,
) -> list[CandidateChain]:
    """Return the chains of exported files, the most valuable first, the same on every engine."""
    _check_window(run)
    parts = plan_parts(files) if part_rows is None else plan_parts(files, rows=part_rows)
    run, proposed = _proposals(engine, parts, run, note)
    counted = _everywhere(engine, partial(count_part, run, proposed), parts)
    calls: Counter[str] = Counter()
    for each in counted:
        calls.update(each.calls)
    transitions = merge_transitions([each.transitions for each in counted])
    patterns = [
        found
        for found in frequent(merge([each.table for each in counted]), run.config)
        if transitions.confidence(found.tools) >= run.config.min_confidence
    ]
    ranked = rank_counts(patterns, calls, run.prices)[: run.most]
    stored = {**run.as_dict(), "files": [path.name for path in files]}
    chains = [candidate_of(each, transitions, stored, now) for each in ranked]
    samples = _everywhere(engine, partial(sample_part, run, tuple(chain.tools for chain in chains)), parts)
    return [
        replace(chain, sample_event_ids=_first_samples([each[chain.tools] for each in samples], len(chain.tools)))
        for chain in chains
    ]


def propose_part(run: MiningRun, part: ParquetPart) -> set[Chain]:
    """Return the chains frequent in a part."""
    return propose_chains(_columns(read_part(part), run), run.config)


def count_part(run: MiningRun, chains: frozenset[Chain], part: ParquetPart) -> PartCounts:
    """Return the counts of these chains in a part, with its transitions and tools."""
    columns = _columns(read_part(part), run)
    prepared = prepare(columns, run.config)
    calls: list[int] = np.bincount(prepared.tools, minlength=len(prepared.names)).tolist()
    return PartCounts(
        count_partition(columns, run.config, chains),
        transition_counts(prepared),
        dict(zip(prepared.names, calls, strict=True)),
    )


def sample_part(run: MiningRun, chains: tuple[Chain, ...], part: ParquetPart) -> dict[Chain, list[str]]:
    """Return the ids of the events of each chain's first instances in a part."""
    arrays = read_part(part)
    prepared = prepare(_columns(arrays, run), run.config)
    finder = InstanceFinder(prepared, run.config)
    rows = {chain: prepared.rows[finder.first(chain, SAMPLES)].ravel() for chain in chains}
    return {chain: arrays.event_ids.take(found).to_pylist() for chain, found in rows.items()}


def _proposals(
    engine: Engine, parts: Sequence[ParquetPart], run: MiningRun, note: Note | None
) -> tuple[MiningRun, frozenset[Chain]]:
    """Return what the parts propose; where that exceeds the budget, with twice the support, until it does not."""
    asked = run.config.min_support
    while True:
        answers = _answers(engine, partial(propose_part, run), parts)
        refused = next((answer for answer in answers if isinstance(answer, PartError)), None)
        if refused is None:
            break
        if not refused.over_budget or run.config.min_support >= 0.5:
            raise InvalidInput(refused.message, **refused.details)
        run = replace(run, config=replace(run.config, min_support=run.config.min_support * 2))
    if note is not None and run.config.min_support != asked:
        note(f"cut to a support of {run.config.min_support:g}: {asked:g} takes more than the budget of a run")
    return run, frozenset(chain for answer in answers if not isinstance(answer, PartError) for chain in answer)


def _everywhere(engine: Engine, work: Callable[[ParquetPart], R], parts: Sequence[ParquetPart]) -> list[R]:
    results: list[R] = []
    for answer in _answers(engine, work, parts):
        if isinstance(answer, PartError):
            raise InvalidInput(answer.message, **answer.details)
        results.append(answer)
    return results


def _answers(engine: Engine, work: Callable[[ParquetPart], R], parts: Sequence[ParquetPart]) -> list[R | PartError]:
    return engine.map(partial(_guarded, work), parts)


def _guarded(work: Callable[[ParquetPart], R], part: ParquetPart) -> R | PartError:
    try:
        return work(part)
    except InvalidInput as error:
        return PartError(error.message, error.details, isinstance(error, OverBudget))


def _columns(arrays: CallArrays, run: MiningRun) -> EventColumns:
    count = len(arrays.tools)
    plain = EventColumns(
        names=arrays.names,
        tools=arrays.tools,
        offsets=arrays.offsets,
        breaks=arrays.outside,
        failed=arrays.failed,
        latency=arrays.latency_ms,
        start=arrays.start_us,
        end=arrays.start_us + np.maximum(arrays.latency_ms, 0) * 1_000,
        time_known=arrays.time_known,
        rows=np.arange(count, dtype=np.int64),
    )
    return with_idle_breaks(_without_scripts(plain), run.idle_gap_s)


def _without_scripts(columns: EventColumns) -> EventColumns:
    """Return the columns without calls of the tool that runs scripts: no step of a chain, and no chain goes on across
    one.
    """
    script = columns.tool_ids([RUN_CODE])
    if script is None:
        return columns
    runs = columns.tools == script[0]
    follows = np.concatenate((np.zeros(1, np.bool_), runs[:-1]))
    kept = np.flatnonzero(~runs)
    offsets = np.searchsorted(kept, columns.offsets)
    cut = replace(columns, breaks=columns.breaks | follows)
    return cut.at(kept, offsets[np.concatenate(([True], np.diff(offsets) > 0))])


def _check_window(run: MiningRun) -> None:
    window = run.window
    for name in ("tag", "since", "until", "last_sessions"):
        if getattr(window, name) is not None:
            raise InvalidInput(f"{name} restricts a home's log; export what is to be mined", field=name)


def _first_samples(found: Sequence[list[str]], length: int) -> tuple[UUID, ...]:
    ids = [event_id for part in found for event_id in part]
    return tuple(UUID(event_id) for event_id in ids[: SAMPLES * length])
