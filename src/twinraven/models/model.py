"""Models questions to a language model and its answers, as they are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from twinraven.connectors import Completion, ModelToolCall, OfferedTool, Prompt, PromptTurn
from twinraven.foundation.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A question to a model: messages, and the form of the answer.

    With `schema` the answer is JSON that fits it, bound by the provider where it can; with `tools` the model may ask
    for tools to be called instead of answering.
    """

    turns: tuple[PromptTurn, ...]
    system: str | None = None
    schema: Mapping[str, Any] | None = None
    tools: tuple[OfferedTool, ...] = ()

    def __post_init__(self) -> None:
        if not self.turns:
            raise InvalidInput("a question has at least one message", field="messages")

    @classmethod
    def of(cls, text: str, *, system: str | None = None, schema: Mapping[str, Any] | None = None) -> ModelQuestion:
        """Return one message of a user's."""
        return cls((PromptTurn("user", text),), system, schema)

    def continued(self, answer: str, objection: str) -> ModelQuestion:
        """Return the same question after an answer that did not serve."""
        turns = (*self.turns, PromptTurn("assistant", answer), PromptTurn("user", objection))
        return ModelQuestion(turns, self.system, self.schema, self.tools)

    @property
    def prompt(self) -> Prompt:
        return Prompt(self.system, self.turns, self.schema, self.tools)

    def as_json(self) -> dict[str, Any]:
        stated: dict[str, Any] = {"messages": [_turn_json(turn) for turn in self.turns]}
        if self.system is not None:
            stated["system"] = self.system
        if self.schema is not None:
            stated["schema"] = dict(self.schema)
        if self.tools:
            stated["tools"] = [
                {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
                for tool in self.tools
            ]
        return stated

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ModelQuestion:
        """Read what `as_json` wrote; its form was checked against the tool's input schema."""
        turns = tuple(_turn(message) for message in cast("list[dict[str, Any]]", body["messages"]))
        tools = tuple(
            OfferedTool(tool["name"], tool.get("description", ""), tool.get("parameters", {"type": "object"}))
            for tool in cast("list[dict[str, Any]]", body.get("tools", []))
        )
        return cls(turns, body.get("system"), body.get("schema"), tools)


def _turn(message: Mapping[str, Any]) -> PromptTurn:
    calls = tuple(
        ModelToolCall(call["id"], call["name"], call["arguments"])
        for call in cast("list[dict[str, Any]]", message.get("tool_calls", []))
    )
    return PromptTurn(message["role"], message.get("content", ""), calls, message.get("tool_call_id"))


def _turn_json(turn: PromptTurn) -> dict[str, Any]:
    stated: dict[str, Any] = {"role": turn.role, "content": turn.text}
    if turn.tool_calls:
        stated["tool_calls"] = [_call_json(call) for call in turn.tool_calls]
    if turn.tool_call_id is not None:
        stated["tool_call_id"] = turn.tool_call_id
    return stated


def _call_json(call: ModelToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer, with its token usage."""

    text: str
    stop: str
    """`end`, `tools` where it wants tools called, `length` where the answer was cut off."""
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    value: Any = None
    """The answer's JSON, where the provider had taken it apart already, or where `ask_json` has found it fit."""
    tool_calls: tuple[ModelToolCall, ...] = ()
    currency: str | None = None
    amount: str | None = None

    @classmethod
    def of(cls, said: Completion, model: str, *, currency: str | None, amount: str | None) -> ModelAnswer:
        return cls(
            text=said.text,
            stop=said.stop,
            model=model,
            input_tokens=said.input_tokens,
            output_tokens=said.output_tokens,
            value=said.value,
            tool_calls=said.tool_calls,
            currency=currency,
            amount=amount,
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "text": self.text,
            "value": self.value,
            "stop": self.stop,
            "tool_calls": [_call_json(call) for call in self.tool_calls],
            "usage": {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens},
            "cost": None if self.amount is None else {"currency": self.currency, "amount": self.amount},
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ModelAnswer:
        usage = cast("dict[str, Any]", body.get("usage") or {})
        cost = cast("dict[str, Any]", body.get("cost") or {})
        return cls(
            text=str(body.get("text") or ""),
            stop=str(body.get("stop") or "end"),
            model=str(body.get("model") or ""),
            input_tokens=int(usage.get("input_tokens") or 0),
            output_tokens=int(usage.get("output_tokens") or 0),
            value=body.get("value"),
            tool_calls=tuple(
                ModelToolCall(call["id"], call["name"], call["arguments"])
                for call in cast("list[dict[str, Any]]", body.get("tool_calls") or [])
            ),
            currency=cost.get("currency"),
            amount=cost.get("amount"),
        )
