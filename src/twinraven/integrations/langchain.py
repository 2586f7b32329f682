"""LangChain: a callback handler watches every tool, and learned tools come as tools of LangChain's own kind.

    adapter = LangChainAdapter(open_home(), session_id="ticket-17")
    tools = [*my_tools, *await adapter.tools()]
    await chain.ainvoke(question, config={"callbacks": [adapter.handler]})

The handler serves sync and async runs alike. Without a session id the run's metadata or configuration names it
(`session_id`, `thread_id`, `conversation_id`). Ask for the tools before each run: then a promotion is seen by it.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from twinraven.foundation.errors import TwinRavenError
from twinraven.integrations.adapter import Adapter, missing
from twinraven.integrations.door import Offer
from twinraven.integrations.watching import Begun, error_words

try:
    from langchain_core.callbacks import AsyncCallbackHandler
    from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
    from langchain_core.runnables import RunnableConfig, ensure_config
    from langchain_core.tools import BaseTool, ToolException
    from pydantic import PrivateAttr
except ModuleNotFoundError as error:
    raise missing("langchain", error) from error

T = TypeVar("T")

_MARK: Final = "twinraven_tool"
_MOST_BEGUN: Final = 10_000
_NAMES: Final = ("session_id", "thread_id", "conversation_id")


class LangChainAdapter(Adapter):
    """Watches tools that run under LangChain, and offers it tools."""

    @cached_property
    def handler(self) -> AsyncCallbackHandler:
        """For a run's `callbacks`: records what its tools do."""
        return _Handler(self)

    async def tools(self) -> list[BaseTool]:
        """The tools that are offered now."""
        return [_OfferedTool.made(self, offer) for offer in await self.offers_of_a_run()]

    def tools_now(self) -> list[BaseTool]:
        """The same for programs without an event loop."""
        return self.run_to_end(self.tools())

    def heard(self, run_id: UUID, messages: Sequence[BaseMessage], metadata: Mapping[str, Any] | None) -> None:
        """A model was asked something: a turn begins."""
        said: list[str] = []
        for message in reversed(messages):
            if not isinstance(message, HumanMessage):
                break
            said.append(str(message.text))
        self._book.turn(self._named(metadata), run_id, "\n".join(reversed(said)) or None)

    def began(self, tool: str, arguments: object, metadata: Mapping[str, Any] | None) -> Begun:
        """A tool of the agent's own is called."""
        return self._watch.begin(self._book.take(self._named(metadata)), tool, arguments)

    async def ended(self, begun: Begun, output: object) -> None:
        """It answered."""
        if not isinstance(output, ToolMessage):
            await self._watch.end(begun, output)
        elif output.status == "error":
            await self._watch.fail(begun, str(output.text))
        else:
            await self._watch.end(begun, cast("object", output.content))  # pyright: ignore[reportUnknownMemberType]

    async def failed(self, begun: Begun, error: BaseException) -> None:
        """It raised."""
        await self._watch.fail(begun, error)

    async def called(self, tool_id: str, arguments: dict[str, Any], config: RunnableConfig) -> str:
        """The answer of a tool of the catalogue; what went wrong is told to the model."""
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
        """The session, by the run's metadata or by the configuration it runs under."""
        around = ensure_config().get("configurable") if configurable is None else configurable
        known: dict[str, Any] = {**(around or {}), **(metadata or {})}
        return self._session(next((known[name] for name in _NAMES if known.get(name)), None))


class _Handler(AsyncCallbackHandler):
    """LangChain's events, told to an adapter; tools of the catalogue are recorded where they are called."""

    def __init__(self, adapter: LangChainAdapter) -> None:
        self._adapter = adapter
        self._begun: OrderedDict[UUID, Begun] = OrderedDict()

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
            self._begun[run_id] = self._adapter.began(str(serialized.get("name", "tool")), arguments, metadata)
            if len(self._begun) > _MOST_BEGUN:
                # LangChain says nothing of a call that was cancelled.
                self._begun.popitem(last=False)

    async def on_tool_end(self, output: Any, *, run_id: UUID, **rest: Any) -> None:
        del rest
        begun = self._begun.pop(run_id, None)
        if begun is not None:
            await self._adapter.ended(begun, output)

    async def on_tool_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        del rest
        begun = self._begun.pop(run_id, None)
        if begun is not None:
            await self._adapter.failed(begun, error)


class _OfferedTool(BaseTool):
    """A tool of the catalogue. Its arguments travel as one object, so that they may be called anything."""

    _adapter: LangChainAdapter = PrivateAttr()
    _tool_id: str = PrivateAttr()

    @classmethod
    def made(cls, adapter: LangChainAdapter, offer: Offer) -> _OfferedTool:
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
