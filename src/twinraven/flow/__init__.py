"""Flow: composite tools as data, and the one executor that runs them.

A definition (`SynthesizedTool`) is a graph of steps with references between them. The same executor serves production,
where its steps go through `calls`, and validation, where recorded answers take the place of the tools.
"""

from __future__ import annotations

from twinraven.flow.composite import CONNECTOR, DefinitionSource, FlowConnector, entry_of
from twinraven.flow.definition import ErrorStrategy, RetryPolicy, StepDefinition, SynthesizedTool
from twinraven.flow.executor import FlowExecutor
from twinraven.flow.graph import StepGraph
from twinraven.flow.lifecycle import ALLOWED_TRANSITIONS, ToolStatus, check_transition
from twinraven.flow.mapping import is_operator, literal
from twinraven.flow.operators import VALUE_READERS
from twinraven.flow.plan import FlowPlan, PlannedStep, compile_flow
from twinraven.flow.results import FlowFailed, FlowResult, StepResult, StepRun
from twinraven.flow.run import StepInvoker
from twinraven.flow.shelf import DefinitionShelf
from twinraven.flow.validation import ToolLookup, validate_definition

__all__ = [
    "ALLOWED_TRANSITIONS",
    "CONNECTOR",
    "VALUE_READERS",
    "DefinitionShelf",
    "DefinitionSource",
    "ErrorStrategy",
    "FlowConnector",
    "FlowExecutor",
    "FlowFailed",
    "FlowPlan",
    "FlowResult",
    "PlannedStep",
    "RetryPolicy",
    "StepDefinition",
    "StepGraph",
    "StepInvoker",
    "StepResult",
    "StepRun",
    "SynthesizedTool",
    "ToolLookup",
    "ToolStatus",
    "check_transition",
    "compile_flow",
    "entry_of",
    "is_operator",
    "literal",
    "validate_definition",
]
