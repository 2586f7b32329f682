"""Advances a run that a worker has taken: flow's executor over the journal, until the run ends or has to wait."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from twinraven.engine.dispatch import Lease
from twinraven.engine.ending import OnEnds, RunEnds
from twinraven.engine.errors import RunSetAside, RunSuperseded
from twinraven.engine.invoker import CallingParts, DurableInvoker, RunIdentity
from twinraven.engine.journal import Journal
from twinraven.engine.loading import MAX_RUN_STEPS, LoadedRun, RunLoader
from twinraven.engine.model import RunEnd, Wait
from twinraven.engine.programs import PROGRAM, CallFraming
from twinraven.engine.runs_sql import RunStore
from twinraven.flow import StepRun, Waiting
from twinraven.foundation.actors import SYSTEM, Actor, parse_actor
from twinraven.foundation.clock import to_micros
from twinraven.foundation.correlation import current_correlation
from twinraven.foundation.errors import StaleState, TwinRavenError
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.flow import FlowExecutor, FlowResult

_logger = logging.getLogger("twinraven.engine")

_SOON: Final = 1_000_000
_NEVER: Final = 200 * 366 * 86_400_000_000

_Act = Callable[[LoadedRun, Journal, DurableInvoker], Awaitable[bool]]


def read_actor(text: str) -> Actor:
    """Read an actor from its stored text."""
    return SYSTEM if text == str(SYSTEM) else parse_actor(text, field="actor")


class Advancer:
    """Advances runs and makes single steps, for the workers of a process."""

    def __init__(
        self,
        parts: CallingParts,
        *,
        most_strikes: int,
        on_set_aside: Callable[[Transaction, str, str], None],
        on_ends: OnEnds,
    ) -> None:
        self._parts = parts
        self._store = RunStore()
        self._most_strikes = most_strikes
        self._on_set_aside = on_set_aside
        self._loader = RunLoader(self._store, parts.waits, parts.kit.seals)
        self._ends = RunEnds(parts.database, self._store, parts.kit, on_ends)
        self._invokers: set[DurableInvoker] = set()

    @cached_property
    def _executor(self) -> FlowExecutor:
        from twinraven.flow import FlowExecutor  # loaded with the first run: a worker that waits needs no scheduler

        return FlowExecutor(micros=self._parts.kit.micros, max_steps=MAX_RUN_STEPS)

    def drain(self) -> None:
        """Let runs rest at their next call; calls under way end."""
        for invoker in self._invokers:
            invoker.is_draining = True

    async def load(self, leases: Sequence[Lease]) -> dict[Lease, LoadedRun]:
        """Read runs that were taken, those of a tenant at once; what is left out is read when it is advanced."""
        if len(leases) < 2:
            return {}
        loaded: dict[Lease, LoadedRun] = {}
        for tenant_id in {lease.tenant_id for lease in leases}:
            own = [lease for lease in leases if lease.tenant_id == tenant_id]
            loaded |= await self._parts.database.read(
                tenant_id, lambda tx, own=own, tenant_id=tenant_id: self._loader.load_many(tx, tenant_id, own)
            )
        return loaded

    async def advance(self, lease: Lease, run: LoadedRun | None = None) -> bool:
        """Bring a run as far as it goes; False where it failed."""
        return await self._take_up(lease, run, self._advance_run)

    async def make_step(self, lease: Lease, run: LoadedRun | None = None) -> bool:
        """Make the step that the lease is for, in a slot of its type; False where it failed."""
        return await self._take_up(lease, run, self._make_step)

    async def _take_up(self, lease: Lease, run: LoadedRun | None, act: _Act) -> bool:
        if lease.strikes >= self._most_strikes:
            await self._set_aside(lease)
            return False
        if run is None:
            run = await self._parts.database.read(lease.tenant_id, lambda tx: self._loader.load(tx, lease))
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
        error = _told_error(run, result)
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
        end = RunEnd(
            lease.tenant_id,
            lease.run_id,
            state,
            output,
            error,
            target=run.row["target"],
            created_at=run.row["created_at"],
            correlation_id=run.correlation_id,
        )
        if run.lineage is None or governor is None:
            await self._ends.end(journal, end)
            return
        end = end._replace(calls=journal.calls())
        for last in (False, False, False, True):
            conclusion = await governor.conclude(lease.tenant_id, lease.run_id, end)
            try:
                await self._ends.end_alone(journal, end, conclusion)
                return
            except StaleState:  # what the conclusion was drawn from has moved: it is drawn again
                if last:
                    raise

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


def _told_error(run: LoadedRun, result: FlowResult) -> dict[str, Any] | None:
    """Return what a run failed with.

    A program is the one step of its run, so its own error says what there is to say.
    """
    error = result.error
    if error is not None and run.definition.definition.steps[0].tool_id.startswith(PROGRAM):
        error = error.__cause__ if isinstance(error.__cause__, TwinRavenError) else error
    return None if error is None else error.as_record()


def _time_waited(waits: dict[str, Wait], now: int) -> int:
    """Return how long a run waited for people, which is no time of its own."""
    spent = 0
    for wait in waits.values():
        if wait.kind in ("person", "approval", "effect"):
            ended = now if wait.answered_at is None else to_micros(wait.answered_at)
            spent += max(0, ended - to_micros(wait.asked_at))
    return spent
