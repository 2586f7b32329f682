"""Loads runs that a worker has taken: many in one read, with what came of their steps and what they wait for.

A worker takes as many runs as it has free slots. Reading each by itself costs a hop to a thread and five statements a
run; at every statement the interpreter's lock is given up and waited for, so a thousand runs that are taken over at
once would wait for seconds. Together they cost three statements for every 64.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from twinraven.engine.attempts import CORRELATION, RunLineage
from twinraven.engine.dispatch import Lease
from twinraven.engine.invoker import StepLimits
from twinraven.engine.journal import CallOutcome, Seals, read_outcome
from twinraven.engine.model import Wait
from twinraven.engine.runs_sql import RunStore
from twinraven.engine.waits import WaitStore
from twinraven.foundation.canonical import JsonObject, parse_json
from twinraven.foundation.errors import TwinRavenError
from twinraven.storage import Row, Transaction, chunks

if TYPE_CHECKING:
    from twinraven.flow import FlowDefinition, StepDefinition

MAX_RUN_STEPS: Final = 2_000
_KEPT: Final = 256
_TOGETHER: Final = 64


class TimelessDefinition(NamedTuple):
    """A definition whose steps have no time limits of their own, and these limits beside it.

    The executor would cut a call off at its time; whoever makes the call must end it, to say what became of a write.
    """

    definition: FlowDefinition
    limits: StepLimits

    @classmethod
    def of(cls, definition: FlowDefinition) -> TimelessDefinition:
        strategy = definition.error_strategy
        limits: StepLimits = {(step.step_index, None): step.timeout_ms for step in definition.steps}
        for index, sequence in strategy.fallback_steps.items():
            limits |= {(index, position): step.timeout_ms for position, step in enumerate(sequence)}
        fallbacks = {index: _timeless(sequence) for index, sequence in strategy.fallback_steps.items()}
        steps = _timeless(definition.steps)
        return cls(replace(definition, steps=steps, error_strategy=replace(strategy, fallback_steps=fallbacks)), limits)


def _timeless(steps: tuple[StepDefinition, ...]) -> tuple[StepDefinition, ...]:
    return tuple(step if step.timeout_ms is None else replace(step, timeout_ms=None) for step in steps)


class LoadedRun(NamedTuple):
    """A run as it was stored."""

    row: Row
    definition: TimelessDefinition
    parameters: JsonObject
    outcomes: dict[str, CallOutcome]
    waits: dict[str, Wait]
    lineage: RunLineage | None
    correlation_id: str | None
    """The id of the request that the run comes from; None for one that was started before runs kept it."""


class _Stored(NamedTuple):
    """The rows of a run."""

    row: Row
    waits: list[Row]
    steps: list[Row]


def _by_run(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["run_id"]].append(row)
    return found


def definition_place(run_id: str) -> str:
    return f"run:{run_id}:definition"


def parameters_place(run_id: str) -> str:
    return f"run:{run_id}:parameters"


def answer_place(run_id: str) -> str:
    return f"run:{run_id}:answer"


class RunLoader:
    """Reads runs and opens what they keep."""

    def __init__(self, store: RunStore, waits: WaitStore, seals: Seals) -> None:
        self._store = store
        self._waits = waits
        self._seals = seals
        self._definitions: OrderedDict[bytes, TimelessDefinition] = OrderedDict()

    def load(self, tx: Transaction, lease: Lease) -> LoadedRun | None:
        """Read a run; None where there is nothing to work on any more."""
        stored = self._stored(tx, lease.tenant_id, [lease]).get(lease)
        return None if stored is None else self._open(lease, stored)

    def load_many(self, tx: Transaction, tenant_id: str, leases: Sequence[Lease]) -> dict[Lease, LoadedRun]:
        """Read runs of one tenant; what has nothing to work on, or does not open, is left out."""
        loaded: dict[Lease, LoadedRun] = {}
        for some in chunks(leases, _TOGETHER):
            for lease, stored in self._stored(tx, tenant_id, some).items():
                with suppress(TwinRavenError):  # whoever reads it alone learns why
                    run = self._open(lease, stored)
                    if run is not None:
                        loaded[lease] = run
        return loaded

    def _stored(self, tx: Transaction, tenant_id: str, leases: Sequence[Lease]) -> dict[Lease, _Stored]:
        ids = [lease.run_id for lease in leases]
        rows = {row["run_id"]: row for row in self._store.materials(tx, tenant_id, ids) if row["state"] == "active"}
        waits = _by_run(self._waits.rows_of(tx, tenant_id, ids))
        steps = _by_run(self._store.steps(tx, tenant_id, ids))
        return {
            lease: _Stored(rows[lease.run_id], waits[lease.run_id], steps[lease.run_id])
            for lease in leases
            if lease.run_id in rows
        }

    def _open(self, lease: Lease, stored: _Stored) -> LoadedRun | None:
        tenant_id, run_id, seals, row = lease.tenant_id, lease.run_id, self._seals, stored.row
        waits = self._waits.read(tenant_id, run_id, stored.waits)
        if lease.place and lease.place not in waits:
            return None
        outcomes = {step["place"]: read_outcome(seals, tenant_id, run_id, step) for step in stored.steps}
        raw = seals.open(tenant_id, parameters_place(run_id), row["parameters"])
        definition = self._definition(seals.open(tenant_id, definition_place(run_id), row["definition"]))
        lineage: dict[str, str] = {} if row["lineage"] is None else parse_json(row["lineage"], field="lineage")
        correlation_id = lineage.pop(CORRELATION, None)
        given = parse_json(raw, field="parameters")
        return LoadedRun(row, definition, given, outcomes, waits, lineage or None, correlation_id)

    def _definition(self, raw: bytes) -> TimelessDefinition:
        found = self._definitions.get(raw)
        if found is None:
            from twinraven.flow import FlowDefinition  # loaded with the first run

            stated = FlowDefinition.from_json(parse_json(raw, field="definition"))
            found = self._definitions[raw] = TimelessDefinition.of(stated)
            if len(self._definitions) > _KEPT:
                self._definitions.popitem(last=False)
        return found
