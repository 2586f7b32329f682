"""Tools that are plain functions, and definitions written in one line: what the tests of flow share."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from twinraven.catalog import Effect, ToolEntry
from twinraven.flow import FlowExecutor, FlowResult, StepRun
from twinraven.foundation.errors import ToolError, ToolUnavailable
from twinraven.registry import SynthesizedTool

SEED_FILE = Path(__file__).with_name("search_read_summarize.json")

Tool = Callable[[dict[str, Any]], Any]


def seed_json() -> dict[str, Any]:
    """The registry format's own example, verbatim."""
    return json.loads(SEED_FILE.read_text(encoding="utf-8"))


def step(tool_id: str = "echo", mapping: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A step without its index."""
    return {"tool_id": tool_id, "input_mapping": mapping or {}, **fields}


def define(*steps: dict[str, Any], **fields: Any) -> SynthesizedTool:
    """A definition whose steps are numbered by their order."""
    return SynthesizedTool.from_json(definition_json(*steps, **fields))


def definition_json(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "tool_id": "composite",
        "description": "What a test composes.",
        "parameters": {"type": "object"},
        "steps": [{"step_index": number, **body} for number, body in enumerate(steps)],
        "source_chain_id": "0b0e7a3c-7a9c-4f0e-8a66-6d4ad0a1f0aa",
        "created_at": "2026-01-15T10:30:00Z",
        **fields,
    }


class FakeTools:
    """Answers calls with functions and notes each of them. A function that returns an awaitable is awaited."""

    def __init__(self, **tools: Tool) -> None:
        self._tools: dict[str, Tool] = {"echo": lambda params: params, **tools}
        self.made: list[tuple[str, dict[str, Any], StepRun]] = []
        self.timeouts: list[int | None] = []
        self.running = 0
        self.most_running = 0

    async def __call__(self, tool_id: str, params: dict[str, Any], *, step: StepRun, timeout_ms: int | None) -> Any:
        self.made.append((tool_id, params, step))
        self.timeouts.append(timeout_ms)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            answer = self._tools[tool_id](params)
            return await answer if inspect.isawaitable(answer) else answer
        finally:
            self.running -= 1

    @property
    def called(self) -> list[str]:
        return [tool_id for tool_id, _, _ in self.made]

    @property
    def params(self) -> list[dict[str, Any]]:
        return [params for _, params, _ in self.made]


class Naps:
    """A sleep that notes how long it would have been."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


async def run(
    definition: SynthesizedTool,
    tools: FakeTools,
    parameters: dict[str, Any] | None = None,
    *,
    writers: Collection[str] = (),
    naps: Naps | None = None,
) -> FlowResult:
    """Run a definition where only the named tools write."""
    executor = FlowExecutor(sleep=naps or Naps())
    return await executor.run(definition, parameters or {}, tools, writes=lambda tool_id: tool_id in writers)


def failing(times: int | None = None, *, error: Exception | None = None, then: Any = "ok") -> Tool:
    """A tool that fails so many times, or always, and then answers."""
    left = [float("inf") if times is None else times]

    def answer(_: dict[str, Any]) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise error or ToolError("it broke")
        return then

    return answer


def unavailable() -> ToolUnavailable:
    return ToolUnavailable("nobody there")


def slow(seconds: float, then: Any = "late") -> Tool:
    """A tool that takes its time."""

    async def answer(_: dict[str, Any]) -> Any:
        await asyncio.sleep(seconds)
        return then

    return answer


def entry(tool_id: str, *, effect: Effect = Effect.READ, **fields: Any) -> ToolEntry:
    """A catalogue entry that takes anything."""
    known: dict[str, Any] = {"input_schema": {"type": "object"}, "effect_origin": "declared", **fields}
    return ToolEntry(tool_id=tool_id, description=f"The tool {tool_id}.", effect=effect, **known)
