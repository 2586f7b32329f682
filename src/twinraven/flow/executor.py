"""The executor: one way to run a definition, in production and in replay.

It knows nothing of how tools are reached; whoever runs a definition says with what to call (`StepInvoker`) and which
tools can change something. Plans are kept, because the same definition is run again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from twinraven.flow.definition import SynthesizedTool
from twinraven.flow.plan import FlowPlan, compile_flow
from twinraven.flow.results import FlowResult
from twinraven.flow.run import FlowRun, Sleep, StepInvoker
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import now_micros

_KEPT_PLANS: Final = 256


class FlowExecutor:
    """Runs definitions."""

    def __init__(self, *, sleep: Sleep = asyncio.sleep, micros: Callable[[], int] = now_micros) -> None:
        self._sleep = sleep
        self._micros = micros
        self._plans: dict[int, FlowPlan] = {}

    async def run(
        self,
        definition: SynthesizedTool,
        parameters: JsonObject,
        invoke: StepInvoker,
        *,
        writes: Callable[[str], bool] = lambda _: True,
    ) -> FlowResult:
        """Run a definition for a caller's parameters, defaults filled in.

        A definition or parameters that cannot be accepted are raised, and nothing was called; what fails later is in
        the result. `writes` says of a tool whether it can change something; what nobody said counts as a write.
        """
        plan = self.plan(definition)
        given = plan.schema.fill(parameters)
        plan.schema.check(given, field="parameters")
        run = FlowRun(plan, given, invoke, writes=writes, sleep=self._sleep, micros=self._micros)
        return await run.finish()

    def plan(self, definition: SynthesizedTool) -> FlowPlan:
        """The plan of a definition, compiled once."""
        # A definition holds dictionaries and has no hash; a kept plan keeps it alive, so its id is its own.
        plan = self._plans.get(id(definition))
        if plan is None:
            plan = compile_flow(definition)
            if len(self._plans) >= _KEPT_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[id(definition)] = plan
        return plan
