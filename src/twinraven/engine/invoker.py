"""Makes the calls of a durable run, each once: known from the journal, waited for, or made through the call path.

What a call meets decides whether it has an outcome. An approval that is pending, an effect that nobody knows about, a
claim that somebody still has and a store that is away are no outcomes: the run waits and the step is tried again. A run
that somebody else works on by now makes no further call; what is under way ends and is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from twinraven.calls import CallContext, Calls, SkillInvocationRequest, SkillInvocationResponse, is_decided
from twinraven.catalog import Catalog, ToolEntry
from twinraven.engine.attempts import RunGovernor, RunLineage
from twinraven.engine.errors import STOPS, RunSuperseded, WaitExpired
from twinraven.engine.journal import CallOutcome, Journal, JournaledStep, JournalKit
from twinraven.engine.model import Wait, worker_type
from twinraven.engine.outcome_buffer import OutcomeBuffer
from twinraven.engine.pools import SlotCount
from twinraven.engine.programs import PROGRAM, CallFraming, Program, ProgramRun
from twinraven.engine.waits import RequestedWait, WaitStore, asked_wait, wait_kind
from twinraven.flow import StepRun, Waiting
from twinraven.foundation.actors import Actor
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import parse_iso, to_micros
from twinraven.foundation.correlation import current_correlation
from twinraven.foundation.errors import (
    ApprovalPending,
    CallInProgress,
    EffectUnknown,
    NotFound,
    StorageError,
    ToolTimeout,
    ToolUnavailable,
    TwinRavenError,
)
from twinraven.storage import Database, Transaction

HOUSE: Final = "house:"
"""What the house does itself on a schedule; its steps name it in place of a tool."""

STOP: Final = "stop:"
"""Ends the run with a code; a step names it in place of a tool, and says by its condition when."""

_SECOND: Final = 1_000_000
_LONG_PAUSE_S: Final = 5.0
COSTLY = frozenset({"llm", "model"})
"""Connectors whose reads cost money, so that their answers are stored at once."""

HouseWork = Callable[[str, JsonObject], Awaitable[Any]]
"""Work of the house for one tenant, with what it is about; raises Waiting for what must be looked at again later."""


class Slots(Protocol):
    """The slots of a process for steps of one type."""

    def serves(self, queue: str) -> bool:
        """Return whether this process makes calls of a type."""
        ...

    def hold(self, queue: str) -> AbstractAsyncContextManager[SlotCount]:
        """Return a slot of a type's pool for one call, which is counted there."""
        ...


StepLimits = dict[tuple[int, int | None], int | None]
"""How many milliseconds a step may take, by its index and, in a fallback, the position there."""


class CallingParts(NamedTuple):
    """The dependencies of calls, shared by all runs of a process."""

    database: Database
    calls: Calls
    catalog: Catalog
    kit: JournalKit
    waits: WaitStore
    slots: Slots
    house: dict[str, HouseWork]
    governor: RunGovernor | None = None
    programs: Mapping[str, Program] = MappingProxyType({})


class RunIdentity(NamedTuple):
    """On whose behalf a run calls, and for which task, where it is an attempt at one."""

    caller: str | None
    actor: Actor
    priority: int
    lineage: RunLineage | None = None


