"""Decides about runs: a person's answers, signals, and cancel, resume, retry and fork.

Whatever somebody decides is one transaction: the decision, its audit entry and the wake-up of the run. Nobody answers
twice, and of two who answer at once one is told that the other was first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar, cast

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.calls import Claims, EffectWord
from twinraven.catalog import Catalog
from twinraven.engine.attempts import RunGovernor
from twinraven.engine.dispatch_sql import EmbeddedDispatcher
from twinraven.engine.errors import RunCancelled, RunSetAside
from twinraven.engine.journal import (
    CallOutcome,
    JournalKit,
    encode_outcome,
    exact_json,
    read_outcome,
    step_place,
)
from twinraven.engine.loading import MAX_RUN_STEPS, definition_place, parameters_place
from twinraven.engine.model import RUNS_QUEUE, RunEnd, Wait, check_run_transition
from twinraven.engine.programs import PROGRAM
from twinraven.engine.runs_sql import RunStore
from twinraven.engine.views import Run
from twinraven.engine.views_sql import RunViews
from twinraven.engine.waits import WaitStore
from twinraven.flow import PART_OF, FlowDefinition, compile_flow
from twinraven.foundation.actors import Actor
from twinraven.foundation.canonical import JsonObject, canonical_json, parse_json
from twinraven.foundation.correlation import current_correlation
from twinraven.foundation.errors import (
    IllegalTransition,
    InvalidInput,
    NotFound,
    PolicyViolation,
    StaleState,
)
from twinraven.foundation.ids import new_id
from twinraven.foundation.json_schema import compile_schema
from twinraven.muninn import check_name
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

T = TypeVar("T")

RunEndHook = Callable[[Transaction, RunEnd], None]
RunEndsHook = Callable[[Transaction, Sequence[RunEnd]], None]
"""Called in the transaction that ends a run."""

DEFAULT_PRIORITY: Final = 100
_EFFECT_WORDS: Final[tuple[EffectWord, ...]] = ("happened", "did_not_happen", "give_up")


class RunTerms(NamedTuple):
    """The terms that a run is started with; values as JSON."""

    target: str
    definition: bytes
    parameters: bytes
    caller: str | None
    actor: Actor
    priority: int
    time_limit: int | None
    """Microseconds."""


class ProgramFork(NamedTuple):
    """The initial state of a fork of a program's run."""

    keeps: Callable[[str], bool]
    """Whether what came of a place is taken over."""
    parameters: JsonObject
    """Parameters that the new run has otherwise."""


