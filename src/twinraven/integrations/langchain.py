"""Integrates LangChain: a callback handler records every tool call, learned tools become LangChain tools.

    adapter = LangChainAdapter(open_home(), session_id="ticket-17")
    tools = [*my_tools, *await adapter.tools()]
    await chain.ainvoke(question, config={"callbacks": [adapter.handler]})

    client = MultiServerMCPClient(servers, tool_interceptors=[adapter.interceptor])

The handler serves sync and async runs alike. Without a session id the run's metadata or configuration names it
(`session_id`, `thread_id`, `conversation_id`). Ask for the tools before each run: then a promotion is seen by it. The
interceptor tells a TwinRaven gateway on HTTP the session, turn and prompt of each call of its tools; what the gateway
has recorded is not recorded here again.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote
from uuid import UUID

from twinraven.connectors import to_output
from twinraven.foundation.errors import TwinRavenError
from twinraven.integrations.adapter import EVENT, Adapter, missing
from twinraven.integrations.call_recording import StartedCall, error_words
from twinraven.integrations.door import OfferedAgentTool, TurnPosition

try:
    from langchain_core.callbacks import AsyncCallbackHandler
    from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
    from langchain_core.runnables import RunnableConfig, ensure_config
    from langchain_core.tools import BaseTool, ToolException
    from pydantic import PrivateAttr
except ModuleNotFoundError as error:
    raise missing("langchain", error) from error

T = TypeVar("T")

Interceptor = Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]

_MARK: Final = "twinraven_tool"
_RANDOM_ID: Final = "lc_"
_LONGEST_IN_HEADER: Final = 1_000
_MOST_BEGUN: Final = 10_000
_NAMES: Final = ("session_id", "thread_id", "conversation_id")


class LangChainAdapter(Adapter):
    """Watches tools that run under LangChain, and offers it tools."""

    @cached_property
    def handler(self) -> AsyncCallbackHandler:
        """For a run's `callbacks`: records what its tools do."""
        return _Handler(self)

    @property
    def interceptor(self) -> Interceptor:
        """For `tool_interceptors` of an MCP client: tells a gateway where in the agent's work a call happens."""
        return self._intercept

    async def _intercept(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        run_id = getattr(ensure_config().get("callbacks"), "parent_run_id", None)
        begun = self._under_way.get(run_id)
        if begun is None:
            return await handler(request)
        said = {_header(name): quote(str(value)) for name, value in self._place_meta(_bounded(begun.place)).items()}
        result = await handler(request.override(headers={**(request.headers or {}), **said}))
        if EVENT in (getattr(result, "meta", None) or {}):
            self._under_way.pop(run_id, None)
        return result

    async def tools(self) -> list[BaseTool]:
        """Return the tools that are offered now."""
        return [_OfferedTool.made(self, offer) for offer in await self.offers_of_a_run()]

    def tools_now(self) -> list[BaseTool]:
        """Return the same for programs without an event loop."""
        return self.run_to_end(self.tools())

    def heard(self, run_id: UUID, messages: Sequence[BaseMessage], metadata: Mapping[str, Any] | None) -> None:
        """Begin a turn: a model was asked something."""
        said: list[str] = []
        for message in reversed(messages):
            if not isinstance(message, HumanMessage):
                break
            said.append(str(message.text))
        self._book.turn(self._named(metadata), run_id, "\n".join(reversed(said)) or None)

    def began(self, run_id: UUID, tool: str, arguments: object, metadata: Mapping[str, Any] | None) -> None:
        """Record that a tool of the agent's own is called."""
        self._under_way[run_id] = self._watch.begin(self._book.take(self._named(metadata)), tool, arguments)
        if len(self._under_way) > _MOST_BEGUN:
            # LangChain says nothing of a call that was cancelled.
            self._under_way.popitem(last=False)

    async def ended(self, run_id: UUID, output: object) -> None:
        """It answered."""
        begun = self._under_way.pop(run_id, None)
        if begun is None:
            return
        if not isinstance(output, ToolMessage):
            await self._watch.end(begun, output)
        elif output.status == "error":
            await self._watch.fail(begun, str(output.text))
        else:
            await self._watch.end(begun, _said(output))

    async def failed(self, run_id: UUID, error: BaseException) -> None:
        """It raised."""
        begun = self._under_way.pop(run_id, None)
        if begun is not None:
            await self._watch.fail(begun, error)

    @cached_property
    def _under_way(self) -> OrderedDict[UUID | None, StartedCall]:
        return OrderedDict()

    async def called(self, tool_id: str, arguments: dict[str, Any], config: RunnableConfig) -> str:
        """Return the answer of a tool of the catalogue; what went wrong is told to the model."""
        try:
            session_id = self._named(config.get("metadata"), config.get("configurable"))
            output = await self._call(tool_id, arguments, session_id)
        except TwinRavenError as error:
            raise ToolException(error_words(error)) from error
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

    def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work from code without an event loop, or beside the one that is running here."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(work)
        with ThreadPoolExecutor(1) as beside:
            return beside.submit(contextvars.copy_context().run, asyncio.run, work).result()

    def _named(self, metadata: Mapping[str, Any] | None, configurable: Mapping[str, Any] | None = None) -> str:
        """Return the session, by the run's metadata or by the configuration it runs under."""
        around = ensure_config().get("configurable") if configurable is None else configurable
        known: dict[str, Any] = {**(around or {}), **(metadata or {})}
        return self._session(next((known[name] for name in _NAMES if known.get(name)), None))


class _Handler(AsyncCallbackHandler):
    """LangChain's events, told to an adapter; tools of the catalogue are recorded where they are called."""

    def __init__(self, adapter: LangChainAdapter) -> None:
        self._adapter = adapter

    async def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        del serialized, rest
        self._adapter.heard(run_id, messages[0] if messages else [], metadata)

    async def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **rest: Any,
    ) -> None:
        del rest
        if _MARK not in (metadata or {}):
            arguments = input_str if inputs is None else inputs
            self._adapter.began(run_id, str(serialized.get("name", "tool")), arguments, metadata)

    async def on_tool_end(self, output: Any, *, run_id: UUID, **rest: Any) -> None:
        del rest
        await self._adapter.ended(run_id, output)

    async def on_tool_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        del rest
        await self._adapter.failed(run_id, error)


