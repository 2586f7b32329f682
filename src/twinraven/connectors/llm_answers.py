"""Evaluates a model's answer: extracts JSON, validates it against the schema, and computes its cost.

Models wrap JSON in prose, fences and thoughts. What is taken is the JSON itself or nothing: a repaired guess would be a
value that nobody said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from twinraven.connectors.llm_dialects import Completion
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidDefinition, InvalidInput, InvalidOutput
from twinraven.foundation.json_schema import compile_schema

MAX_ANSWER_CHARS = 1_000_000

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_WRAPPED = "value"


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """The schema an answer must fit; services want an object at the top, so anything else is put into one."""

    asked: Mapping[str, Any]
    schema: Mapping[str, Any]
    is_wrapped: bool

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> AnswerShape:
        if schema.get("type") == "object":
            return cls(schema, schema, is_wrapped=False)
        inner = {name: member for name, member in schema.items() if name not in ("$defs", "definitions", "$schema")}
        outer: dict[str, Any] = {
            "type": "object",
            "properties": {_WRAPPED: inner},
            "required": [_WRAPPED],
            "additionalProperties": False,
        }
        outer.update({name: schema[name] for name in ("$defs", "definitions") if name in schema})
        return cls(outer, schema, is_wrapped=True)

    def read(self, completion: Completion) -> Any:
        """Read the value in an answer, checked, or InvalidOutput with what is wrong with it."""
        found = completion.value if completion.value is not None else find_json(completion.text)
        try:
            compile_schema(dict(self.asked)).check(found, field=_WRAPPED)
        except InvalidInput as error:
            raise InvalidOutput(f"the model's answer does not fit the schema: {error.message}") from None
        return cast("dict[str, Any]", found)[_WRAPPED] if self.is_wrapped else found


def find_json(text: str) -> Any:
    """Find the JSON value in a model's text: all of it, the content of a fence, or the outer brackets."""
    if len(text) > MAX_ANSWER_CHARS:
        raise InvalidOutput(f"the model's answer is longer than {MAX_ANSWER_CHARS} characters")
    said = without_thoughts(text).strip()
    fenced = _FENCE.match(said)
    candidates = [fenced[1] if fenced else said]
    for opening, closing in ("{}", "[]"):
        start, end = said.find(opening), said.rfind(closing)
        if 0 <= start < end:
            candidates.append(said[start : end + 1])
    for candidate in candidates:
        try:
            return parse_json(candidate, field="answer")
        except InvalidInput:
            continue
    raise InvalidOutput("the model's answer is not JSON")


def without_thoughts(text: str) -> str:
    """Return the answer without the reasoning that some models put in front of it."""
    return _THOUGHT.sub("", text, count=1)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens, as an exact decimal."""

    input: Decimal
    output: Decimal
    currency: str

    @classmethod
    def of(cls, stated: Any) -> Price | None:
        """From a tool's `pricing` parameter: input_per_million, output_per_million, currency."""
        if stated is None:
            return None
        if not isinstance(stated, Mapping):
            raise _invalid_price("must be an object")
        found = cast("Mapping[str, Any]", stated)
        try:
            amounts = [Decimal(str(found[name])) for name in ("input_per_million", "output_per_million")]
        except (KeyError, InvalidOperation):
            raise _invalid_price("needs numbers for input_per_million and output_per_million") from None
        if not all(amount.is_finite() and amount >= 0 for amount in amounts):
            raise _invalid_price("cannot be negative or infinite")
        return cls(amounts[0], amounts[1], str(found.get("currency", "USD")))

    def amount(self, input_tokens: int, output_tokens: int) -> str:
        exact = (input_tokens * self.input + output_tokens * self.output) / 1_000_000
        return f"{exact.normalize():f}"


def _invalid_price(problem: str) -> InvalidDefinition:
    return InvalidDefinition(f"connection_params.pricing {problem}", field="connection_params.pricing")
