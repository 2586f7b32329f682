"""Integrates the OpenAI Agents SDK: wraps the tools of an agent to record them, and adds learned ones.

    adapter = OpenAIAgentsAdapter(open_home(), session_id="ticket-17")
    result = await Runner.run(await adapter.equipped(agent), question)

    server = MCPServerStreamableHttp(params, tool_meta_resolver=adapter.tool_meta)

Equipping makes a copy, so the agent itself stays as it was, and a promotion is seen by the next run. Without a session
id the run's `group_id`, which links the runs of one conversation, is the session. `tool_meta` is for the MCP server
that is a TwinRaven gateway: it says where in the agent's work a call happens, and the gateway records the call there.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.integrations.adapter import Adapter, missing
from twinraven.integrations.call_recording import error_words
from twinraven.integrations.door import OfferedAgentTool

try:
    from agents import Agent, FunctionTool, Tool, Usage
    from agents.mcp import MCPToolMetaContext
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    raise missing("openai-agents", error) from error

C = TypeVar("C")
Invoke = Callable[[ToolContext[Any], str], Awaitable[Any]]

_INNER: Final = "_invoke_tool_impl"
"""Where the library's own invoker keeps the function that may raise; around it errors have become texts."""


class OpenAIAgentsAdapter(Adapter):
    """Watches function tools of OpenAI Agents, and offers it tools."""

    async def equipped(self, agent: Agent[C]) -> Agent[C]:
        """Return a copy of the agent for one run: its own tools watched, those of the catalogue beside them."""
        return agent.clone(tools=[*self.observed(agent.tools), *await self.tools()])

    def observed(self, tools: Iterable[Tool]) -> list[Tool]:
        """Copies of these tools that are watched; what runs elsewhere, or is the catalogue's, stays as it is."""
        return [self._observed(tool) if isinstance(tool, FunctionTool) else tool for tool in tools]

    def tool_meta(self, context: MCPToolMetaContext) -> dict[str, Any] | None:
        """Return the `_meta` of a call of a gateway's tool; for `tool_meta_resolver` of an MCP server."""
        run = context.run_context
        if not isinstance(run, ToolContext):
            return None
        return self._place_meta(self._book.take(self._session_of(run)))

    async def tools(self) -> list[Tool]:
        """Return the tools that are offered now."""
        return [_OfferedTool.made(self, offer) for offer in await self.offers_of_a_run()]

    async def called(self, tool_id: str, context: ToolContext[Any], text: str) -> str:
        """Return the answer of a tool of the catalogue; what went wrong is told to the model."""
        try:
            output = await self._call(tool_id, _arguments(text), self._session_of(context))
        except TwinRavenError as error:
            return error_words(error)
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

    def _observed(self, tool: FunctionTool) -> FunctionTool:
        if isinstance(tool, _OfferedTool):
            return tool
        watched = copy.copy(tool)
        invoker = watched.on_invoke_tool
        inner = cast("Invoke | None", getattr(invoker, _INNER, None))
        if inner is None:
            watched.on_invoke_tool = self._around(tool.name, invoker)
        else:
            own = copy.copy(invoker)
            setattr(own, _INNER, self._around(tool.name, inner))
            watched.on_invoke_tool = own
        return watched

    def _around(self, name: str, invoke: Invoke) -> Invoke:
        @functools.wraps(invoke, assigned=())
        async def watched(context: ToolContext[Any], text: str) -> Any:
            begun = self._watch.begin(self._book.take(self._session_of(context)), name, _shown(text))
            try:
                result = await invoke(context, text)
            except (Exception, asyncio.CancelledError) as error:
                await self._watch.fail(begun, error)
                raise
            await self._watch.end(begun, result)
            return result

        return watched

    def _session_of(self, context: ToolContext[Any]) -> str:
        """Return the session of a call; the book is told which turn its run is in."""
        config = context.run_config
        session_id = self._session(None if config is None else config.group_id)
        run = context.usage
        said = _said_before(context.turn_input)
        self._book.turn(session_id, _Turn(run, run.requests), said, said_in=run)
        return session_id


class _OfferedTool(FunctionTool):
    """A tool of the catalogue, recorded where it is called."""

    @classmethod
    def made(cls, adapter: OpenAIAgentsAdapter, offer: OfferedAgentTool) -> _OfferedTool:
        async def invoke(context: ToolContext[Any], text: str) -> str:
            return await adapter.called(offer.tool_id, context, text)

        return cls(
            name=offer.name,
            description=offer.description,
            params_json_schema=offer.input_schema,
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )


class _Turn:
    """One request of one run: a run is known by its usage, which counts the requests."""

    __slots__ = ("_number", "_run")

    def __init__(self, run: Usage, number: int) -> None:
        self._run = run
        self._number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Turn) and other._run is self._run and other._number == self._number

    def __hash__(self) -> int:
        return hash((id(self._run), self._number))


def _arguments(text: str) -> dict[str, Any]:
    body = parse_json(text or "{}", field="arguments")
    if not isinstance(body, dict):
        raise InvalidInput("the arguments must be a JSON object", field="arguments")
    return cast("dict[str, Any]", body)


def _shown(text: str) -> object:
    """Return the arguments as they are recorded, also where they are none."""
    try:
        return parse_json(text or "{}")
    except InvalidInput:
        return text


def _said_before(items: Iterable[Any]) -> str | None:
    """Return what a user said last, before the model had its turn."""
    said: list[str] = []
    for item in reversed(list(items)):
        message = _members(item)
        if message.get("role") != "user":
            break
        said.append(_text(message.get("content")))
    return "\n".join(reversed(said)) or None


def _text(content: object) -> str:
    if not isinstance(content, list):
        return str(content)
    pieces = cast("list[object]", content)
    return "\n".join(_piece(piece) for piece in pieces)


def _piece(piece: object) -> str:
    members = _members(piece)
    return str(members.get("text") or f"<{members.get('type', type(piece).__name__)}>")


def _members(item: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
