"""Executes composites that are data: one scheduler decides what happens next, and drivers do it.

A definition (`FlowDefinition`) is a graph of steps with references between them; learned tools, processes and plans are
front ends that compile to it. `Schedule` is the pure scheduler: events in, actions out. `FlowExecutor.run` drives it on
asyncio, where steps go through `calls`; `FlowExecutor.replay` drives it with recorded answers, for validation. A
durable run uses `FlowExecutor.prepare` with an invoker that knows outcomes by `StepRun.place` and raises `Waiting`
where a step has to wait, with a `pause` that does the same, and with a `deadline`.

Names are resolved on first use: whoever runs flows does not pay for drawing and validating them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinraven.foundation.lazy import lazy_names

if TYPE_CHECKING:
    from twinraven.flow.composite import CONNECTOR, DefinitionSource, FlowConnector, as_powerful_as, entry_of
    from twinraven.flow.definition import PART_OF, ErrorStrategy, FlowDefinition, RetryPolicy, StepDefinition
    from twinraven.flow.drawing import StepBox, draw_steps
    from twinraven.flow.executor import FlowExecutor
    from twinraven.flow.fields import Fields, invalid, refuse_excess
    from twinraven.flow.graph import StepGraph
    from twinraven.flow.local_definitions import LocalDefinitions
    from twinraven.flow.mapping import compile_value, is_operator, literal
    from twinraven.flow.operators import VALUE_READERS
    from twinraven.flow.plan import MAX_TIMEOUT_MS, FlowPlan, PlannedStep, compile_flow
    from twinraven.flow.protocol import (
        Action,
        Answered,
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
    from twinraven.flow.results import FlowFailed, FlowResult, FlowStatus, StepResult
    from twinraven.flow.run import FlowRun, PauseFor, RunEnvironment, StepInvoker
    from twinraven.flow.schedule import Schedule, late_call
    from twinraven.flow.step_run import StepRun
    from twinraven.flow.validation import SLUG, ToolLookup, check_input_names, validate_definition

__all__ = [
    "CONNECTOR",
    "MAX_TIMEOUT_MS",
    "PART_OF",
    "SLUG",
    "VALUE_READERS",
    "Action",
    "Answered",
    "CancelCall",
    "Deferred",
    "DefinitionSource",
    "ErrorStrategy",
    "Event",
    "Failed",
    "Fields",
    "Finish",
    "FlowConnector",
    "FlowDefinition",
    "FlowExecutor",
    "FlowFailed",
    "FlowPlan",
    "FlowResult",
    "FlowRun",
    "FlowStatus",
    "Halted",
    "LocalDefinitions",
    "MakeCall",
    "Pause",
    "PauseFor",
    "PlannedStep",
    "Rested",
    "RetryPolicy",
    "RunEnvironment",
    "Schedule",
    "StepBox",
    "StepDefinition",
    "StepGraph",
    "StepInvoker",
    "StepResult",
    "StepRun",
    "TimedOut",
    "ToolLookup",
    "Waiting",
    "as_powerful_as",
    "check_input_names",
    "compile_flow",
    "compile_value",
    "draw_steps",
    "entry_of",
    "invalid",
    "is_operator",
    "late_call",
    "literal",
    "refuse_excess",
    "validate_definition",
]


__getattr__ = lazy_names(__name__)
