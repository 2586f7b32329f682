"""The two ways in which models are asked over HTTP: OpenAI's chat completions, which most servers imitate, and
Anthropic's messages.

Each dialect turns a prompt into a request body and an answer into a `Completion`. They differ in where the system
prompt stands, in how an answer is bound to a schema (a response format here, a tool that must be called there), in what
they call a stop, and in how they count tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from twinraven.connectors.http_model import Headers
from twinraven.connectors.urls import Url
from twinraven.foundation.errors import InvalidOutput

Role = Literal["user", "assistant"]
Stop = Literal["end", "length", "refusal"]

DEFAULT_MAX_TOKENS = 4_096

_ANSWER = "answer"
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which model, and how it is to speak."""

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further members of the request body, for what only some servers know."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked; with a schema, the answer must be JSON that fits it."""

    system: str | None
    turns: tuple[tuple[Role, str], ...]
    schema: Mapping[str, Any] | None = None

    def continued(self, answer: str, objection: str) -> Prompt:
        """The same, after an answer that did not serve."""
        turns: tuple[tuple[Role, str], ...] = (*self.turns, ("assistant", answer), ("user", objection))
        return Prompt(self.system, turns, self.schema)


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered; `value` is set where the server already took the answer apart."""

    text: str
    stop: Stop
    input_tokens: int
    output_tokens: int
    value: Any = None


class Dialect(Protocol):
    """One way of asking."""

    @property
    def auth(self) -> Mapping[str, str]: ...

    @property
    def headers(self) -> Headers: ...

    def address(self, endpoint: Url, resource: Literal["ask", "models"]) -> Url: ...

    def body(self, prompt: Prompt, choice: ModelChoice, endpoint: Url) -> dict[str, Any]: ...

    def read(self, answer: Any) -> Completion: ...


class OpenAiDialect:
    """`POST /v1/chat/completions`."""

    auth: Mapping[str, str] = {"type": "bearer"}
    headers: Headers = ()

    def address(self, endpoint: Url, resource: Literal["ask", "models"]) -> Url:
        return _below(endpoint, "chat/completions" if resource == "ask" else "models")

    def body(self, prompt: Prompt, choice: ModelChoice, endpoint: Url) -> dict[str, Any]:
        system = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
        body: dict[str, Any] = {
            "model": choice.model,
            "messages": [*system, *({"role": role, "content": text} for role, text in prompt.turns)],
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
        return {**body, **choice.options}

    def read(self, answer: Any) -> Completion:
        choice = _first(_member(answer, "choices"))
        message = _member(choice, "message")
        usage = _member(answer, "usage")
        refusal = _member(message, "refusal")
        stops: dict[Any, Stop] = {"length": "length", "content_filter": "refusal"}
        stop = "refusal" if refusal else stops.get(_member(choice, "finish_reason"), "end")
        if message is None:
            raise InvalidOutput("the model's answer has no message in it")
        text = refusal if isinstance(refusal, str) and refusal else _text_of(_member(message, "content"))
        return Completion(text, stop, _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))


class AnthropicDialect:
    """`POST /v1/messages`."""

    auth: Mapping[str, str] = {"type": "header", "name": "x-api-key"}
    headers: Headers = (("anthropic-version", _ANTHROPIC_VERSION),)

    def address(self, endpoint: Url, resource: Literal["ask", "models"]) -> Url:
        return _below(endpoint, "messages" if resource == "ask" else "models")

    def body(self, prompt: Prompt, choice: ModelChoice, endpoint: Url) -> dict[str, Any]:
        del endpoint
        body: dict[str, Any] = {
            "model": choice.model,
            "max_tokens": choice.max_tokens or DEFAULT_MAX_TOKENS,
            "messages": [{"role": role, "content": text} for role, text in prompt.turns],
        }
        if prompt.system is not None:
            body["system"] = prompt.system
        if choice.temperature is not None:
            body["temperature"] = choice.temperature
        if prompt.schema is not None:
            body["tools"] = [{"name": _ANSWER, "description": "Give the answer.", "input_schema": prompt.schema}]
            body["tool_choice"] = {"type": "tool", "name": _ANSWER}
        return {**body, **choice.options}

    def read(self, answer: Any) -> Completion:
        blocks = _member(answer, "content")
        if not isinstance(blocks, list):
            raise InvalidOutput("the model's answer has no content in it")
        items = cast("list[Any]", blocks)
        usage = _member(answer, "usage")
        inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        stops: dict[Any, Stop] = {"max_tokens": "length", "refusal": "refusal"}
        return Completion(
            text=_text_of(items),
            stop=stops.get(_member(answer, "stop_reason"), "end"),
            input_tokens=sum(_count(usage, name) for name in inputs),
            output_tokens=_count(usage, "output_tokens"),
            value=next((_member(item, "input") for item in items if _member(item, "type") == "tool_use"), None),
        )


DIALECTS: Mapping[str, Dialect] = {"openai": OpenAiDialect(), "anthropic": AnthropicDialect()}


def dialect_of(stated: Any, endpoint: Url) -> Dialect | None:
    """The dialect a tool names, or else the one its endpoint is known for."""
    if stated is None:
        stated = "anthropic" if endpoint.origin.host.endswith("anthropic.com") else "openai"
    return DIALECTS.get(stated) if isinstance(stated, str) else None


def _below(endpoint: Url, resource: str) -> Url:
    """A bare host is given the usual prefix; an endpoint with a path has its own."""
    return endpoint.extended(f"v1/{resource}" if endpoint.path == "/" else resource)


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _first(value: Any) -> Any:
    return cast("list[Any]", value)[0] if isinstance(value, list) and value else None


def _count(usage: Any, name: str) -> int:
    found = _member(usage, name)
    return found if isinstance(found, int) and found > 0 else 0


def _text_of(content: Any) -> str:
    """The text of a message, which is one string or a list of parts."""
    if isinstance(content, list):
        parts = [_member(part, "text") for part in cast("list[Any]", content)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