class DurableInvoker:
    """Calls tools for one run that its worker has taken."""

    def __init__(
        self,
        parts: CallingParts,
        journal: Journal,
        identity: RunIdentity,
        waits: dict[str, Wait],
        limits: StepLimits,
    ) -> None:
        self._parts = parts
        self._journal = journal
        self._identity = identity
        self._waits = waits
        self._limits = limits
        self._entries: dict[str, ToolEntry | None] = {}
        self._framings: dict[str, CallFraming] = {}
        self._keeper = OutcomeBuffer(journal, parts.database)
        self.is_draining = False
        """Whether the process ends: nothing new is called, and the run goes on elsewhere."""
        self.has_asked = False
        """Whether a wait was stored."""

    def writes(self, tool_id: str) -> bool:
        """Return whether a tool can change something; what is not there counts as if it could."""
        if tool_id.startswith((HOUSE, STOP, PROGRAM)) or wait_kind(tool_id) is not None:
            return False
        entry = self._entry(tool_id)
        return entry is None or entry.writes

    async def __call__(self, tool_id: str, params: JsonObject, *, step: StepRun, timeout_ms: int | None) -> Any:
        del timeout_ms  # the time of the whole, which the run itself keeps
        known = self._journal.known(step.place)
        if known is None:
            limit_ms = self._limits.get((step.step_index, step.fallback))
            known = await self._obtain(tool_id, params, step, limit_ms)
        return known.value()

    async def pause(self, step: StepRun, seconds: float) -> None:
        """Pause before an attempt, counted from the failure before it; a long pause holds no task."""
        if self._journal.known(step.place) is not None:
            return
        if self._keeper.holds_back:
            await self._keeper.flush()
        before = self._journal.known(step._replace(attempt=step.attempt - 1).place)
        now = self._journal.now()
        due = (now if before is None else before.settled_at) + round(seconds * _SECOND)
        if due - now > _LONG_PAUSE_S * _SECOND or (self.is_draining and due > now):
            raise Waiting(due)
        await asyncio.sleep(max(0, due - now) / _SECOND)

    async def make(self, tool_id: str, params: JsonObject, step: StepRun) -> CallOutcome:
        """Make a call through the call path, or raise Waiting."""
        entry = self._entry(tool_id)
        is_costly = entry is not None and entry.connector in COSTLY
        current = JournaledStep(
            self._journal,
            self._parts.kit,
            step.place,
            tool_id,
            is_remarked=self._identity.lineage is not None,
            is_costly=is_costly,
        )
        try:
            return await self._make(tool_id, params, step, current, entry)
        finally:
            if current.event is not None:  # nothing stored it
                current.event.queue()

    async def _make(
        self, tool_id: str, params: JsonObject, step: StepRun, current: JournaledStep, entry: ToolEntry | None
    ) -> CallOutcome:
        is_write = entry is None or entry.writes
        try:
            response = await self._parts.calls.invoke(
                self._request(tool_id, params, step, is_write=is_write), self._context(current, step)
            )
        except StorageError:
            # Whether the settlement was stored shows when the run is taken up again.
            raise Waiting(self._keeper.soon()) from None
        except TwinRavenError as error:  # there is no such tool, or it is held back
            return self._keeper.keep(step.place, CallOutcome(tool_id, self._journal.now(), error=error.as_record()))
        current.finish()
        if current.outcome is not None:
            return current.outcome
        if response.error is not None:
            await self._defer(tool_id, step, params, response.error)
        if response.replayed:
            return await self._replayed(tool_id, response, step)
        outcome = CallOutcome(tool_id, self._journal.now(), response.output, response.error, self._told(response))
        if not current.is_costly:
            return self._keeper.keep(step.place, outcome)
        event, current.event = current.event, None
        return await self._keeper.keep_at_once(step.place, outcome, event)

    def frame(self, step: StepRun, framing: CallFraming) -> None:
        """Say where in the log a call stands that a program of another worker asked for."""
        self._framings[step.place] = framing

    async def make_in_time(
        self, tool_id: str, params: JsonObject, step: StepRun, timeout_ms: int | None
    ) -> CallOutcome:
        """Make a call within the step's time; a write that is late is unknown, and a person says what it did."""
        if timeout_ms is None:
            return await self.make(tool_id, params, step)
        limit = asyncio.timeout(timeout_ms / 1000)
        try:
            async with limit:
                return await self.make(tool_id, params, step)
        except TimeoutError:
            if not limit.expired():
                raise
        what = f"{tool_id!r} did not answer within {timeout_ms} ms"
        if self.writes(tool_id):
            late = EffectUnknown(f"{what}; whether it took effect is unknown", tool_id=tool_id)
            await self._defer(tool_id, step, params, late.as_record())
        return self._keeper.keep(
            step.place, CallOutcome(tool_id, self._journal.now(), error=ToolTimeout(what, tool_id=tool_id).as_record())
        )

    async def _obtain(self, tool_id: str, params: JsonObject, step: StepRun, timeout_ms: int | None) -> CallOutcome:
        if self._journal.is_lost:
            raise Waiting
        if self.is_draining:
            raise Waiting(self._journal.now())
        if wait_kind(tool_id) is not None:
            return await self._wait(tool_id, params, step)
        if tool_id.startswith(HOUSE):
            return await self._do_house_work(tool_id, params, step)
        if tool_id.startswith(PROGRAM):
            return await self._run_program(tool_id, params, step)
        if tool_id.startswith(STOP):
            return self._keeper.keep(
                step.place, CallOutcome(tool_id, self._journal.now(), error=_stop(tool_id, params))
            )
        wait, now = self._waits.get(step.place), self._journal.now()
        if wait is not None and wait.kind in ("approval", "effect") and wait.answered_at is None:
            if not wait.is_over(now):
                raise Waiting(None if wait.until is None else to_micros(wait.until))
            late = WaitExpired(f"nobody approved {tool_id!r} in time", place=step.place, approval_id=wait.subject)
            return self._keeper.keep(step.place, CallOutcome(tool_id, now, error=late.as_record()))
        entry = self._entry(tool_id)
        queue = worker_type("python" if entry is None else entry.connector)
        if not self._parts.slots.serves(queue):
            job: JsonObject = {"tool_id": tool_id, "params": params, "step": list(step), "timeout_ms": timeout_ms}
            if step.place in self._framings:
                job["framing"] = list(self._framings[step.place])
            await self._ask(step.place, RequestedWait("job", queue, job))
        async with self._parts.slots.hold(queue) as count:
            outcome = await self.make_in_time(tool_id, params, step, timeout_ms)
            count.errors += outcome.error is not None
            return outcome

    def _request(self, tool_id: str, params: JsonObject, step: StepRun, *, is_write: bool) -> SkillInvocationRequest:
        lease = self._journal.lease
        return SkillInvocationRequest(
            tool_name=tool_id,
            payload=params,
            tenant_id=lease.tenant_id,
            task_id=lease.run_id if self._identity.lineage is None else self._identity.lineage["task_id"],
            idempotency_key=step_key(lease.run_id, step) if is_write else None,
            campaign_id=None if self._identity.lineage is None else self._identity.lineage["campaign_id"],
            goal_id=None if self._identity.lineage is None else self._identity.lineage["goal_id"],
            correlation_id=current_correlation.get(),
        )

    def _context(self, journaled: JournaledStep, step: StepRun) -> CallContext:
        lease, framing = self._journal.lease, self._framings.get(step.place, CallFraming())
        return CallContext(
            session_id=f"run:{lease.run_id}{framing.session_suffix}",
            turn=framing.turn,
            tags=() if self._identity.lineage is None else lineage_tags(self._identity.lineage),
            durable=False,
            caller=self._identity.caller,
            actor=self._identity.actor,
            step=journaled,
            epoch=lease.epoch,
        )

    def _told(self, response: SkillInvocationResponse) -> dict[str, Any] | None:
        """Return what the result of an attempt says of a call; None for runs that are no attempt."""
        return None if self._identity.lineage is None else response.remarks

    async def _defer(self, tool_id: str, step: StepRun, params: JsonObject, error: dict[str, Any]) -> None:
        """Raise Waiting for an error that is no outcome."""
        code, details = str(error.get("code")), dict(error.get("details") or {})
        if code == RunSuperseded.code:
            self._journal.is_lost = True
            raise Waiting
        if code == CallInProgress.code or code.startswith("STORAGE_"):
            raise Waiting(self._keeper.soon())
        if code == ApprovalPending.code:
            await self._await_approval(step, params, error, details)
        if code == EffectUnknown.code:
            own = step_key(self._journal.lease.run_id, step)
            question: JsonObject = {"tool_id": tool_id, "params": params, "error": error, "key": own}
            await self._ask(step.place, RequestedWait("effect", str(details.get("idempotency_key") or own), question))

    async def _await_approval(
        self, step: StepRun, params: JsonObject, error: dict[str, Any], details: dict[str, Any]
    ) -> None:
        until = to_micros(parse_iso(str(details["expires_at"]), field="expires_at"))
        asked = RequestedWait("approval", str(details["approval_id"]), {"error": error, "params": params}, until)
        await self._ask(step.place, asked)

    async def _wait(self, tool_id: str, params: JsonObject, step: StepRun) -> CallOutcome:
        """Open the wait once; a later visit finds the outcome, or that the time is over."""
        wait, now = self._waits.get(step.place), self._journal.now()
        try:
            asked = asked_wait(tool_id, params, now)
        except TwinRavenError as error:
            return self._keeper.keep(step.place, CallOutcome(tool_id, now, error=error.as_record()))
        if wait is None:
            await self._ask(step.place, asked)
        assert wait is not None
        if not wait.is_over(now):
            raise Waiting(None if wait.until is None else to_micros(wait.until))
        if wait.kind == "moment":
            return self._keeper.keep(step.place, CallOutcome(tool_id, now, {"waited": True}))
        expired = WaitExpired(f"nobody answered {tool_id!r} in time", place=step.place, tool_id=tool_id)
        return await self._keeper.keep_at_once(step.place, CallOutcome(tool_id, now, error=expired.as_record()))

    async def _ask(self, place: str, asked: RequestedWait) -> NoReturn:
        """Store a wait, with everything known so far, and wait."""
        journal, parts = self._journal, self._parts
        stored: frozenset[str] = frozenset()
        has_asked = False

        def work(tx: Transaction) -> None:
            nonlocal stored, has_asked
            stored, has_asked = journal.hold(tx), False
            lease, now = journal.lease, journal.now()
            if asked.kind == "approval" and is_decided(tx, lease.tenant_id, str(asked.subject)):
                return  # somebody decided between the call and this moment, and nobody would wake the run
            parts.waits.ask(tx, lease.tenant_id, lease.run_id, place, asked, now=now)
            if asked.kind == "job":
                parts.kit.dispatcher.enqueue(
                    tx,
                    lease.tenant_id,
                    lease.run_id,
                    place=place,
                    queue=str(asked.subject),
                    priority=self._identity.priority,
                    epoch=lease.epoch,
                )
            has_asked = True

        await self._keeper.write(work)
        journal.stored(stored)
        self.has_asked = has_asked
        raise Waiting(asked.until if has_asked else journal.now())

    async def _do_house_work(self, tool_id: str, params: JsonObject, step: StepRun) -> CallOutcome:
        work = self._parts.house.get(tool_id.removeprefix(HOUSE))
        try:
            if work is None:
                raise NotFound(f"the house has no work {tool_id!r}", tool_id=tool_id)
            outcome = CallOutcome(tool_id, self._journal.now(), await work(self._journal.lease.tenant_id, params))
        except StorageError:
            raise Waiting(self._keeper.soon()) from None
        except TwinRavenError as error:
            outcome = CallOutcome(tool_id, self._journal.now(), error=error.as_record())
        return self._keeper.keep(step.place, outcome)

    async def call_at(
        self, step: StepRun, tool_id: str, params: JsonObject, framing: CallFraming, *, held: bool = False
    ) -> CallOutcome:
        """Make a call of a program at its place; what is `held` is stored with what the program does next."""
        self._framings[step.place] = framing
        if self._keeper.holds_back and self.writes(tool_id):
            self._keeper.part_with_events()  # the claim of the write stores the answers
        elif self._keeper.holds_back:
            await self._keeper.flush()
        if held:
            self._keeper.hold_back(step.place)
        return await self._obtain(tool_id, params, step, None)

    def tool_of(self, tool_id: str) -> ToolEntry | None:
        """Return the tool of this name that the run may call."""
        return self._entry(tool_id)

    def offered(self) -> list[ToolEntry]:
        """Return every tool that the run may call, by name."""
        return self._parts.catalog.offered(self._journal.lease.tenant_id, self._identity.caller)

    async def _run_program(self, tool_id: str, params: JsonObject, step: StepRun) -> CallOutcome:
        program = self._parts.programs.get(tool_id.removeprefix(PROGRAM))
        try:
            if program is None:
                raise NotFound(f"there is no program {tool_id!r}", tool_id=tool_id)
            output = await program(params, ProgramRun(self, self._journal, user_id=self._identity.caller))
            outcome = CallOutcome(tool_id, self._journal.now(), output)
        except TwinRavenError as error:
            outcome = CallOutcome(tool_id, self._journal.now(), error=error.as_record())
        finally:
            if self._keeper.holds_back:  # what cost money is stored, whatever became of the program
                await self._keeper.flush()
        return self._keeper.keep(step.place, outcome)

    async def _replayed(self, tool_id: str, response: SkillInvocationResponse, step: StepRun) -> CallOutcome:
        """Return the outcome behind an answer from the key: a journal's is exact, a key's is redacted."""
        journal = self._journal
        found = await self._parts.database.read(journal.lease.tenant_id, lambda tx: journal.look_up(tx, step.place))
        if found is not None:
            journal.adopt(step.place, found)
            return found
        return self._keeper.keep(step.place, CallOutcome(tool_id, journal.now(), response.output, response.error))

    async def flush(self) -> None:
        """Store everything that is known."""
        await self._keeper.flush()

    def _entry(self, tool_id: str) -> ToolEntry | None:
        if tool_id not in self._entries:
            try:
                found = self._parts.catalog.resolve(self._journal.lease.tenant_id, tool_id, self._identity.caller)
            except (NotFound, ToolUnavailable):
                found = None
            self._entries[tool_id] = found
        return self._entries[tool_id]


def lineage_tags(lineage: RunLineage) -> tuple[str, ...]:
    """Tags by which the events of a task's calls name its campaign and its goal."""
    return (f"campaign:{lineage['campaign_id']}", f"goal:{lineage['goal_id']}")


def _stop(tool_id: str, params: JsonObject) -> dict[str, Any]:
    details = {name: value for name, value in params.items() if name != "message"}
    return STOPS[tool_id.removeprefix(STOP)](str(params.get("message")), **details).as_record()


def step_key(run_id: str, step: StepRun) -> str:
    """Return the idempotency key of a step, the same for every attempt and every worker."""
    return f"run:{run_id}:{step.key_suffix}"
