"""Integrates pydantic-ai: one capability records every tool call of the agent and adds learned tools.

    adapter = PydanticAIAdapter(open_home())
    agent = Agent(model, tools=[...], capabilities=[adapter.capability()])

    toolset = MCPToolset("http://127.0.0.1:8765/mcp", process_tool_call=adapter.process_tool_call)

A run's conversation is the session. What is offered is looked up when a run begins, so that a promotion is seen by the
next run and no run changes its tools midway. `process_tool_call` is for the toolset of a TwinRaven gateway: it says
where in the agent's work a call happens, and the gateway, not this adapter, records the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, cast

from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.integrations.adapter import Adapter, missing
from twinraven.integrations.call_recording import StartedCall, error_words
from twinraven.integrations.door import OfferedAgentTool

try:
    from pydantic_ai import ModelRetry, RunContext, ToolDefinition
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import (
        ApprovalRequired,
        CallDeferred,
        SkipToolExecution,
        ToolFailed,
        ToolFailedError,
        ToolRetryError,
    )
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturn, UserPromptPart
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.toolsets.abstract import ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ModuleNotFoundError as error:
    raise missing("pydantic-ai", error) from error

_MARK: Final = "twinraven_tool"
_NOT_RUN: Final = (ApprovalRequired, CallDeferred, SkipToolExecution)
"""What a hook raises instead of running a tool: there was no call."""


class PydanticAIAdapter(Adapter):
    """Watches agents of pydantic-ai, and offers them tools."""

    def capability(self) -> AbstractCapability[Any]:
        """For an agent's `capabilities`: watches all its tools, and offers those of the catalogue."""
        return _Capability(self)

    def toolset(self) -> AbstractToolset[Any]:
        """For an agent's `toolsets`: offers the catalogue's tools, without watching the agent's own."""
        return _OfferedTools(self)

    @cached_property
    def _under_way(self) -> dict[object, StartedCall]:
        """Calls that this adapter is to record, unless a gateway does."""
        return {}

    def session_of(self, ctx: RunContext[Any]) -> str:
        """Return the session a run belongs to, and note its turn."""
        session_id = self._session(ctx.conversation_id)
        self._book.turn(session_id, (ctx.run_id, ctx.run_step), _said_before(ctx.messages))
        return session_id

    async def process_tool_call(self, ctx: RunContext[Any], call_tool: Any, name: str, args: dict[str, Any]) -> Any:
        """Call a gateway's tool in the run's session; for `process_tool_call` of an MCP toolset."""
        begun = self._under_way.pop(_call_of(ctx), None)
        place = self._book.take(self.session_of(ctx)) if begun is None else begun.place
        return await call_tool(name, args, metadata=self._place_meta(place))

    async def watched(self, ctx: RunContext[Any], tool: str, args: dict[str, Any], run: Any) -> Any:
        """Return the result of a tool of the agent's own, recorded."""
        key = _call_of(ctx)
        begun = self._under_way[key] = self._watch.begin(self._book.take(self.session_of(ctx)), tool, args)
        try:
            result = await run(args)
        except _NOT_RUN:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if self._under_way.pop(key, None) is begun:
                await self._watch.fail(begun, _raised(error))
            raise
        finally:
            is_ours = self._under_way.pop(key, None) is begun
        if is_ours:
            await self._watch.end(begun, _returned(result))
        return result

    async def called(self, ctx: RunContext[Any], tool_id: str, args: dict[str, Any]) -> Any:
        """Return the result of a tool of the catalogue; what went wrong is told to the model."""
        try:
            return await self._call(tool_id, args, self.session_of(ctx))
        except TwinRavenError as error:
            can_mend = error.code == InvalidInput.code
            raise (ModelRetry if can_mend else ToolFailed)(error_words(error)) from error


@dataclass
class _Capability(AbstractCapability[Any]):
    adapter: PydanticAIAdapter

    @classmethod
    def get_serialization_name(cls) -> str | None:
        return None

    def get_toolset(self) -> AbstractToolset[Any]:
        return self.adapter.toolset()

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Any
    ) -> Any:
        if _MARK in (tool_def.metadata or {}):
            return await handler(args)
        return await self.adapter.watched(ctx, call.tool_name, args, handler)


@dataclass
class _OfferedTools(AbstractToolset[Any]):
    adapter: PydanticAIAdapter
    offers: Sequence[OfferedAgentTool] | None = field(default=None)
    """Those of one run; outside of a run they are looked up each time."""

    @property
    def id(self) -> str | None:
        return None

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        del ctx
        return replace(self, offers=await self.adapter.offers_of_a_run())

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        offers = await self.adapter.offers_of_a_run() if self.offers is None else self.offers
        return {offer.name: self._tool(offer, ctx) for offer in offers}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        del name
        return await self.adapter.called(ctx, (tool.tool_def.metadata or {})[_MARK], tool_args)

    def _tool(self, offer: OfferedAgentTool, ctx: RunContext[Any]) -> ToolsetTool[Any]:
        definition = ToolDefinition(
            name=offer.name,
            description=offer.description,
            parameters_json_schema=offer.input_schema,
            metadata={_MARK: offer.tool_id},
        )
        # The call path checks the arguments and says what does not fit.
        unchecked = SchemaValidator(core_schema.any_schema())
        return ToolsetTool(
            toolset=self, tool_def=definition, max_retries=max(ctx.max_retries, 1), args_validator=unchecked
        )


def _call_of(ctx: RunContext[Any]) -> object:
    return ctx.run_id, ctx.run_step, ctx.tool_call_id


def _raised(error: BaseException) -> BaseException:
    """Return what the tool itself raised, where the library has made a message to the model of it."""
    is_message = isinstance(error, (ToolFailedError, ToolRetryError))
    return error.__cause__ if is_message and error.__cause__ is not None else error


def _returned(result: object) -> object:
    return cast("ToolReturn[Any]", result).return_value if isinstance(result, ToolReturn) else result


def _said_before(messages: Sequence[ModelMessage]) -> str | None:
    """Return what a user said between the model's last answer and the one before it."""
    said: list[str] = []
    answers = 0
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            answers += 1
            if answers == 2:
                break
        else:
            said.extend(_text(part) for part in reversed(message.parts) if isinstance(part, UserPromptPart))
    return "\n".join(reversed(said)) or None


def _text(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    return "\n".join(piece if isinstance(piece, str) else f"<{type(piece).__name__}>" for piece in part.content)
