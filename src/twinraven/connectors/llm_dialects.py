"""Speaks the two HTTP dialects of language models: OpenAI's chat completions and Anthropic's messages.

Each dialect turns a prompt into a request body and an answer into a `Completion`. They differ in where the system
prompt stands, in how an answer is bound to a schema (a response format here, a tool that must be called there), in what
they call a stop, and in how they count tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast

from twinraven.connectors.http_model import Headers
from twinraven.connectors.urls import Url
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput

Role = Literal["user", "assistant", "tool"]
Stop = Literal["end", "length", "refusal", "tools"]

DialectName = Literal["openai", "anthropic"]

DEFAULT_MAX_TOKENS = 4_096

_ANSWER = "answer"
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model and its sampling parameters."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further members of the request body, for what only some servers know."""


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool that a model wants to be called; `arguments` is the JSON text as it wrote it, which may be broken."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that a model may ask for."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """One message of a dialogue with a model."""

    role: Role
    text: str
    tool_calls: tuple[ModelToolCall, ...] = ()
    """What the assistant asked for."""
    tool_call_id: str | None = None
    """Which call of the assistant's a message of role `tool` answers."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt to a model; with a schema, the answer must be JSON that fits it."""

    system: str | None
    turns: tuple[PromptTurn, ...]
    schema: Mapping[str, Any] | None = None
    tools: tuple[OfferedTool, ...] = ()

    def continued(self, answer: str, objection: str) -> Prompt:
        """Return the same, after an answer that did not serve."""
        return replace(self, turns=(*self.turns, PromptTurn("assistant", answer), PromptTurn("user", objection)))


@dataclass(frozen=True, slots=True)
class Completion:
    """The completion of a model; `value` is set where the server already parsed the answer."""

    text: str
    stop: Stop
    input_tokens: int
    output_tokens: int
    value: Any = None
    tool_calls: tuple[ModelToolCall, ...] = ()


class Dialect(Protocol):
    """One way of asking."""

    @property
    def name(self) -> DialectName: ...

    @property
    def auth(self) -> Mapping[str, str]: ...

    @property
    def headers(self) -> Headers: ...

    def address(self, endpoint: Url, resource: Literal["ask", "models"]) -> Url: ...

    def body(self, prompt: Prompt, choice: ModelChoice, endpoint: Url) -> dict[str, Any]: ...

    def read(self, answer: Any) -> Completion: ...


class OpenAiDialect:
    """`POST /v1/chat/completions`."""

    name: DialectName = "openai"
    auth: Mapping[str, str] = {"type": "bearer"}
    headers: Headers = ()

    def address(self, endpoint: Url, resource: Literal["ask", "models"]) -> Url:
        return _below(endpoint, "chat/completions" if resource == "ask" else "models")

    def body(self, prompt: Prompt, choice: ModelChoice, endpoint: Url) -> dict[str, Any]:
        system = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
        body: dict[str, Any] = {
            "model": choice.model,
            "messages": [*system, *map(_openai_message, prompt.turns)],
        }
        if choice.temperature is not None:
            body["temperature"] = choice.temperature
        if choice.max_tokens is not None:
            # The original has renamed it and refuses the old name for newer models; its imitators know the old one.
            is_original = endpoint.origin.host == "api.openai.com"
            body["max_completion_tokens" if is_original else "max_tokens"] = choice.max_tokens
        if prompt.schema is not None:
            shape = {"name": _ANSWER, "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        if prompt.tools:
            body["tools"] = [{"type": "function", "function": _openai_tool(tool)} for tool in prompt.tools]
        return {**body, **choice.options}

    def read(self, answer: Any) -> Completion:
        choice = _first(_member(answer, "choices"))
        message = _member(choice, "message")
        usage = _member(answer, "usage")
        refusal = _member(message, "refusal")
        stops: dict[Any, Stop] = {"length": "length", "content_filter": "refusal", "tool_calls": "tools"}
        stop = "refusal" if refusal else stops.get(_member(choice, "finish_reason"), "end")
        if message is None:
            raise InvalidOutput("the model's answer has no message in it")
        text = refusal if isinstance(refusal, str) and refusal else _text_of(_member(message, "content"))
        return Completion(
            text,
            stop,
            _count(usage, "prompt_tokens"),
            _count(usage, "completion_tokens"),
            tool_calls=_openai_calls(_member(message, "tool_calls")),
        )


class AnthropicDialect:
    """`POST /v1/messages`."""

    name: DialectName = "anthropic"
    auth: Mapping[str, str] = {"type": "header", "name": "x-api-key"}
    headers: Headers = (("anthropic-version", _ANTHROPIC_VERSION),)

    def address(self, endpoint: Url, resource: Literal["ask", "models"]) -> Url:
        return _below(endpoint, "messages" if resource == "ask" else "models")

    def body(self, prompt: Prompt, choice: ModelChoice, endpoint: Url) -> dict[str, Any]:
        del endpoint
        body: dict[str, Any] = {
            "model": choice.model,
            "max_tokens": choice.max_tokens or DEFAULT_MAX_TOKENS,
            "messages": _anthropic_messages(prompt.turns),
        }
        if prompt.system is not None:
            body["system"] = prompt.system
        if choice.temperature is not None:
            body["temperature"] = choice.temperature
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in prompt.tools
        ]
        if prompt.schema is not None:
            tools.append({"name": _ANSWER, "description": "Give the answer.", "input_schema": prompt.schema})
            body["tool_choice"] = {"type": "any"} if prompt.tools else {"type": "tool", "name": _ANSWER}
        if tools:
            body["tools"] = tools
        return {**body, **choice.options}

    def read(self, answer: Any) -> Completion:
        blocks = _member(answer, "content")
        if not isinstance(blocks, list):
            raise InvalidOutput("the model's answer has no content in it")
        items = cast("list[Any]", blocks)
        usage = _member(answer, "usage")
        inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        uses = [item for item in items if _member(item, "type") == "tool_use"]
        calls = tuple(
            ModelToolCall(
                str(_member(use, "id")), str(_member(use, "name")), canonical_json(_member(use, "input")).decode()
            )
            for use in uses
            if _member(use, "name") != _ANSWER
        )
        stops: dict[Any, Stop] = {"max_tokens": "length", "refusal": "refusal"}
        stop = stops.get(_member(answer, "stop_reason"), "tools" if calls else "end")
        return Completion(
            text=_text_of(items),
            stop=stop,
            input_tokens=sum(_count(usage, name) for name in inputs),
            output_tokens=_count(usage, "output_tokens"),
            value=next((_member(use, "input") for use in uses if _member(use, "name") == _ANSWER), None),
            tool_calls=calls,
        )


