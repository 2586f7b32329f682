"""Starts runs, lists them and tells how they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from twinraven.engine.attempts import CORRELATION, RunLineage
from twinraven.engine.decisions import DEFAULT_PRIORITY, RunDecisions, RunTerms, missing_run
from twinraven.engine.drawing import draw_run
from twinraven.engine.errors import STOPS
from twinraven.engine.invoker import HOUSE, STOP
from twinraven.engine.journal import (
    decode_outcome,
    exact_json,
    read_outcome,
)
from twinraven.engine.loading import MAX_RUN_STEPS, answer_place, definition_place, parameters_place
from twinraven.engine.model import RUN_STATES, RUNS_QUEUE, RunState, Wait
from twinraven.engine.programs import PROGRAM
from twinraven.engine.views import Run, RunDetail, StepRecord, Worker, ended_jobs
from twinraven.engine.views_sql import new_run
from twinraven.engine.waits import wait_kind
from twinraven.flow import FlowDefinition, StepDefinition, compile_flow, literal
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.canonical import JsonObject, canonical_json, parse_json
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.errors import (
    IdempotencyConflict,
    InvalidInput,
    NotFound,
)
from twinraven.foundation.ids import new_id
from twinraven.foundation.json_schema import compile_schema
from twinraven.muninn import check_name
from twinraven.storage import Row, Transaction
from twinraven.tenancy import Principal

MOST_LISTED: Final = 1_000
_LONGEST_ID: Final = 200


class RunRequest(NamedTuple):
    """A request to run a tool of the catalogue, or a definition that is given as data."""

    parameters: JsonObject
    tool_id: str | None = None
    definition: FlowDefinition | None = None
    run_id: str | None = None
    """What makes starting it twice one run; a new one has a random id."""
    priority: int = DEFAULT_PRIORITY
    """The smallest is taken first."""
    timeout_s: float | None = None
    """After which it fails; time spent waiting for people is not counted."""
    lineage: RunLineage | None = None
    """The campaign, goal and task that it is an attempt at."""
    due: int | None = None
    """When it is taken at the earliest, in microseconds; None for at once."""


class ProgramRequest(NamedTuple):
    """A request to run a program."""

    program: str
    parameters: JsonObject
    description: str
    run_id: str | None = None
    """What makes starting it twice one run; a new one has a random id."""
    timeout_s: float | None = None


class Runs(RunDecisions):
    """Durable runs of all tenants."""

    async def start(self, wish: RunRequest, *, by: Principal) -> Run:
        """Start a run, or find the one of this id that was started with the same words."""
        return await self.start_for(wish, tenant_id=by.tenant_id, caller=by.user_id, actor=by.actor)

    async def start_for(self, wish: RunRequest, *, tenant_id: str, caller: str | None, actor: Actor) -> Run:
        """Start a run for a caller who may be anonymous, and so acts for the whole tenant."""
        work = self.starting(wish, tenant_id=tenant_id, caller=caller, actor=actor)
        return await self._decide(tenant_id, work)

    def starting(
        self, wish: RunRequest, *, tenant_id: str, caller: str | None, actor: Actor
    ) -> Callable[[Transaction], Run]:
        """Give the work that starts a run, for a transaction that holds more; `announce` when that has committed."""
        definition = self._definition(wish, tenant_id, caller)
        plan = compile_flow(definition, max_steps=MAX_RUN_STEPS)
        parameters = plan.accept(wish.parameters)
        self._check_targets(definition, tenant_id, caller)
        if not 0 <= wish.priority <= 1_000_000:
            raise InvalidInput("priority must lie between 0 and 1000000; the smallest is taken first", field="priority")
        return self._adding(wish, definition, parameters, tenant_id=tenant_id, caller=caller, actor=actor)

    def start_in(self, tx: Transaction, wish: RunRequest, *, by: Principal) -> Run:
        """Start a run of a definition with the caller's own rows; `announce` lets workers of this process know.

        The definition was checked before, outside the transaction, by `check_definition`.
        """
        assert wish.definition is not None
        parameters = compile_flow(wish.definition, max_steps=MAX_RUN_STEPS).accept(wish.parameters)
        return self._enter(
            tx, wish, wish.definition, parameters, tenant_id=by.tenant_id, caller=by.user_id, actor=by.actor
        )

    def check_definition(self, definition: FlowDefinition, *, by: Principal) -> None:
        """Refuse a definition that is none, or whose tools are not there."""
        compile_flow(definition, max_steps=MAX_RUN_STEPS)
        self._check_targets(definition, by.tenant_id, by.user_id)

    async def start_program(self, wish: ProgramRequest, *, tenant_id: str, caller: str | None, actor: Actor) -> Run:
        """Start a run of a program; its owner has checked the parameters."""
        run = RunRequest(wish.parameters, run_id=wish.run_id, timeout_s=wish.timeout_s)
        work = self.starting_program(wish, run, tenant_id=tenant_id, caller=caller, actor=actor)
        return await self._decide(tenant_id, work)

    def starting_program(
        self, program: ProgramRequest, wish: RunRequest, *, tenant_id: str, caller: str | None, actor: Actor
    ) -> Callable[[Transaction], Run]:
        """Give the work that starts a program, as `starting` does; how it is run is said by `wish`."""
        mapping = {name: f"$.parameters.{name}" for name in program.parameters}
        definition = FlowDefinition(
            program.program,
            program.description,
            {"type": "object"},
            (StepDefinition(0, f"{PROGRAM}{program.program}", mapping),),
            output={"$at": {"of": "$.steps[0].output", "path": "$"}},
        )
        return self._adding(wish, definition, program.parameters, tenant_id=tenant_id, caller=caller, actor=actor)

    async def start_house_work(self, tenant_id: str, target: str, *, run_id: str) -> None:
        """Start the house's own work; a slot that was started is left alone."""
        await self._decide(tenant_id, lambda tx: self.start_house_work_in(tx, tenant_id, target, {}, run_id=run_id))

    def start_house_work_in(
        self, tx: Transaction, tenant_id: str, target: str, parameters: JsonObject, *, run_id: str
    ) -> Run:
        """Return the same with the caller's own rows, and with what the work is about."""
        mapping = {name: f"$.parameters.{name}" for name in parameters}
        step = StepDefinition(0, target, mapping)
        definition = FlowDefinition(target, "Work of the house", {"type": "object"}, (step,))
        wish = RunRequest(parameters, definition=definition, run_id=run_id)
        return self._enter(tx, wish, definition, parameters, tenant_id=tenant_id, caller=None, actor=SYSTEM)

    async def get(self, tenant_id: str, run_id: str, *, caller: str | None = None, exact: bool = False) -> RunDetail:
        """Return a run with its steps and waits, or NotFound; for `caller` what others started is not there.

        Values are shown without the tenant's secrets; only who goes on with them inside the house takes them exact.
        """

        def work(tx: Transaction) -> RunDetail:
            run = self._present(tx, tenant_id, run_id, caller)
            row = self._store.material(tx, tenant_id, run_id)
            if row is None:
                raise missing_run(run_id)
            waits = self._waits.of_run(tx, tenant_id, run_id).values()
            steps = [self._record(tenant_id, run_id, step) for step in self._store.steps(tx, tenant_id, [run_id])]
            jobs = [*self._views.jobs(tx, tenant_id, run_id, now=self._dispatcher.now(tx)), *ended_jobs(run)]
            return replace(self._detail(run, row, steps, list(waits)), jobs=tuple(jobs))

        found = await self._database.read(tenant_id, work)
        return found if exact else await asyncio.to_thread(self._without_secrets, found)

    async def look_at(self, tenant_id: str, run_id: str) -> Run:
        """Return a run without its stored values, for polling its state; or raise NotFound."""
        return await self._database.read(tenant_id, lambda tx: self._present(tx, tenant_id, run_id, None))

    async def draw(self, tenant_id: str, run_id: str, *, caller: str | None = None) -> str:
        """Draw a run as SVG: its steps, and what came of each so far."""
        found = await self.get(tenant_id, run_id, caller=caller)
        row = await self._database.read(tenant_id, lambda tx: self._store.material(tx, tenant_id, run_id))
        if row is None:
            raise missing_run(run_id)
        raw = self._open(tenant_id, definition_place(run_id), row["definition"])
        definition = FlowDefinition.from_json(parse_json(raw, field="definition"))
        return draw_run(definition, found, max_steps=MAX_RUN_STEPS)

    async def list(
        self,
        tenant_id: str,
        *,
        state: RunState | None = None,
        caller: str | None = None,
        target: str | None = None,
        limit: int = 100,
        older_than: str | None = None,
    ) -> tuple[Run, ...]:
        """List runs, the newest first."""
        if state is not None and state not in RUN_STATES:
            raise InvalidInput(f"state must be one of {', '.join(RUN_STATES)}, not {state!r}", field="state")
        if not 1 <= limit <= MOST_LISTED:
            raise InvalidInput(f"limit must lie between 1 and {MOST_LISTED}", field="limit")

        def work(tx: Transaction) -> tuple[Run, ...]:
            last = None
            if older_than is not None:
                run = self._present(tx, tenant_id, older_than, caller)
                last = (to_micros(run.created_at), run.run_id)
            now = self._dispatcher.now(tx)
            listed = self._views.listing(
                tx, tenant_id, now=now, limit=limit, state=state, caller=caller, target=target, older_than=last
            )
            return tuple(listed)

        return await self._database.read(tenant_id, work)

    async def waiting(self, tenant_id: str, *, limit: int = MOST_LISTED) -> tuple[tuple[Run, Wait], ...]:
        """Return unanswered questions of active runs to people, the oldest first and redacted."""

        def work(tx: Transaction) -> list[tuple[Run, Wait]]:
            asked = self._waits.open_for_people(tx, tenant_id, now=self._kit.micros(), limit=limit)
            return [(self._present(tx, tenant_id, run_id), wait) for run_id, wait in asked]

        found = await self._database.read(tenant_id, work)
        return tuple(
            [(run, replace(wait, question=await self._clean(tenant_id, wait.question))) for run, wait in found]
        )

    async def _clean(self, tenant_id: str, question: dict[str, Any]) -> dict[str, Any]:
        raw = exact_json(question)
        return parse_json(await asyncio.to_thread(self._kit.redact, tenant_id, raw), field="question")

    def look(self, tx: Transaction, tenant_id: str, run_id: str) -> Run | None:
        """Return one run inside the caller's transaction, or None."""
        return self._views.find(tx, tenant_id, run_id, now=self._dispatcher.now(tx))

    async def workers(self) -> tuple[Worker, ...]:
        """Return every slot of every worker process."""
        return await self._database.read("", lambda tx: tuple(self._views.workers(tx, now=self._dispatcher.now(tx))))

    async def prune(self, tenant_id: str) -> int:
        """Delete runs that ended longer ago than they are kept; says how many."""
        if self._keep_days is None:
            return 0
        before, total = self._kit.micros() - self._keep_days * 86_400_000_000, 0
        while True:
            gone = await self._database.write(
                tenant_id, lambda tx: self._store.prune(tx, tenant_id, before=before, most=200)
            )
            total += gone
            if not gone:
                return total

    def _definition(self, wish: RunRequest, tenant_id: str, caller: str | None) -> FlowDefinition:
        if (wish.tool_id is None) == (wish.definition is None):
            raise InvalidInput("a run takes a tool or a definition, and not both", field="tool_id")
        if wish.definition is not None:
            return wish.definition
        tool_id = str(wish.tool_id)
        entry = self._catalog().resolve(tenant_id, tool_id, caller)
        schema = compile_schema(entry.input_schema)
        schema.check(schema.fill(wish.parameters), field="parameters")
        flow = self._flow_of(tenant_id, tool_id)
        if flow is not None:
            return flow
        mapping = {
            name: f"$.parameters.{name}" if name.isidentifier() and name.isascii() else literal(value)
            for name, value in wish.parameters.items()
        }
        return FlowDefinition(
            tool_id=tool_id,
            description=entry.description,
            parameters={"type": "object"},
            steps=(StepDefinition(0, tool_id, mapping),),
            output={"$at": {"of": "$.steps[0].output", "path": "$"}},
        )

    def _check_targets(self, definition: FlowDefinition, tenant_id: str, caller: str | None) -> None:
        """Refuse a call, of a step or of its fallback, whose tool is not there, before anything ran."""
        calls = [(f"definition.steps[{number}]", step) for number, step in enumerate(definition.steps)]
        for index, sequence in definition.error_strategy.fallback_steps.items():
            where = f"definition.error_strategy.fallback_steps.{index}"
            calls += [(f"{where}[{position}]", step) for position, step in enumerate(sequence)]
        for where, step in calls:
            self._check_target(step.tool_id, f"{where}.tool_id", tenant_id, caller)

    def _check_target(self, tool_id: str, where: str, tenant_id: str, caller: str | None) -> None:
        if tool_id.startswith((HOUSE, PROGRAM)):
            raise InvalidInput(f"{where}: {tool_id!r} is work of the house alone", field=where)
        if tool_id.startswith(STOP):
            if tool_id.removeprefix(STOP) not in STOPS:
                raise InvalidInput(f"{where}: a stop is one of {', '.join(STOPS)}", field=where)
        elif wait_kind(tool_id) is None:
            try:
                self._catalog().resolve(tenant_id, tool_id, caller)
            except NotFound as error:
                raise NotFound(f"{where}: {error.message}", field=where, tool_id=tool_id) from None

    def _adding(
        self,
        wish: RunRequest,
        definition: FlowDefinition,
        parameters: JsonObject,
        *,
        tenant_id: str,
        caller: str | None,
        actor: Actor,
    ) -> Callable[[Transaction], Run]:
        known = wish._replace(run_id=new_id() if wish.run_id is None else wish.run_id)
        return lambda tx: self._enter(
            tx, known, definition, parameters, tenant_id=tenant_id, caller=caller, actor=actor
        )

    def _enter(
        self,
        tx: Transaction,
        wish: RunRequest,
        definition: FlowDefinition,
        parameters: JsonObject,
        *,
        tenant_id: str,
        caller: str | None,
        actor: Actor,
    ) -> Run:
        """Add the row of a run and put it on its queue, or find the one that was started with the same words."""
        run_id = new_id() if wish.run_id is None else check_name(wish.run_id, field="run_id", limit=_LONGEST_ID)
        limit = None if wish.timeout_s is None else round(wish.timeout_s * 1_000_000)
        raw, given = exact_json(definition.as_json()), exact_json(parameters)
        terms = RunTerms(definition.tool_id, raw, given, caller, actor, wish.priority, limit)
        row = self._row(tx, tenant_id, run_id, terms)
        row["lineage"] = canonical_json({**(wish.lineage or {}), CORRELATION: correlation_or_new()}).decode()
        if self._store.add(tx, row):
            priority, due = wish.priority, row["created_at"] if wish.due is None else wish.due
            self._dispatcher.enqueue(tx, tenant_id, run_id, queue=RUNS_QUEUE, priority=priority, due=due)
            return new_run(row, due)
        before = self._store.material(tx, tenant_id, run_id)
        if before is None or before["body_hash"] != row["body_hash"]:
            raise IdempotencyConflict(f"run {run_id!r} was started with other words; use another run_id", run_id=run_id)
        return self._present(tx, tenant_id, run_id)

    def _without_secrets(self, found: RunDetail) -> RunDetail:
        def clean(value: Any) -> Any:
            return parse_json(self._kit.redact(found.run.tenant_id, exact_json(value)), field="value")

        return replace(
            found,
            parameters=clean(found.parameters),
            output=clean(found.output),
            error=clean(found.error),
            steps=tuple(replace(step, output=clean(step.output), error=clean(step.error)) for step in found.steps),
            waits=tuple(replace(wait, question=clean(wait.question)) for wait in found.waits),
        )

    def _record(self, tenant_id: str, run_id: str, row: Row) -> StepRecord:
        outcome = read_outcome(self._kit.seals, tenant_id, run_id, row)
        return StepRecord(
            place=row["place"],
            tool_id=row["tool_id"],
            epoch=row["epoch"],
            settled_at=from_micros(row["settled_at"]),
            error_code=row["error_code"],
            output=outcome.output,
            error=outcome.error,
        )

    def _detail(self, run: Run, row: Row, steps: list[StepRecord], waits: list[Wait]) -> RunDetail:
        given = parse_json(
            self._open(run.tenant_id, parameters_place(run.run_id), row["parameters"]), field="parameters"
        )
        output, error = None, None
        if row["answer"] is not None:
            output, error = decode_outcome(self._open(run.tenant_id, answer_place(run.run_id), row["answer"]))
        return RunDetail(run, given, tuple(steps), tuple(waits), output=output, error=error)
