"""Drives one run on asyncio: makes the calls that the scheduler asks for, and tells it what came of them.

A call that has nothing beside it is awaited where the run is, and those that follow it with the same time share its
timer; only calls at once get tasks. Cancelling the run, and the end of its time, interrupt everything; `halt` lets
writes under way finish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from twinraven.flow.plan import FlowPlan
from twinraven.flow.protocol import (
    Action,
    Answered,
    CallEvent,
    CancelCall,
    Deferred,
    Event,
    Failed,
    Finish,
    Halted,
    MakeCall,
    Pause,
    Rested,
    TimedOut,
    Waiting,
)
from twinraven.flow.results import FlowResult
from twinraven.flow.schedule import Schedule, late_call
from twinraven.flow.step_run import StepRun
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import TwinRavenError
from twinraven.foundation.time_limit import UNLIMITED, TimeLimit, TimeLimits

PauseFor = Callable[[StepRun, float], Awaitable[object]]
"""Waits so many seconds before an attempt, or raises `Waiting`; a durable run counts from the failure before it."""


class StepInvoker(Protocol):
    """Makes the calls of a run; it raises a TwinRavenError for a call that failed, and Waiting for one that waits."""

    def __call__(
        self, tool_id: str, params: JsonObject, *, step: StepRun, timeout_ms: int | None
    ) -> Coroutine[Any, Any, Any]:
        """Call a tool. The run itself ends a call that outlives `timeout_ms`."""
        ...


@dataclass(slots=True)
class RunEnvironment:
    """The environment of a run: its calls, which tools write, its pauses, its clock, timers and end."""

    invoke: StepInvoker
    writes: Callable[[str], bool]
    pause: PauseFor
    micros: Callable[[], int]
    limits: TimeLimits
    deadline: int | None
    """A moment in microseconds; without one, the plan's time counts from the start."""


