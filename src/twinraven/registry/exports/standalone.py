"""Runs an exported definition without TwinRaven: the entry of the vendored runner, and its stand-ins.

The runner of an export is the source of flow's own modules, cut out by `pieces`. What those import from packages that
an export cannot depend on has a stand-in here under the same name, which takes its place in the export alone.
"""

# Whatever a caller's `call` raises is a failure.

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from twinraven.flow import MAX_TIMEOUT_MS, FlowDefinition, FlowRun, RunEnvironment, StepRun, compile_flow
from twinraven.foundation.canonical import (
    JsonObject,
    _write,  # pyright: ignore[reportPrivateUsage] - the part of the encoder that needs no other package
)
from twinraven.foundation.errors import InvalidExpression, TwinRavenError, error_from_json
from twinraven.foundation.time_limit import TimeLimits

Call = Callable[[str, JsonObject], Awaitable[Any]]

LEFT_OUT: Any = object()

Schema = Any


async def run_flow(definition: JsonObject, writing: Collection[str], call: Call, parameters: JsonObject) -> Any:
    """Run a definition with the caller's own tools, and give its answer or raise its error."""
    plan = compile_flow(FlowDefinition.from_json(definition), max_steps=1_000_000)
    plan.budget_ms = plan.definition.timeout_ms or MAX_TIMEOUT_MS

    async def invoke(tool_id: str, params: JsonObject, *, step: StepRun, timeout_ms: int | None) -> Any:
        del step, timeout_ms
        try:
            return await call(tool_id, params)
        except TwinRavenError:
            raise
        except Exception as error:
            raise failure_of(error) from error

    async def pause(_: StepRun, seconds: float) -> None:
        await asyncio.sleep(seconds)

    around = RunEnvironment(invoke, writing.__contains__, pause, lambda: time.time_ns() // 1000, TimeLimits(), None)
    given = {name: value for name, value in parameters.items() if value is not LEFT_OUT}
    result = await FlowRun(plan, to_json_value(given), around).finish()
    if result.error is not None:
        raise result.error
    return result.output


def failure_of(error: Exception) -> TwinRavenError:
    """Return a foreign exception as a failure; `code`, `retryable` and `details` are taken where it has them."""
    body = {
        "code": str(getattr(error, "code", "TOOL_FAILED")),
        "message": str(error),
        "retryable": getattr(error, "retryable", False),
        "details": getattr(error, "details", {}),
    }
    return error_from_json(body)


def to_json_value(value: Any) -> Any:
    """Return a JSON value, detached from the original; what is not JSON becomes its text."""
    return json.loads(json.dumps(value, default=str))


def parse_handlebars(text: str) -> Any:
    """Refuse a template: processes render them, learned tools have none."""
    raise InvalidExpression("an export renders no templates", template=text)


def canonical_json(value: Any) -> bytes:
    """Return the one text of a JSON value."""
    parts: list[str] = []
    _write(value, parts, 0)
    return "".join(parts).encode()


def _write_foreign(value: Any) -> str:  # pyright: ignore[reportUnusedFunction] - the encoder calls it in an export
    return json.dumps(str(value), ensure_ascii=False)


def compile_schema(schema: Any) -> Schema:
    """Nothing: parameters are taken as they come."""
    return schema
