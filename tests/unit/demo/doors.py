"""A door straight to the desk's tools that keeps every call, so that tests can ask what the agent did."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twinraven.demo import SupportDesk, desk_tools
from twinraven.foundation.errors import TwinRavenError


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the door saw it."""

    tool_id: str
    params: dict[str, Any]
    turn: int
    outside_input: str | None
    output: Any = None
    error: TwinRavenError | None = None


@dataclass
class RecordingDoor:
    """Calls the tools directly, in the caller's thread: tests run with a time scale of zero."""

    tools: dict[str, Callable[..., Any]]
    calls: list[Call] = field(default_factory=list[Call])

    async def call(self, tool_id: str, params: dict[str, Any], *, turn: int, outside_input: str | None) -> Any:
        await asyncio.sleep(0)
        try:
            output = self.tools[tool_id](**params)
            output = await output if inspect.isawaitable(output) else output
        except TwinRavenError as error:
            self.calls.append(Call(tool_id, params, turn, outside_input, error=error))
            raise
        self.calls.append(Call(tool_id, params, turn, outside_input, output))
        return output


def door_to(desk: SupportDesk) -> RecordingDoor:
    return RecordingDoor({tool.__name__: tool for tool in desk_tools(desk)})
