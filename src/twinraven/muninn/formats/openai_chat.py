"""`openai`: conversations as lists of chat messages, the form in which agents keep them and models are trained on.

A line is a conversation, `{"messages": […]}`, as in OpenAI's fine-tuning files; a file may also be one array, of
messages or of conversations. An assistant's message is a turn of the model and may ask for several calls at once; each
is answered by a later message with role `tool` and its id. The older `function_call`, answered by role `function`, is
understood too. What users say between calls is outside input.

There are no times, so calls get times by sequence. A conversation is its own session, under the id it has
(`session_id`, `conversation_id`, `thread_id`, `id`) or under a hash of what was said: only a conversation with an id is
recognised when it comes again with more in it.

A call without an answer was asked for and given up if the conversation went on; the last one may still be under way and
is left for a later import.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from twinraven.foundation.canonical import canonical_json, content_hash, parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.trace import (
    ForeignCall,
    Heard,
    LineError,
    decode_arguments,
    decode_text,
    items_of,
    members_of,
)

_IDS = ("session_id", "conversation_id", "thread_id", "id")
_SILENT = ("system", "developer")


class OpenAIChatParser:
    """Each line, or the whole file, holds conversations that are complete."""

    keeps_ids = False

    def __init__(self, tenant_id: str) -> None:
        self._tenant_id = tenant_id

    def feed(self, line: bytes, number: int) -> Iterator[Heard]:
        for conversation in _conversations(parse_json(line, field="the line")):
            yield from self._hear(conversation, number)

    def finish(self) -> Iterator[Heard]:
        yield from ()

    def _hear(self, conversation: dict[str, Any], number: int) -> Iterator[Heard]:
        messages = items_of(conversation.get("messages"), "messages")
        listener = _Listener(_session_id(conversation, messages))
        for place, message in enumerate(messages):
            try:
                listener.hear(members_of(message, "the message"))
            except TwinRavenError as error:
                yield LineError(number, f"messages[{place}]: {error.message}")
        for call in listener.calls():
            try:
                yield call.observed_for(self._tenant_id)
            except TwinRavenError as error:
                yield LineError(number, f"{call.identity}: {error.message}")


def _conversations(found: Any) -> list[dict[str, Any]]:
    """A conversation, several, or the bare messages of one."""
    items = cast("list[Any]", found) if isinstance(found, list) else [found]
    objects = [members_of(item, "an item of the line") for item in items]
    if isinstance(found, list) and objects and all("role" in item for item in objects):
        return [{"messages": objects}]
    for item in objects:
        if not isinstance(item.get("messages"), list):
            raise InvalidInput("messages is missing: a conversation has a list of them", field="messages")
    return objects


def _session_id(conversation: dict[str, Any], messages: list[Any]) -> str:
    for name in _IDS:
        given = conversation.get(name)
        if isinstance(given, (str, int)) and not isinstance(given, bool) and given != "":
            return str(given)
    return f"openai-{content_hash(canonical_json(messages))[:32]}"


@dataclass(slots=True)
class _Asked:
    """A call the model asked for, and what came of it."""

    id: str | None
    tool: str
    params: dict[str, Any]
    turn: int
    outside_input: str | None
    output: Any = None
    is_settled: bool = False


@dataclass(slots=True)
class _Listener:
    """Follows one conversation."""

    session_id: str
    turn: int = 0
    said: list[str] = field(default_factory=list[str])
    asked: list[_Asked] = field(default_factory=list[_Asked])
    waiting: list[_Asked] = field(default_factory=list[_Asked])

    def hear(self, message: dict[str, Any]) -> None:
        role = message.get("role")
        if role == "assistant":
            self._give_up()
            self.turn += 1
            self._ask(message)
        elif role == "user":
            self._give_up()
            self.said.append(_text(message.get("content")))
        elif role in ("tool", "function"):
            self._answer(message)
        elif role not in _SILENT:
            raise InvalidInput(f"role {role!r} is none of system, developer, user, assistant, tool, function")

    def calls(self) -> Iterator[ForeignCall]:
        for place, asked in enumerate(self.asked):
            if asked.is_settled:
                yield ForeignCall(
                    identity=f"openai:{self.session_id}:{place}",
                    session_id=self.session_id,
                    tool_id=asked.tool,
                    params=asked.params,
                    timestamp=place,
                    time_known=False,
                    output=asked.output,
                    turn=asked.turn,
                    outside_input=asked.outside_input,
                )

    def _ask(self, message: dict[str, Any]) -> None:
        """Note every call that can be understood, and only then complain of one that cannot."""
        fault: TwinRavenError | None = None
        for item in items_of(message.get("tool_calls"), "tool_calls"):
            try:
                self._note(*_request(members_of(item, "a tool call")))
            except TwinRavenError as error:
                fault = fault or error
        if message.get("function_call") is not None:
            function = members_of(message["function_call"], "function_call")
            self._note(None, _name(function), decode_arguments(function.get("arguments")))
        if fault is not None:
            raise fault

    def _note(self, call_id: str | None, tool: str, params: dict[str, Any]) -> None:
        heard = "\n".join(self.said) if self.said else None
        self.said.clear()
        asked = _Asked(call_id, tool, params, self.turn, heard)
        self.asked.append(asked)
        self.waiting.append(asked)

    def _answer(self, message: dict[str, Any]) -> None:
        call_id, name = message.get("tool_call_id"), message.get("name")
        found = self.waiting
        if call_id is not None:
            found = [asked for asked in found if asked.id == call_id]
        elif name is not None:
            found = [asked for asked in found if asked.tool == name]
        if not found:
            raise InvalidInput(f"answers no call that waits for an answer (tool_call_id {call_id!r}, name {name!r})")
        found[0].output = decode_text(_text(message.get("content")))
        found[0].is_settled = True
        self.waiting = [asked for asked in self.waiting if asked is not found[0]]

    def _give_up(self) -> None:
        """What was not answered by now will not be."""
        for asked in self.waiting:
            asked.is_settled = True
        self.waiting.clear()


def _request(call: dict[str, Any]) -> tuple[str | None, str, dict[str, Any]]:
    call_id = call.get("id")
    if call.get("type") == "custom":
        custom = members_of(call.get("custom"), "custom")
        return call_id, _name(custom), {"input": custom.get("input")}
    function = members_of(call.get("function"), "function")
    return call_id, _name(function), decode_arguments(function.get("arguments"))


def _name(function: dict[str, Any]) -> str:
    name = function.get("name")
    if not isinstance(name, str):
        raise InvalidInput("the call names no function", field="name")
    return name


def _text(content: Any) -> str:
    """The text of a message; parts that are no text are named by their type."""
    if isinstance(content, str):
        return content
    parts = [members_of(part, "a part of the content") for part in items_of(content, "content")]
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts)