DIALECTS: Mapping[str, Dialect] = {"openai": OpenAiDialect(), "anthropic": AnthropicDialect()}


def dialect_of(stated: Any, endpoint: Url) -> Dialect | None:
    """Return the dialect a tool names, or else the one its endpoint is known for."""
    if stated is None:
        stated = "anthropic" if endpoint.origin.host.endswith("anthropic.com") else "openai"
    return DIALECTS.get(stated) if isinstance(stated, str) else None


def _openai_message(turn: PromptTurn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.text}
    if turn.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.tool_calls
        ]
    if turn.tool_call_id is not None:
        message["tool_call_id"] = turn.tool_call_id
    return message


def _openai_tool(tool: OfferedTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _openai_calls(stated: Any) -> tuple[ModelToolCall, ...]:
    found: list[ModelToolCall] = []
    for item in cast("list[Any]", stated) if isinstance(stated, list) else []:
        function = _member(item, "function")
        name, arguments = _member(function, "name"), _member(function, "arguments")
        if isinstance(name, str):
            text = arguments if isinstance(arguments, str) else canonical_json(arguments).decode()
            found.append(ModelToolCall(str(_member(item, "id")), name, text))
    return tuple(found)


def _anthropic_messages(turns: tuple[PromptTurn, ...]) -> list[dict[str, Any]]:
    """Results of tools are messages of the user's, and what answers one message stands in one."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "tool":
            result = {"type": "tool_result", "tool_use_id": turn.tool_call_id, "content": turn.text}
            before = messages[-1]["content"] if messages and messages[-1]["role"] == "user" else None
            if isinstance(before, list):
                cast("list[Any]", before).append(result)
            else:
                messages.append({"role": "user", "content": [result]})
        elif turn.tool_calls:
            said = [{"type": "text", "text": turn.text}] if turn.text else []
            uses = [
                {"type": "tool_use", "id": call.id, "name": call.name, "input": _object_of(call.arguments)}
                for call in turn.tool_calls
            ]
            messages.append({"role": "assistant", "content": [*said, *uses]})
        else:
            messages.append({"role": turn.role, "content": turn.text})
    return messages


def _object_of(text: str) -> Any:
    """Arguments as an object, which is the only form in which they may be repeated to the model."""
    try:
        found = parse_json(text, field="arguments")
    except InvalidInput:
        return {}
    return cast("Any", found) if isinstance(found, dict) else {}


def _below(endpoint: Url, resource: str) -> Url:
    """Add the usual prefix to a bare host; an endpoint with a path keeps its own."""
    return endpoint.extended(f"v1/{resource}" if endpoint.path == "/" else resource)


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _first(value: Any) -> Any:
    return cast("list[Any]", value)[0] if isinstance(value, list) and value else None


def _count(usage: Any, name: str) -> int:
    found = _member(usage, name)
    return found if isinstance(found, int) and found > 0 else 0


def _text_of(content: Any) -> str:
    """Return the text of a message, which is one string or a list of parts."""
    if isinstance(content, list):
        parts = [_member(part, "text") for part in cast("list[Any]", content)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
