"""Advances a run that a worker has taken: flow's executor over the journal, until the run ends or has to wait."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, cast

from twinraven.engine.attempts import CORRELATION, RunLineage
from twinraven.engine.dispatch import Lease
from twinraven.engine.errors import RunSetAside, RunSuperseded
from twinraven.engine.invoker import CallingParts, DurableInvoker, RunIdentity, StepLimits
from twinraven.engine.journal import Journal, Outcome, encode_outcome, read_outcome
from twinraven.engine.model import RunEnd, Wait
from twinraven.engine.programs import CallFraming
from twinraven.engine.runs_sql import RunStore
from twinraven.flow import FlowDefinition, FlowExecutor, FlowResult, StepDefinition, StepRun, Waiting
from twinraven.foundation.actors import SYSTEM, Actor, parse_actor
from twinraven.foundation.canonical import JsonObject, parse_json
from twinraven.foundation.clock import to_micros
from twinraven.foundation.correlation import current_correlation
from twinraven.foundation.errors import StaleState, TwinRavenError
from twinraven.storage import Row, Transaction

_logger = logging.getLogger("twinraven.engine")

MAX_RUN_STEPS: Final = 2_000
_KEPT: Final = 256
_SOON: Final = 1_000_000
_NEVER: Final = 200 * 366 * 86_400_000_000


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
    return tuple(replace(step, timeout_ms=None) for step in steps)


class LoadedRun(NamedTuple):
    """A run as it was stored."""

    row: Row
    definition: TimelessDefinition
    parameters: JsonObject
    outcomes: dict[str, Outcome]
    waits: dict[str, Wait]
    lineage: RunLineage | None
    correlation_id: str | None
    """The id of the request that the run comes from; None for one that was started before runs kept it."""


_Act = Callable[[LoadedRun, Journal, DurableInvoker], Awaitable[bool]]


def definition_place(run_id: str) -> str:
    return f"run:{run_id}:definition"


def parameters_place(run_id: str) -> str:
    return f"run:{run_id}:parameters"


def read_actor(text: str) -> Actor:
    """An actor from its stored text."""
    return SYSTEM if text == str(SYSTEM) else parse_actor(text, field="actor")


def answer_place(run_id: str) -> str:
    return f"run:{run_id}:answer"


class Advancer:
    """Advances runs and makes single steps, for the workers of a process."""

    def __init__(
        self,
        parts: CallingParts,
        *,
        most_strikes: int,
        on_set_aside: Callable[[Transaction, str, str], None],
        on_end: Callable[[Transaction, RunEnd], None],
    ) -> None:
        self._parts = parts
        self._store = RunStore()
        self._most_strikes = most_strikes
        self._on_set_aside = on_set_aside
        self._on_end = on_end
        self._executor = FlowExecutor(micros=parts.kit.micros, max_steps=MAX_RUN_STEPS)
        self._definitions: OrderedDict[bytes, TimelessDefinition] = OrderedDict()
        self._invokers: set[DurableInvoker] = set()

    def drain(self) -> None:
        """Let runs rest at their next call; calls under way end."""
        for invoker in self._invokers:
            invoker.is_draining = True

    async def advance(self, lease: Lease) -> bool:
        """Bring a run as far as it goes; False where it failed."""
        return await self._take_up(lease, self._advance_run)

    async def make_step(self, lease: Lease) -> bool:
        """Make the step that the lease is for, in a slot of its type; False where it failed."""
        return await self._take_up(lease, self._make_step)

    async def _take_up(self, lease: Lease, act: _Act) -> bool:
        if lease.strikes >= self._most_strikes:
            await self._set_aside(lease)
            return False
        run = await self._parts.database.read(lease.tenant_id, lambda tx: self._load(tx, lease))
        if run is None:
            await self._give_up(lease)
            return True
        journal = Journal(self._parts.kit, lease, run.outcomes)
        identity = RunIdentity(run.row["caller"], read_actor(run.row["actor"]), run.row["priority"], run.lineage)
        invoker = DurableInvoker(self._parts, journal, identity, run.waits, run.definition.limits)
        self._invokers.add(invoker)
        outer = current_correlation.set(run.correlation_id)
        try:
            return await act(run, journal, invoker)
        except RunSuperseded:
            return True
        finally:
            current_correlation.reset(outer)
            self._invokers.discard(invoker)

    async def _advance_run(self, run: LoadedRun, journal: Journal, invoker: DurableInvoker) -> bool:
        deadline = run.row["deadline_at"]
        if deadline is not None:
            deadline += _time_waited(run.waits, journal.now())
        try:
            if run.lineage is not None and self._parts.governor is not None:
                await self._parts.governor.begin(journal.lease.tenant_id, journal.lease.run_id)
            flow = self._executor.prepare(
                run.definition.definition,
                run.parameters,
                invoker,
                writes=invoker.writes,
                pause=invoker.pause,
                deadline=_NEVER if deadline is None else deadline - journal.lease.ahead,
            )
            result = await flow.finish()
        except TwinRavenError as error:
            await self._finish(run, journal, "failed", None, error.as_record())
            return False
        if journal.is_lost:
            return True
        if result.status == "waiting":
            await self._rest(journal, result, deadline)
            return True
        error = None if result.error is None else result.error.as_record()
        await self._finish(run, journal, "succeeded" if error is None else "failed", result.output, error)
        return error is None

    async def _make_step(self, run: LoadedRun, journal: Journal, invoker: DurableInvoker) -> bool:
        """Make the one call that this job is; its outcome wakes the run."""
        lease = journal.lease
        asked = run.waits[lease.place].question
        step = StepRun(*cast("list[Any]", asked["step"]))
        if "framing" in asked:
            invoker.frame(step, CallFraming(*cast("list[Any]", asked["framing"])))
        outcome = run.outcomes.get(lease.place)
        try:
            if outcome is None:
                async with self._parts.slots.hold(lease.queue) as count:
                    outcome = await invoker.make_in_time(asked["tool_id"], asked["params"], step, asked["timeout_ms"])
                    count.errors += outcome.error is not None
        except Waiting as waiting:
            until = waiting.until
            if invoker.has_asked:  # the run itself waits now, and gives out the step anew when that is over
                await self._give_up(lease, wakes=True)
            elif not journal.is_lost:
                await self._write(lease, lambda tx: self._parts.kit.dispatcher.rest(tx, lease, until))
            return True

        def work(tx: Transaction) -> None:
            journal.store(tx)
            journal.end_job(tx)

        await self._write(lease, work)
        return outcome.error is None

    async def _rest(self, journal: Journal, result: FlowResult, deadline: int | None) -> None:
        lease, until = journal.lease, result.until
        if deadline is not None:  # what waits for an event looks at its deadline, too
            until = min(until or _NEVER, max(deadline, journal.now() + _SOON))

        def work(tx: Transaction) -> None:
            journal.store(tx)
            self._parts.kit.dispatcher.rest(tx, lease, until)

        await self._write(lease, work)

    async def _finish(
        self,
        run: LoadedRun,
        journal: Journal,
        state: Literal["succeeded", "failed"],
        output: Any,
        error: dict[str, Any] | None,
    ) -> None:
        governor, lease = self._parts.governor, journal.lease
        end = RunEnd(lease.tenant_id, lease.run_id, state, output, error)
        if run.lineage is None or governor is None:
            await self._end(journal, end, lambda _tx: None)
            return
        end = end._replace(calls=journal.calls())
        for last in (False, False, False, True):
            conclusion = await governor.conclude(lease.tenant_id, lease.run_id, end)
            try:
                await self._end(journal, end, conclusion)
                return
            except StaleState:  # what the conclusion was drawn from has moved: it is drawn again
                if last:
                    raise

    async def _end(self, journal: Journal, end: RunEnd, conclusion: Callable[[Transaction], None]) -> None:
        lease, parts = journal.lease, self._parts

        def work(tx: Transaction) -> None:
            told = None if end.error is None else journal.clean(end.error)
            answer = parts.kit.seals.seal(lease.tenant_id, answer_place(lease.run_id), encode_outcome(end.output, told))
            journal.hold(tx)
            code = None if told is None else told["code"]
            now = journal.now()
            self._store.end(tx, lease.tenant_id, lease.run_id, end.state, now=now, answer=answer, error_code=code)
            parts.kit.dispatcher.drop(tx, lease.tenant_id, lease.run_id)
            conclusion(tx)
            self._on_end(tx, end._replace(error=told))

        await self._write(lease, work)

    async def _set_aside(self, lease: Lease) -> None:
        """Keep a run that killed its workers from the next one, until a person resumes it."""

        def work(tx: Transaction) -> None:
            self._parts.kit.dispatcher.hold(tx, lease)
            self._store.end(tx, lease.tenant_id, lease.run_id, "set_aside", now=None, error_code=RunSetAside.code)
            self._parts.kit.dispatcher.drop(tx, lease.tenant_id, lease.run_id)
            self._on_set_aside(tx, lease.tenant_id, lease.run_id)

        _logger.warning("run %s was set aside: %d workers died with it", lease.run_id, lease.strikes)
        await self._write(lease, work)

    async def _give_up(self, lease: Lease, *, wakes: bool = False) -> None:
        """Drop a lease behind which there is nothing to work on; `wakes` lets its run see what the step asked."""

        def work(tx: Transaction) -> None:
            self._parts.kit.dispatcher.hold(tx, lease)
            self._parts.kit.dispatcher.drop(tx, lease.tenant_id, lease.run_id, place=lease.place)
            if wakes:
                self._parts.kit.dispatcher.wake(tx, lease.tenant_id, lease.run_id)

        await self._write(lease, work)

    async def _write(self, lease: Lease, work: Callable[[Transaction], None]) -> None:
        """Commit the end of an advance; a run whose store is away is taken up again when the lease has run out."""
        await self._parts.database.write(lease.tenant_id, work)

    def _load(self, tx: Transaction, lease: Lease) -> LoadedRun | None:
        tenant_id, run_id, seals = lease.tenant_id, lease.run_id, self._parts.kit.seals
        row = self._store.material(tx, tenant_id, run_id)
        if row is None or row["state"] != "active":
            return None
        waits = self._parts.waits.of_run(tx, tenant_id, run_id)
        if lease.place and lease.place not in waits:
            return None
        steps = self._store.steps(tx, tenant_id, run_id)
        outcomes = {step["place"]: read_outcome(seals, tenant_id, run_id, step) for step in steps}
        raw = seals.open(tenant_id, parameters_place(run_id), row["parameters"])
        definition = self._definition(seals.open(tenant_id, definition_place(run_id), row["definition"]))
        lineage: dict[str, str] = {} if row["lineage"] is None else parse_json(row["lineage"], field="lineage")
        correlation_id = lineage.pop(CORRELATION, None)
        given = parse_json(raw, field="parameters")
        return LoadedRun(row, definition, given, outcomes, waits, lineage or None, correlation_id)

    def _definition(self, raw: bytes) -> TimelessDefinition:
        found = self._definitions.get(raw)
        if found is None:
            stated = FlowDefinition.from_json(parse_json(raw, field="definition"))
            found = self._definitions[raw] = TimelessDefinition.of(stated)
            if len(self._definitions) > _KEPT:
                self._definitions.popitem(last=False)
        return found


def _time_waited(waits: dict[str, Wait], now: int) -> int:
    """How long a run waited for people, which is no time of its own."""
    spent = 0
    for wait in waits.values():
        if wait.kind in ("person", "approval", "effect"):
            ended = now if wait.answered_at is None else to_micros(wait.answered_at)
            spent += max(0, ended - to_micros(wait.asked_at))
    return spent
