"""Lets the configured model answer for processes, and streams what it says to the alternative that is being made.

`chat_reply` answers messages; `chat_reply_with_tools` lets the model call tools on the caller's behalf, through the one
call path, and goes on until it answers. Every reply and every write has a key made of the step's own, so that a step
that is made again after a crash repeats none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from twinraven.calls import CallContext, CallFrame, Calls, SkillInvocationRequest
from twinraven.catalog import Catalog, ToolEntry
from twinraven.conversations.answering import RUN_PREFIX
from twinraven.conversations.chat_tools import CONNECTOR, MODEL_TOOLS, REPLY, REPLY_WITH_TOOLS
from twinraven.conversations.model import MOST_CONTENT
from twinraven.conversations.streaming import PieceWriter
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput, ToolError, error_from_json
from twinraven.models import ModelQuestion, Models, ModelToolCall, OfferedTool, PromptTurn

_MOST_ROUNDS: Final = 8
_LONGEST_RESULT: Final = 20_000


class ChatConnector:
    """Runs the two chat tools."""

    name = CONNECTOR

    def __init__(
        self,
        models: Models,
        calls: Calls,
        catalog: Catalog,
        open_pieces: Callable[[str, str], PieceWriter],
    ) -> None:
        self._models = models
        self._calls = calls
        self._catalog = catalog
        self._open_pieces = open_pieces

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> Any:
        """Answer messages; gives the text, or what the model wants called where it was told of tools."""
        if entry.tool_id == REPLY_WITH_TOOLS:
            return await self._reply_with_tools(params, call)
        return await self._reply(params, call)

    async def _reply(self, params: dict[str, Any], call: CallFrame) -> Any:
        writer, size = self._writer(call), 0
        question = _question(params["messages"], params.get("tool_schemas", []))
        async with self._models.stream(question, _context(call), tenant_id=call.tenant_id) as stream:
            async for piece in stream:
                size += len(piece)
                if size > MOST_CONTENT:
                    raise ToolError(f"the model said more than {MOST_CONTENT:,} characters and was stopped")
                if writer is not None:
                    await writer.add(piece)
            answer = await stream.answer()
        if writer is not None:
            await writer.finish()
        if not question.tools:
            return answer.text
        calls = [{"id": each.id, "name": each.name, "arguments": each.arguments} for each in answer.tool_calls]
        return {"text": answer.text, "tool_calls": calls}

    async def _reply_with_tools(self, params: dict[str, Any], call: CallFrame) -> str:
        offered = self._offered(call, params.get("tools"))
        messages: list[dict[str, Any]] = list(params["messages"])
        for number in range(_MOST_ROUNDS):
            is_last = number == _MOST_ROUNDS - 1
            schemas = [] if is_last else [_schema(entry) for entry in offered.values()]
            given = {"messages": messages} | ({"tool_schemas": schemas} if schemas else {})
            said = await self._inner(call, REPLY, given, f"reply{number}")
            if isinstance(said, str) or not said["tool_calls"]:
                return said if isinstance(said, str) else said["text"]
            messages.append({"role": "assistant", "content": said["text"], "tool_calls": said["tool_calls"]})
            for place, wish in enumerate(said["tool_calls"]):
                result = await self._made(call, offered, wish, f"call{number}.{place}")
                messages.append({"role": "tool", "tool_call_id": wish["id"], "content": result})
        raise AssertionError("the last round offers no tools, so it answers")

    async def _made(self, call: CallFrame, offered: dict[str, ToolEntry], wish: dict[str, Any], place: str) -> str:
        """Return what a tool answered, as the model is told it; a failure is told, too."""
        if wish["name"] not in offered:
            return f"error: there is no tool {wish['name']!r}"
        try:
            arguments = parse_json(wish["arguments"] or "{}", field="arguments")
            if not isinstance(arguments, dict):
                raise InvalidInput("arguments must be an object", field="arguments")
            output = await self._inner(call, wish["name"], cast("dict[str, Any]", arguments), place)
        except (ToolError, InvalidInput) as error:
            return f"error: {error.message}"
        text = output if isinstance(output, str) else canonical_json(output).decode()
        return text if len(text) <= _LONGEST_RESULT else f"{text[:_LONGEST_RESULT]} [{len(text):,} characters in all]"

    async def _inner(self, call: CallFrame, tool_id: str, params: dict[str, Any], place: str) -> Any:
        outer, writes = call.key or call.spare_key, self._catalog.find(call.tenant_id, tool_id).writes
        request = SkillInvocationRequest(
            tool_name=tool_id,
            payload=params,
            tenant_id=call.tenant_id,
            task_id=call.task_id,
            correlation_id=call.correlation_id,
            # A read that is made again does no harm; a reply made again could wish for other calls.
            idempotency_key=f"{outer}:{place}" if outer is not None and (writes or tool_id == REPLY) else None,
        )
        response = await self._calls.invoke(request, _context(call))
        if response.error is not None:
            if tool_id == REPLY:
                raise error_from_json(response.error)
            raise ToolError(str(response.error.get("message")))
        return response.output

    def _offered(self, call: CallFrame, wanted: list[str] | None) -> dict[str, ToolEntry]:
        found = self._catalog.offered(call.tenant_id, call.caller)
        return {
            entry.tool_id: entry
            for entry in found
            if entry.tool_id not in MODEL_TOOLS and (wanted is None or entry.tool_id in wanted)
        }

    def _writer(self, call: CallFrame) -> PieceWriter | None:
        """Return the stream of an answer: only a run of the engine has an epoch and names its alternative."""
        if call.epoch is None or call.task_id is None or not call.task_id.startswith(RUN_PREFIX):
            return None
        return self._open_pieces(call.tenant_id, call.task_id.removeprefix(RUN_PREFIX))


def _context(call: CallFrame) -> CallContext:
    """Return where the inner calls of a reply happen; each is judged by policy on its own."""
    return CallContext(
        session_id=call.session_id,
        turn=call.turn,
        parent_event_id=call.event_id,
        caller=call.caller,
        actor=call.actor,
        epoch=call.epoch,
    )


def _question(messages: list[dict[str, Any]], schemas: list[dict[str, Any]]) -> ModelQuestion:
    """Messages as models take them: one system prompt of the first ones, and later ones of the system as a user's."""
    leading: list[str] = []
    turns: list[PromptTurn] = []
    for message in messages:
        role, text = message["role"], message["content"]
        if role == "system" and not turns:
            leading.append(text)
            continue
        calls = tuple(
            ModelToolCall(each["id"], each["name"], each["arguments"]) for each in message.get("tool_calls", ())
        )
        turns.append(PromptTurn("user" if role == "system" else role, text, calls, message.get("tool_call_id")))
    if not turns:
        leading, turns = leading[:-1], [PromptTurn("user", leading[-1])]
    tools = tuple(OfferedTool(each["name"], each["description"], each["parameters"]) for each in schemas)
    return ModelQuestion(tuple(turns), "\n\n".join(leading) or None, tools=tools)


def _schema(entry: ToolEntry) -> dict[str, Any]:
    return {"name": entry.tool_id, "description": entry.description, "parameters": entry.input_schema}
