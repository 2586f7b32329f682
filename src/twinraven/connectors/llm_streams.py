"""Reads a model's answer while it is said: server-sent events of both dialects become pieces of text, then a whole.

The whole is put together in the form in which the same server would have answered without streaming, so one reader
takes both apart. The reasoning that some models put in front (`<think>…</think>`) is not passed on as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twinraven.connectors.llm_dialects import DialectName
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput, ToolError

_OPENS, _CLOSES = "<think>", "</think>"


class AnswerListener:
    """Hears one streamed answer; `hear` is given its text."""

    def __init__(self, dialect: DialectName, hear: Callable[[str], None]) -> None:
        self._dialect = dialect
        self._assembly: _OpenAiAssembly | _AnthropicAssembly = (
            _OpenAiAssembly() if dialect == "openai" else _AnthropicAssembly()
        )
        self._speech = StreamedText(hear)
        self._rest = b""
        self.has_heard = False

    def streamed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the request body that asks for a stream."""
        usage = {"stream_options": {"include_usage": True}} if self._dialect == "openai" else {}
        return {**body, "stream": True, **usage}

    def hear(self, part: bytes) -> None:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            self._take(line.strip())

    def whole(self) -> Any:
        """Return the answer as it would have come without streaming."""
        self._take(self._rest.strip())
        self._rest = b""
        if not self._assembly.is_complete:
            raise InvalidOutput("the model's answer broke off before its end")
        return self._assembly.whole()

    def finish(self, text: str) -> None:
        """Pass on what was held back, or all of a text that did not come in pieces."""
        self._speech.finish(text)

    def _take(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            self._assembly.is_complete = True
            return
        try:
            event = parse_json(data, field="event")
        except InvalidInput:
            raise InvalidOutput("the model's stream has an event that is not JSON") from None
        said = _member(event, "error")
        if said is not None:
            raise ToolError(f"the model broke off with an error: {_member(said, 'message') or said}"[:300])
        self.has_heard = True
        self._speech.say(self._assembly.take(event))


class StreamedText:
    """Passes text on as it comes, without the thoughts in front of it."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear
        self._held: str | None = ""
        """What might be thoughts; None once it is known that all further text is the answer."""
        self._is_said = False

    def say(self, piece: str) -> None:
        if not piece:
            return
        if self._held is None:
            self._pass(piece)
            return
        self._held += piece
        begun = self._held.lstrip()
        if begun.startswith(_OPENS):
            _, closing, after = begun.partition(_CLOSES)
            if closing:
                self._release(after.lstrip())
        elif not _OPENS.startswith(begun):
            self._release(self._held)

    def finish(self, text: str) -> None:
        if self._held is not None and not self._held.lstrip().startswith(_OPENS):
            self._release(self._held)
        if not self._is_said and not text.lstrip().startswith(_OPENS):
            self._pass(text)

    def _release(self, text: str) -> None:
        self._held = None
        self._pass(text)

    def _pass(self, text: str) -> None:
        if text:
            self._is_said = True
            self._hear(text)


class _OpenAiAssembly:
    """`chat.completion.chunk` events, put together."""

    def __init__(self) -> None:
        self.is_complete = False
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish: Any = None
        self._usage: Any = None

    def take(self, event: Any) -> str:
        self._usage = _member(event, "usage") or self._usage
        choices = _member(event, "choices")
        choice = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
        delta = _member(choice, "delta")
        self._finish = _member(choice, "finish_reason") or self._finish
        self.is_complete = self.is_complete or self._finish is not None
        if isinstance(refusal := _member(delta, "refusal"), str):
            self._refusal.append(refusal)
        for item in cast("list[Any]", _member(delta, "tool_calls") or []):
            self._take_call(item)
        piece = _member(delta, "content")
        if not isinstance(piece, str):
            return ""
        self._text.append(piece)
        return piece

    def _take_call(self, item: Any) -> None:
        index, function = _member(item, "index"), _member(item, "function")
        call = self._calls.setdefault(index if isinstance(index, int) else 0, {"id": "", "name": "", "arguments": ""})
        call["id"] += str(_member(item, "id") or "")
        for name in ("name", "arguments"):
            call[name] += str(_member(function, name) or "")

    def whole(self) -> Any:
        calls = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
            for _, call in sorted(self._calls.items())
        ]
        message = {"content": "".join(self._text), "refusal": "".join(self._refusal) or None, "tool_calls": calls}
        return {"choices": [{"message": message, "finish_reason": self._finish}], "usage": self._usage}


class _AnthropicAssembly:
    """`message_start` … `message_stop` events, put together."""

    def __init__(self) -> None:
        self.is_complete = False
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._inputs: dict[Any, str] = {}
        self._stop: Any = None
        self._usage: dict[str, Any] = {}

    def take(self, event: Any) -> str:
        kind, index, delta = _member(event, "type"), _member(event, "index"), _member(event, "delta")
        if kind in ("message_start", "message_delta"):
            usage = _member(_member(event, "message") if kind == "message_start" else event, "usage")
            self._usage.update(cast("dict[str, Any]", usage) if isinstance(usage, dict) else {})
            self._stop = _member(delta, "stop_reason") or self._stop
        elif kind == "content_block_start":
            self._blocks[index] = dict(_member(event, "content_block") or {})
        elif kind == "content_block_delta":
            return self._take_delta(index, delta)
        elif kind == "message_stop":
            self.is_complete = True
        return ""

    def _take_delta(self, index: Any, delta: Any) -> str:
        if _member(delta, "type") == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + str(_member(delta, "partial_json") or "")
            return ""
        piece = _member(delta, "text")
        if not isinstance(piece, str):
            return ""
        block = self._blocks.setdefault(index, {"type": "text"})
        block["text"] = str(block.get("text", "")) + piece
        return piece

    def whole(self) -> Any:
        for index, text in self._inputs.items():
            try:
                self._blocks.setdefault(index, {})["input"] = parse_json(text, field="input")
            except InvalidInput:
                raise InvalidOutput("the model's tool call is not JSON") from None
        return {"content": list(self._blocks.values()), "stop_reason": self._stop, "usage": self._usage}


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
