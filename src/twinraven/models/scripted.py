"""Serves a scripted model over HTTP in both dialects: an ASGI application without a model behind it.

What a provider's server does, this does: chat completions and messages, whole and as server-sent events, tool calls,
structured answers, usage, errors with their status. What a provider's server does on a bad day, a script can ask for:
delays, answers that are cut off, bodies that are no JSON, connections that end in the middle.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from twinraven.models.script import AskedQuestion, ModelScript, ScriptedAnswer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_JSON: Final = [(b"content-type", b"application/json")]
_EVENTS: Final = [(b"content-type", b"text/event-stream")]
_MAX_BODY: Final = 16_000_000

_Events = Iterator[tuple[str | None, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ScriptedExchange:
    """One question that the scripted model was asked, and whether its script had an answer."""

    dialect: Literal["openai", "anthropic"]
    body: dict[str, Any]
    asked: AskedQuestion
    is_answered: bool


class ScriptedModel:
    """The ASGI application; `exchanges` remembers what was asked."""

    def __init__(self, script: ModelScript, on_exchange: Callable[[ScriptedExchange], None] | None = None) -> None:
        self._script = script
        self._on_exchange = on_exchange
        self.exchanges: list[ScriptedExchange] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = str(scope["path"]).rstrip("/")
        body = await _read(receive)
        if path.endswith("/models"):
            await _send_json(send, 200, {"object": "list", "data": [{"id": self._script.model, "object": "model"}]})
        elif path.endswith("/chat/completions"):
            await self._answer("openai", body, send)
        elif path.endswith("/messages"):
            await self._answer("anthropic", body, send)
        else:
            await _send_json(send, 404, _error("there is no such resource"))

    async def _answer(self, dialect: Literal["openai", "anthropic"], raw: bytes, send: Send) -> None:
        try:
            body: Any = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict) or not cast("dict[str, Any]", body).get("messages"):
            await _send_json(send, 400, _error("model and messages are required"))
            return
        found = cast("dict[str, Any]", body)
        asked = _read_question(found)
        answer = self._script.choose(asked)
        exchange = ScriptedExchange(dialect, found, asked, answer is not None)
        self.exchanges.append(exchange)
        if self._on_exchange is not None:
            self._on_exchange(exchange)
        if answer is None:
            await _send_json(send, 400, _error(f"the script has no answer to {asked.last[:200]!r}"))
            return
        await asyncio.sleep(answer.delay_s)
        if answer.raw is not None or answer.status >= 300:
            await self._send_raw(send, answer)
            return
        said = _Saying(answer, asked, self._script.model, wants_tool=dialect == "anthropic" and asked.wants_json)
        form = said.openai() if dialect == "openai" else said.anthropic()
        events = said.openai_events() if dialect == "openai" else said.anthropic_events()
        if found.get("stream"):
            await self._stream(send, answer, events, ends=dialect == "openai")
        else:
            await self._send_whole(send, answer, form)

    async def _send_raw(self, send: Send, answer: ScriptedAnswer) -> None:
        text = answer.raw if answer.raw is not None else json.dumps(_error(answer.text or "scripted failure"))
        headers = [*_JSON, *((name.lower().encode(), value.encode()) for name, value in answer.headers)]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})

    async def _send_whole(self, send: Send, answer: ScriptedAnswer, form: dict[str, Any]) -> None:
        if not answer.break_off:
            await _send_json(send, 200, form)
            return
        text = json.dumps(form).encode()
        length = [(b"content-length", str(len(text)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": [*_JSON, *length]})
        # An answer that is left unfinished makes the server end the connection.
        await send({"type": "http.response.body", "body": text[: len(text) // 2], "more_body": True})

    async def _stream(self, send: Send, answer: ScriptedAnswer, events: _Events, *, ends: bool) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        lines = [_event(name, data) for name, data in events]
        for number, line in enumerate(lines):
            if answer.break_off and number >= max(1, len(lines) // 2):
                return
            await send({"type": "http.response.body", "body": line, "more_body": True})
            await asyncio.sleep(answer.pause_s)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n" if ends else b"", "more_body": False})


class _Saying:
    """One answer in the forms of both providers."""

    def __init__(self, answer: ScriptedAnswer, asked: AskedQuestion, model: str, *, wants_tool: bool) -> None:
        self._answer = answer
        self._model = model
        self._input = answer.usage[0] if answer.usage else max(1, (len(asked.system) + len(asked.last)) // 4)
        self._output = answer.usage[1] if answer.usage else max(1, len(answer.text) // 4)
        self._value = _object_in(answer.text) if wants_tool else None
        """What Anthropic's models give as the input of the tool that they must call to answer in JSON."""

    @property
    def _calls(self) -> list[tuple[str, str, str]]:
        return [(f"call_{number}", call.name, call.arguments) for number, call in enumerate(self._answer.tool_calls)]

    def openai(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._answer.text or None, "refusal": None}
        if self._calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for call_id, name, arguments in self._calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._openai_stop}
        return {**self._openai_head("chat.completion"), "choices": [choice], "usage": self._openai_usage}

    def openai_events(self) -> _Events:
        def chunk(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
            choice = {"index": 0, "delta": delta, "finish_reason": stop}
            return {**self._openai_head("chat.completion.chunk"), "choices": [choice]}

        yield None, chunk({"role": "assistant", "content": ""})
        for piece in self._pieces(self._answer.text):
            yield None, chunk({"content": piece})
        for index, (call_id, name, arguments) in enumerate(self._calls):
            begun = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
            yield None, chunk({"tool_calls": [begun]})
            for piece in self._pieces(arguments):
                yield None, chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield None, chunk({}, self._openai_stop)
        yield None, {**self._openai_head("chat.completion.chunk"), "choices": [], "usage": self._openai_usage}

    def anthropic(self) -> dict[str, Any]:
        return {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": self._blocks,
            "stop_reason": self._anthropic_stop,
            "stop_sequence": None,
            "usage": {"input_tokens": self._input, "output_tokens": self._output},
        }

    def anthropic_events(self) -> _Events:
        start: dict[str, Any] = {**self.anthropic(), "content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": start}
        for index, block in enumerate(self._blocks):
            is_text = block["type"] == "text"
            empty: dict[str, Any] = {**block, **({"text": ""} if is_text else {"input": {}})}
            yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
            kind, member = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
            whole = block["text"] if is_text else json.dumps(block["input"])
            for piece in self._pieces(whole):
                delta = {"type": kind, member: piece}
                yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        ending = {"stop_reason": self._anthropic_stop, "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": ending, "usage": {"output_tokens": self._output}}
        yield "message_stop", {"type": "message_stop"}

    @property
    def _blocks(self) -> list[dict[str, Any]]:
        if self._value is not None:
            return [{"type": "tool_use", "id": "toolu_answer", "name": "answer", "input": self._value}]
        text = [{"type": "text", "text": self._answer.text}] if self._answer.text or not self._calls else []
        uses = [
            {"type": "tool_use", "id": call_id, "name": name, "input": _object_in(arguments) or {}}
            for call_id, name, arguments in self._calls
        ]
        return [*text, *uses]

    def _openai_head(self, kind: str) -> dict[str, Any]:
        """Return what every answer begins with; clients refuse one without an id and a time."""
        return {"id": "chatcmpl-scripted", "object": kind, "created": int(time.time()), "model": self._model}

    @property
    def _openai_stop(self) -> str:
        return self._answer.stop or ("tool_calls" if self._calls else "stop")

    @property
    def _anthropic_stop(self) -> str:
        words = {"length": "max_tokens", "content_filter": "refusal", None: None}
        stated = words.get(self._answer.stop, self._answer.stop)
        return stated or ("tool_use" if self._calls or self._value is not None else "end_turn")

    @property
    def _openai_usage(self) -> dict[str, int]:
        total = self._input + self._output
        return {"prompt_tokens": self._input, "completion_tokens": self._output, "total_tokens": total}

    def _pieces(self, text: str) -> Iterator[str]:
        size = self._answer.piece_chars
        for start in range(0, len(text), size):
            yield text[start : start + size]


def _read_question(body: dict[str, Any]) -> AskedQuestion:
    spoken = [cast("dict[str, Any]", each) for each in cast("list[Any]", body["messages"]) if isinstance(each, dict)]
    systems = [_text_of(message.get("content")) for message in spoken if message.get("role") == "system"]
    others = [message for message in spoken if message.get("role") != "system"]
    return AskedQuestion(
        system="\n".join([_text_of(body.get("system")), *systems]).strip(),
        last=_text_of(others[-1].get("content")) if others else "",
        all="\n".join(_text_of(message.get("content")) for message in others),
        messages=len(others),
        wants_json="response_format" in body or "tool_choice" in body,
    )


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for part in cast("list[Any]", content) if isinstance(content, list) else []:
        found = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        parts.append(_text_of(found.get("text") or found.get("content") or ""))
    return "".join(parts)


def _object_in(text: str) -> dict[str, Any] | None:
    try:
        found: Any = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _event(name: str | None, data: dict[str, Any]) -> bytes:
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _error(message: str) -> dict[str, Any]:
    return {"error": {"type": "invalid_request_error", "message": message}}


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = cast("bytes", message.get("body", b""))
        size += len(part)
        if size <= _MAX_BODY:
            parts.append(part)
        if message["type"] != "http.request" or not message.get("more_body"):
            return b"".join(parts)


async def _send_json(send: Send, status: int, body: dict[str, Any]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": _JSON})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