class _OfferedTool(BaseTool):
    """A tool of the catalogue. Its arguments travel as one object, so that they may be called anything."""

    _adapter: LangChainAdapter = PrivateAttr()
    _tool_id: str = PrivateAttr()

    @classmethod
    def made(cls, adapter: LangChainAdapter, offer: OfferedAgentTool) -> _OfferedTool:
        tool = cls(
            name=offer.name,
            description=offer.description,
            args_schema=offer.input_schema,
            metadata={_MARK: offer.tool_id},
            handle_tool_error=True,
        )
        tool._adapter = adapter
        tool._tool_id = offer.tool_id
        return tool

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self._parse_input(tool_input, tool_call_id),), {}

    def _run(self, arguments: dict[str, Any], *, config: RunnableConfig) -> str:
        return self._adapter.run_to_end(self._adapter.called(self._tool_id, arguments, config))

    async def _arun(self, arguments: dict[str, Any], *, config: RunnableConfig) -> str:
        return await self._adapter.called(self._tool_id, arguments, config)


def _said(message: ToolMessage) -> object:
    """Return what a tool said, without the random ids that LangChain gives content blocks.

    Tools of MCP servers answer in blocks; their output is the value inside, as it is at the gateway.
    """
    content = cast("object", message.content)  # pyright: ignore[reportUnknownMemberType]
    if not isinstance(content, list):
        return content
    blocks = [_without_id(block) for block in cast("list[object]", content)]
    if not all(isinstance(block, dict) and "type" in block for block in blocks):
        return blocks
    result: dict[str, Any] = {"content": blocks}
    artifact = cast("object", message.artifact)
    if isinstance(artifact, dict) and "structured_content" in artifact:
        result["structuredContent"] = cast("dict[str, Any]", artifact)["structured_content"]
    output = to_output(result)
    return output if output is not result or "structuredContent" in result else blocks


def _without_id(block: object) -> object:
    if not isinstance(block, dict):
        return block
    members = cast("dict[str, Any]", block)
    is_random = str(members.get("id", "")).startswith(_RANDOM_ID)
    return {name: value for name, value in members.items() if name != "id"} if is_random else members


def _bounded(place: TurnPosition) -> TurnPosition:
    """Return a place whose words fit into a header."""
    said = place.outside_input
    return place if said is None else replace(place, outside_input=said[:_LONGEST_IN_HEADER])


def _header(name: str) -> str:
    return name.replace("/", "-").replace("_", "-")