class FlowRun:
    """Runs one plan once."""

    def __init__(self, plan: FlowPlan, parameters: JsonObject, around: RunEnvironment) -> None:
        self._plan = plan
        self._around = around
        self._schedule = Schedule(plan, parameters, around.writes)
        self._tasks: dict[StepRun, asyncio.Task[CallEvent]] = {}
        self._given_up: set[asyncio.Task[CallEvent]] = set()
        self._news: asyncio.Queue[asyncio.Task[CallEvent] | Halted] | None = None
        self._limit: TimeLimit | None = None
        self._alone: MakeCall | Pause | None = None
        self._halted: Halted | None = None

    async def finish(self) -> FlowResult:
        """Run to the end; what fails is in the result, and only cancellation and foreign errors are raised."""
        around, schedule = self._around, self._schedule
        started = around.micros()
        if around.deadline is None:
            limit = around.limits.of(self._plan.budget_ms / 1000)
        else:
            limit = around.limits.once((around.deadline - started) / 1_000_000)
            if around.deadline <= started:
                schedule.advance(self._timed_out(), started)
        if self._halted is not None:
            schedule.advance(self._halted, started)
        self._limit = limit
        try:
            with limit:
                return await self._drive(schedule.start(started))
        except TimeoutError:
            if not limit.is_over:
                raise
            return _ending(schedule.advance(self._halted or self._timed_out(), around.micros())[-1])
        finally:
            self._limit = None
            if self._news is not None:
                await self._end_tasks()

    def halt(self, error: TwinRavenError) -> None:
        """End the run with an error, from its own loop: nothing else starts, reads are cancelled, writes finish."""
        if self._halted is not None:
            return
        self._halted = Halted(error)
        alone = self._alone
        if alone is not None and self._limit is not None:
            if isinstance(alone, Pause) or not alone.is_write:
                self._limit.strike()
        elif self._news is not None:
            self._news.put_nowait(self._halted)

    async def _drive(self, actions: list[Action]) -> FlowResult:
        micros, advance = self._around.micros, self._schedule.advance
        while True:
            action = actions[-1] if actions else None
            if isinstance(action, Finish):
                return action.result
            if len(actions) != 1 or self._tasks or not isinstance(action, (MakeCall, Pause)):
                actions = advance(await self._next_event(actions), micros())
            elif isinstance(action, MakeCall):
                actions = await self._call_alone(action)
            else:
                self._alone = action
                actions = self._advance_alone(await self._perform(action))

    async def _call_alone(self, call: MakeCall) -> list[Action]:
        """Make a call that has nothing beside it, and those after it with the same time: one timer begins anew."""
        around, schedule = self._around, self._schedule
        within_ms, limit = self._time_of(call)
        try:
            with limit:
                while True:
                    self._alone, run = call, call.run
                    try:
                        output = await around.invoke(call.tool_id, call.params, step=run, timeout_ms=within_ms)
                    except (TwinRavenError, Waiting) as reason:
                        return self._advance_alone(_without_output(run, reason))
                    if self._halted is not None or limit.is_over:
                        return self._advance_alone(Answered(run, output))
                    actions = schedule.answer(run, output, around.micros())
                    following = actions[0] if len(actions) == 1 else None
                    if not isinstance(following, MakeCall) or following.timeout_ms != call.timeout_ms:
                        return actions
                    call = following
                    limit.renew()
        except TimeoutError:
            if not limit.is_over:
                raise
            return self._advance_alone(_late(call))

    def _advance_alone(self, event: Event) -> list[Action]:
        if self._halted is not None:
            # Told first, so that what follows this call is not begun.
            self._schedule.advance(self._halted, self._around.micros())
        return self._schedule.advance(event, self._around.micros())

    async def _next_event(self, actions: list[Action]) -> Event:
        """Begin calls beside those under way, and wait for the first that ends."""
        self._alone = None
        if self._news is None:
            self._news = asyncio.Queue()
        for action in actions:
            if isinstance(action, CancelCall):
                task = self._tasks.pop(action.run)
                self._given_up.add(task)
                task.cancel()
            elif not isinstance(action, Finish):
                task = self._tasks[action.run] = asyncio.create_task(self._perform(action))
                task.add_done_callback(self._news.put_nowait)
        while True:
            news = await self._news.get()
            if isinstance(news, Halted):
                return news
            if news not in self._given_up:
                event = news.result()
                del self._tasks[event.run]
                return event

    async def _perform(self, action: MakeCall | Pause) -> CallEvent:
        run = action.run
        try:
            if isinstance(action, Pause):
                await self._around.pause(run, action.milliseconds / 1000)
                return Rested(run)
            within_ms, limit = self._time_of(action)
            try:
                with limit:
                    output = await self._around.invoke(action.tool_id, action.params, step=run, timeout_ms=within_ms)
                    return Answered(run, output)
            except TimeoutError:
                if not limit.is_over:
                    raise
                return _late(action)
        except (TwinRavenError, Waiting) as reason:
            return _without_output(run, reason)

    def _time_of(self, call: MakeCall) -> tuple[int | None, TimeLimit]:
        """Return the time within which a tool has to answer, and the limit of the step that it is called for."""
        own_ms = call.timeout_ms
        # A step that inherits the time of the whole ends with the whole; a second clock would only race with it.
        if own_ms is None:
            return self._plan.definition.timeout_ms, UNLIMITED
        return own_ms, self._around.limits.of(own_ms / 1000)

    def _timed_out(self) -> TimedOut:
        if self._around.deadline is not None:
            return TimedOut("did not finish by its deadline")
        return TimedOut(f"did not finish within {self._plan.budget_ms} ms")

    async def _end_tasks(self) -> None:
        tasks = [*self._tasks.values(), *self._given_up]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)


def _without_output(run: StepRun, reason: TwinRavenError | Waiting) -> Failed | Deferred:
    return Deferred(run, reason.until) if isinstance(reason, Waiting) else Failed(run, reason)


def _late(call: MakeCall) -> Failed:
    what = f"did not answer within {call.timeout_ms} ms"
    return Failed(call.run, late_call(call.tool_id, what, is_write=call.is_write))


def _ending(action: Action) -> FlowResult:
    assert isinstance(action, Finish)
    return action.result