class RunDecisions:
    """Applies the decisions of people and events to runs."""

    def __init__(
        self,
        database: Database,
        dispatcher: EmbeddedDispatcher,
        kit: JournalKit,
        waits: WaitStore,
        *,
        audit: AuditLog,
        claims: Claims,
        catalog: Callable[[], Catalog],
        keep_days: int | None,
    ) -> None:
        self._database = database
        self._dispatcher = dispatcher
        self._kit = kit
        self._waits = waits
        self._audit = audit
        self._claims = claims
        self._catalog = catalog
        self._keep_days = keep_days
        self._flow_of: Callable[[str, str], FlowDefinition | None] = lambda _tenant_id, _tool_id: None
        self._ended: list[RunEndHook] = []
        self._all_ended: list[RunEndsHook] = []
        self._governor: Callable[[], RunGovernor] | None = None
        self._store = RunStore()
        self._views = RunViews()

    def register_end(self, ended: RunEndHook) -> None:
        """Register a callback for the end of a run, called in the transaction that ends it, as part of its request."""
        self._ended.append(ended)

    def register_ends(self, ended: RunEndsHook) -> None:
        """Register a callback for runs of a tenant that end together, whatever request they belong to."""
        self._all_ended.append(ended)

    def register_flows(self, flow_of: Callable[[str, str], FlowDefinition | None]) -> None:
        """Register a look-up of tools that are flows: their steps are then steps of the run."""
        self._flow_of = flow_of

    def register_governor(self, governor: Callable[[], RunGovernor]) -> None:
        """Register the governor, which is told of cancelled runs with a lineage."""
        self._governor = governor

    async def answer(
        self, run_id: str, place: str, answer: Any, *, by: Principal, expected: datetime | None = None
    ) -> Run:
        """Answer what a run waits for at a place: a person's question, or what became of an unknown effect.

        `expected` is when the question was asked that the answer is meant for; one asked anew is another.
        """
        if by.kind == "agent":
            raise PolicyViolation("a person must answer what a run asks a person", run_id=run_id, user_id=by.user_id)

        def work(tx: Transaction) -> Run:
            run = self._present(tx, by.tenant_id, run_id)
            wait = self._waits.of_run(tx, by.tenant_id, run_id).get(place)
            if wait is None or wait.kind not in ("person", "effect"):
                raise NotFound(f"run {run_id!r} asks nobody at {place!r}", run_id=run_id, place=place)
            if expected is not None and wait.asked_at != expected:
                raise StaleState(f"run {run_id!r} asks something else at {place!r} by now", field="expected")
            if wait.kind == "effect":
                self._answerable(tx, run_id, by)
            now = self._dispatcher.now(tx)
            if run.finished_at is not None or wait.is_over(now) or not self._close(tx, run, place, by=by, now=now):
                raise IllegalTransition(
                    f"what run {run_id!r} asked at {place!r} is over", run_id=run_id, place=place, state=run.state
                )
            if wait.kind == "effect":
                told = self._resolve(tx, run, wait, answer)
            else:
                _check_answer(wait, answer)
                self._settle(tx, run, place, CallOutcome(f"person:{wait.subject}", now, answer))
                told = {"kind": "person", "asked": wait.subject}
            self._witness(tx, run, "run.answered", by, data={"place": place, **told}, body={"answer": answer})
            self._dispatcher.wake(tx, by.tenant_id, run_id)
            return self._present(tx, by.tenant_id, run_id)

        return await self._decide(by.tenant_id, work)

    async def signal(self, name: str, payload: Any, *, by: Principal) -> int:
        """Tell all runs of the tenant that wait for an event that it happened; says how many there were."""
        check_name(name, field="name")

        def work(tx: Transaction) -> int:
            now, told = self._dispatcher.now(tx), 0
            for run_id, place in self._waits.open_for(tx, by.tenant_id, "event", name):
                run = self._present(tx, by.tenant_id, run_id)
                if run.finished_at is None and self._close(tx, run, place, by=by, now=now):
                    self._settle(tx, run, place, CallOutcome(f"event:{name}", now, payload))
                    self._witness(tx, run, "run.signalled", by, data={"place": place, "event": name})
                    self._dispatcher.wake(tx, by.tenant_id, run_id)
                    told += 1
            return told

        return await self._decide(by.tenant_id, work)

    async def cancel(self, run_id: str, *, by: Principal) -> Run:
        """End a run: it begins nothing more, and what is under way is let finish and told."""

        def work(tx: Transaction) -> Run:
            run = self._own(tx, run_id, by)
            check_run_transition(run_id, run.state, "cancelled")
            self.end_in(tx, by.tenant_id, run_id)
            if self._governor is not None:
                self._governor().cancelled(tx, by.tenant_id, run_id)
            self._witness(tx, run, "run.cancelled", by)
            error = RunCancelled(f"run {run_id!r} was cancelled", run_id=run_id)
            self.on_ends(tx, [RunEnd(by.tenant_id, run_id, "cancelled", error=error.as_record())])
            return self._present(tx, by.tenant_id, run_id)

        return await self._decide(by.tenant_id, work)

    def end_in(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        """Cancel a run in the owner's transaction; one that ended stays as it is."""
        self._store.end(tx, tenant_id, run_id, "cancelled", now=self._dispatcher.now(tx))
        self._dispatcher.drop(tx, tenant_id, run_id)

    def announce(self) -> None:
        """Wake workers of this process after the commit of a transaction that started runs."""
        self._dispatcher.announce()

    async def resume(self, run_id: str, *, by: Principal) -> Run:
        """Let a run that was set aside go on, or one that waits look again now."""

        def work(tx: Transaction) -> Run:
            run = self._own(tx, run_id, by)
            check_run_transition(run_id, run.state, "queued")
            if run.state in ("failed", "cancelled"):
                raise IllegalTransition(f"run {run_id!r} is {run.state}; retry it", run_id=run_id, state=run.state)
            if run.state == "set_aside":
                self._reopen(tx, run)
            else:
                self._dispatcher.wake(tx, by.tenant_id, run_id)
            self._witness(tx, run, "run.resumed", by)
            return self._present(tx, by.tenant_id, run_id)

        return await self._decide(by.tenant_id, work)

    async def retry(self, run_id: str, *, by: Principal) -> Run:
        """Make the failed calls of an ended run again; what succeeded is not repeated, what is unknown stays so."""

        def work(tx: Transaction) -> Run:
            run = self._own(tx, run_id, by)
            row = self._store.material(tx, by.tenant_id, run_id)
            if row is not None and self._is_program(by.tenant_id, run_id, row["definition"]):
                raise IllegalTransition(
                    f"run {run_id!r} decides by what its calls gave; fork it from a step instead of retrying it",
                    run_id=run_id,
                    state=run.state,
                )
            if run.state not in ("failed", "cancelled"):
                raise IllegalTransition(
                    f"run {run_id!r} is {run.state}; only one that failed or was cancelled can be retried",
                    run_id=run_id,
                    state=run.state,
                )
            places = self._store.forget_failures(tx, by.tenant_id, run_id)
            for place in places:
                self._waits.forget(tx, by.tenant_id, run_id, place)
                self._claims.free(tx, by.tenant_id, f"run:{run_id}:{place.partition('#')[0]}", state="failed")
            self._reopen(tx, run)
            self._witness(tx, run, "run.retried", by, data={"places": places})
            return self._present(tx, by.tenant_id, run_id)

        return await self._decide(by.tenant_id, work)

    async def fork(self, run_id: str, step_id: str, *, by: Principal, program: ProgramFork | None = None) -> Run:
        """Start a new run with what came before a step; that step and what builds on it are done anew.

        Of a program its owner says which places the new run begins with.
        """
        new = new_id()

        def work(tx: Transaction) -> Run:
            run = self._own(tx, run_id, by)
            row = self._store.material(tx, by.tenant_id, run_id)
            if row is None:
                raise missing_run(run_id)
            definition = self._open(by.tenant_id, definition_place(run_id), row["definition"])
            stated = FlowDefinition.from_json(parse_json(definition, field="definition"))
            kept = frozenset[str]() if program is not None else _before(stated, step_id)
            parameters = self._open(by.tenant_id, parameters_place(run_id), row["parameters"])
            if program is not None:
                given = parse_json(parameters, field="parameters")
                parameters = exact_json({**given, **program.parameters})
            terms = RunTerms(
                row["target"], definition, parameters, by.user_id, by.actor, row["priority"], row["time_limit"]
            )
            self._store.add(tx, self._row(tx, by.tenant_id, new, terms) | {"forked_from": run_id})
            fork = self._present(tx, by.tenant_id, new)
            for step in self._store.steps(tx, by.tenant_id, [run_id]):
                place = step["place"]
                if program.keeps(place) if program is not None else place.partition("#")[0].partition(":")[0] in kept:
                    outcome = read_outcome(self._kit.seals, by.tenant_id, run_id, step)
                    self._settle(tx, fork, step["place"], outcome)
            self._dispatcher.enqueue(tx, by.tenant_id, new, queue=RUNS_QUEUE, priority=row["priority"])
            self._witness(tx, run, "run.forked", by, data={"step": step_id, "fork": new})
            return self._present(tx, by.tenant_id, new)

        return await self._decide(by.tenant_id, work)

    def on_ends(self, tx: Transaction, ends: Sequence[RunEnd]) -> None:
        """Tell those who want to know that runs of a tenant ended, or were set aside."""
        for end in ends:
            outer = current_correlation.set(end.correlation_id or current_correlation.get())
            try:
                for ended in self._ended:
                    ended(tx, end)
            finally:
                current_correlation.reset(outer)
        for all_ended in self._all_ended:
            all_ended(tx, ends)

    def on_set_aside(self, tx: Transaction, tenant_id: str, run_id: str) -> None:
        """Record that a run was set aside."""
        error = RunSetAside(f"run {run_id!r} was set aside: too many workers died with it", run_id=run_id)
        self.on_ends(tx, [RunEnd(tenant_id, run_id, "set_aside", error=error.as_record())])
        self._audit.append(
            tx, NewAuditEntry(tenant_id=tenant_id, event_type="run.set_aside", subject_type="run", subject_id=run_id)
        )

    def find_in(self, tx: Transaction, tenant_id: str, run_id: str) -> Run:
        """Find a run as the caller's transaction sees it, or NotFound."""
        return self._present(tx, tenant_id, run_id)

    def _present(self, tx: Transaction, tenant_id: str, run_id: str, caller: str | None = None) -> Run:
        run = self._views.find(tx, tenant_id, run_id, now=self._dispatcher.now(tx))
        if run is None or caller not in (None, run.caller):
            raise missing_run(run_id)
        return run

    def _own(self, tx: Transaction, run_id: str, by: Principal) -> Run:
        """Return a run that the user may decide about: an administrator about all, others about their own."""
        return self._present(tx, by.tenant_id, run_id, None if by.role == "admin" else by.user_id)

    def _answerable(self, tx: Transaction, run_id: str, by: Principal) -> Run:
        """Return a run whose unknown effect the user may resolve: an approver, or who started it."""
        return self._present(tx, by.tenant_id, run_id, None if by.may_decide else by.user_id)

    def _close(self, tx: Transaction, run: Run, place: str, *, by: Principal, now: int) -> bool:
        return self._waits.end(tx, run.tenant_id, run.run_id, place, by=by.user_id, now=now)

    def _resolve(self, tx: Transaction, run: Run, wait: Wait, answer: Any) -> dict[str, Any]:
        """Keep a person's word on an unknown effect; only what happened by the step's own key is its outcome."""
        said = cast("dict[str, Any]", answer) if isinstance(answer, dict) else dict[str, Any]()
        word = said.get("effect")
        if word not in _EFFECT_WORDS:
            raise InvalidInput(
                f'the answer must be {{"effect": one of {", ".join(_EFFECT_WORDS)}, "output": … if it happened}}',
                field="effect",
            )
        key, own = str(wait.subject), str(wait.question.get("key"))
        # A call that was cut off before its key was claimed has no key; what the person says of it counts all the same.
        with suppress(NotFound):
            self._claims.resolve(tx, run.tenant_id, key, word, output=said.get("output"))
        now = self._dispatcher.now(tx)
        tool_id = str(wait.question.get("tool_id", run.target))
        if word == "give_up":
            self._settle(tx, run, wait.place, CallOutcome(tool_id, now, error=wait.question["error"]))
        elif key != own:
            self._claims.free(tx, run.tenant_id, own, state="unknown")
        elif word == "happened":
            self._settle(tx, run, wait.place, CallOutcome(tool_id, now, said.get("output")))
        return {"kind": "effect", "effect": word, "idempotency_key": key}

    def _settle(self, tx: Transaction, run: Run, place: str, outcome: CallOutcome) -> None:
        raw = encode_outcome(outcome.output, outcome.error)
        tx.insert_missing(
            "run_steps",
            ("tenant_id", "run_id", "place", "tool_id", "epoch", "outcome", "error_code", "settled_at"),
            [
                (
                    run.tenant_id,
                    run.run_id,
                    place,
                    outcome.tool_id,
                    run.epoch,
                    self._kit.seals.seal(run.tenant_id, step_place(run.run_id, place), raw),
                    None if outcome.error is None else outcome.error["code"],
                    outcome.settled_at,
                )
            ],
        )

    def _reopen(self, tx: Transaction, run: Run) -> None:
        self._store.reopen(tx, run.tenant_id, run.run_id, now=self._dispatcher.now(tx))
        self._dispatcher.enqueue(tx, run.tenant_id, run.run_id, queue=run.queue, priority=run.priority, epoch=run.epoch)

    async def _decide(self, tenant_id: str, work: Callable[[Transaction], T]) -> T:
        """Commit, and let workers of this process look at once."""
        decided = await self._database.write(tenant_id, work)
        self._dispatcher.announce()
        return decided

    def _open(self, tenant_id: str, place: str, sealed: bytes) -> bytes:
        return self._kit.seals.open(tenant_id, place, sealed)

    def _is_program(self, tenant_id: str, run_id: str, sealed: bytes) -> bool:
        stated = parse_json(self._open(tenant_id, definition_place(run_id), sealed), field="definition")
        return any(step.tool_id.startswith(PROGRAM) for step in FlowDefinition.from_json(stated).steps)

    def _row(self, tx: Transaction, tenant_id: str, run_id: str, terms: RunTerms) -> dict[str, Any]:
        seals, now = self._kit.seals, self._dispatcher.now(tx)
        words = [parse_json(terms.definition, field="definition"), parse_json(terms.parameters, field="parameters")]
        return {
            "tenant_id": tenant_id,
            "run_id": run_id,
            "target": terms.target,
            "definition": seals.seal(tenant_id, definition_place(run_id), terms.definition),
            "parameters": seals.seal(tenant_id, parameters_place(run_id), terms.parameters),
            "body_hash": self._claims.hash_text(tenant_id, b"run\0" + canonical_json(words)),
            "state": "active",
            "queue": RUNS_QUEUE,
            "priority": terms.priority,
            "epoch": 0,
            "caller": terms.caller,
            "actor": str(terms.actor),
            "created_at": now,
            "time_limit": terms.time_limit,
            "deadline_at": None if terms.time_limit is None else now + terms.time_limit,
        }

    def _witness(
        self, tx: Transaction, run: Run, event: str, by: Principal, *, data: JsonObject | None = None, body: Any = None
    ) -> None:
        self._audit.append(
            tx,
            NewAuditEntry(
                tenant_id=run.tenant_id,
                event_type=event,
                subject_type="run",
                subject_id=run.run_id,
                actor=by.actor,
                data={"target": run.target, **(data or {})},
                body=body,
            ),
        )


def missing_run(run_id: str) -> NotFound:
    """Return the error for a run that is not there, or not yours."""
    return NotFound(f"no run {run_id!r}", run_id=run_id)


def _check_answer(wait: Wait, answer: Any) -> None:
    schema = wait.question.get("answer_schema")
    if schema is not None:
        compile_schema(schema).check(answer, field="answer")


def _before(definition: FlowDefinition, step_id: str) -> frozenset[str]:
    """Return the ids of the steps that neither are the given one nor wait for it.

    A step of a process is all that it was compiled to: with the question before it, and the steps of a sub-process.
    """
    graph = compile_flow(definition, max_steps=MAX_RUN_STEPS).graph
    ids = [step.step_id for step in definition.steps]
    again = {number for number, each in enumerate(ids) if each == step_id or each.startswith(f"{step_id}{PART_OF}")}
    if not again:
        raise NotFound(f"there is no step {step_id!r}; there are {', '.join(ids[:20])}", field="step", step_id=step_id)
    for number, before in enumerate(graph.before):
        if not again.isdisjoint(before):
            again.add(number)
    return frozenset(each for number, each in enumerate(ids) if number not in again)
