"""Runs definitions on asyncio, and replays them on recorded answers: one scheduler, in production and in validation.

It knows nothing of how tools are reached; whoever runs a definition says with what to call (`StepInvoker`) and which
tools can change something. Plans are kept, because the same definition is run again and again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from twinraven.flow.definition import FlowDefinition
from twinraven.flow.plan import MAX_STEPS, FlowPlan, compile_flow
from twinraven.flow.protocol import Answered, CancelCall, Failed, Finish, MakeCall, Rested
from twinraven.flow.results import FlowResult
from twinraven.flow.run import FlowRun, PauseFor, RunEnvironment, StepInvoker
from twinraven.flow.schedule import Schedule
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import TwinRavenError
from twinraven.foundation.time_limit import TimeLimits

_KEPT_PLANS: Final = 256


def _writes_always(_: str) -> bool:
    return True


class FlowExecutor:
    """Runs definitions."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        micros: Callable[[], int] = now_micros,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._sleep = sleep
        self._micros = micros
        self._max_steps = max_steps
        self._limits = TimeLimits()
        self._plans: dict[int, FlowPlan] = {}

    async def run(
        self,
        definition: FlowDefinition,
        parameters: JsonObject,
        invoke: StepInvoker,
        *,
        writes: Callable[[str], bool] = _writes_always,
        is_accepted: bool = False,
    ) -> FlowResult:
        """Run a definition for a caller's parameters, defaults filled in.

        A definition or parameters that cannot be accepted are raised, and nothing was called; what fails later is in
        the result. `writes` says of a tool whether it can change something; what nobody said counts as a write.
        Parameters that the definition's own schema took already are `is_accepted`.
        """
        return await self.prepare(definition, parameters, invoke, writes=writes, is_accepted=is_accepted).finish()

    def prepare(
        self,
        definition: FlowDefinition,
        parameters: JsonObject,
        invoke: StepInvoker,
        *,
        writes: Callable[[str], bool] = _writes_always,
        pause: PauseFor | None = None,
        deadline: int | None = None,
        is_accepted: bool = False,
    ) -> FlowRun:
        """Check parameters and give a run that can be finished and halted.

        A run that is resumed is prepared anew, with an invoker that answers what is known by its place, a pause that
        counts from the attempt before, and the `deadline` (in microseconds) that its first start had.
        """
        plan = self.plan(definition)
        given = parameters if is_accepted else plan.accept(parameters)
        around = RunEnvironment(invoke, writes, pause or self._pause, self._micros, self._limits, deadline)
        return FlowRun(plan, given, around)

    def replay(
        self,
        definition: FlowDefinition,
        parameters: JsonObject,
        answer: Callable[[str, JsonObject], Any],
        *,
        writes: Callable[[str], bool] = _writes_always,
    ) -> FlowResult:
        """Run a definition on answers that are known already, without a loop, a clock or a pause."""
        plan = self.plan(definition)
        schedule = Schedule(plan, plan.accept(parameters), writes)
        pending = deque(schedule.start(0))
        while True:
            action = pending.popleft()
            if isinstance(action, Finish):
                return action.result
            if isinstance(action, CancelCall):
                continue
            event = _answered(action, answer) if isinstance(action, MakeCall) else Rested(action.run)
            actions = schedule.advance(event, 0)
            given_up = {other.run for other in actions if isinstance(other, CancelCall)}
            if given_up:
                pending = deque(other for other in pending if isinstance(other, Finish) or other.run not in given_up)
            pending += actions

    def plan(self, definition: FlowDefinition) -> FlowPlan:
        """Return the plan of a definition, compiled once."""
        # A definition holds dictionaries and has no hash; a kept plan keeps it alive, so its id is its own.
        plan = self._plans.get(id(definition))
        if plan is None:
            plan = compile_flow(definition, max_steps=self._max_steps)
            if len(self._plans) >= _KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[id(definition)] = plan
        return plan

    def _pause(self, _: object, seconds: float) -> Awaitable[object]:
        return self._sleep(seconds)


def _answered(call: MakeCall, answer: Callable[[str, JsonObject], Any]) -> Answered | Failed:
    try:
        return Answered(call.run, answer(call.tool_id, call.params))
    except TwinRavenError as error:
        return Failed(call.run, error)
