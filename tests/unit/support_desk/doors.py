"""A door straight to the desk's tools that keeps every call, and composites as a learner might have made them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from examples.support_desk import InnerCall, SupportDesk, desk_tools
from twinraven.foundation.errors import TwinRavenError

Params = dict[str, Any]
Inside = Callable[[str, Params], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the door saw it."""

    tool_id: str
    params: Params
    turn: int
    outside_input: str | None
    output: Any = None
    error: TwinRavenError | None = None


@dataclass(frozen=True, slots=True)
class Composite:
    """A learned tool: its face for the agent, and what it does inside."""

    tool_id: str
    steps: tuple[str, ...]
    parameters: tuple[str, ...]
    run: Callable[[Inside, Params], Awaitable[None]]

    def inner_calls(self, params: Params, result: Any) -> Iterable[InnerCall]:
        del params
        return [InnerCall(each["tool"], each["params"], each["output"]) for each in result["calls"]]


@dataclass
class RecordingDoor:
    """Calls the tools directly, in the caller's thread: tests run with a time scale of zero."""

    tools: Mapping[str, Callable[..., Any]]
    composites: Mapping[str, Composite] = field(default_factory=dict[str, Composite])
    calls: list[Call] = field(default_factory=list[Call])

    async def call(self, tool_id: str, params: Params, *, turn: int, outside_input: str | None) -> Any:
        # A call stands where it began, however long it took.
        place = len(self.calls)
        self.calls.append(Call(tool_id, params, turn, outside_input))
        await asyncio.sleep(0)
        try:
            output = await self._answer(tool_id, params)
        except TwinRavenError as error:
            self.calls[place] = replace(self.calls[place], error=error)
            raise
        self.calls[place] = replace(self.calls[place], output=output)
        return output

    async def _answer(self, tool_id: str, params: Params) -> Any:
        composite = self.composites.get(tool_id)
        if composite is None:
            output = self.tools[tool_id](**params)
            return await output if inspect.isawaitable(output) else output
        done: list[Params] = []

        async def inside(inner: str, arguments: Params) -> Any:
            output = await self._answer(inner, arguments)
            done.append({"tool": inner, "params": arguments, "output": output})
            return output

        await composite.run(inside, params)
        return {"calls": done}


def door_to(desk: SupportDesk, *composites: Composite) -> RecordingDoor:
    tools = {tool.__name__: tool for tool in desk_tools(desk)}
    return RecordingDoor(tools, {composite.tool_id: composite for composite in composites})
