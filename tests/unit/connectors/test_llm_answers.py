"""What is found in a model's answer, and what it cost."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.connectors.llm_answers import MAX_ANSWER_CHARS, AnswerShape, Price, find_json
from twinraven.connectors.llm_dialects import Completion
from twinraven.foundation.errors import InvalidOutput

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_json_alone_is_found(value: Any) -> None:
    """What a model answers in JSON is that value, fenced or not."""
    text = json.dumps(value)
    assert find_json(text) == value
    assert find_json(f"```json\n{text}\n```") == value


@given(st.text(max_size=300))
def test_any_text_gives_json_or_a_refusal(text: str) -> None:
    """No text raises anything else."""
    try:
        find_json(text)
    except InvalidOutput:
        return


@pytest.mark.parametrize("text", ["", "<think>{}</think>", "{" * 100_000, "x" * (MAX_ANSWER_CHARS + 1), "Paris"])
def test_no_json_is_an_invalid_output(text: str) -> None:
    """Nothing is guessed where nothing was said."""
    with pytest.raises(InvalidOutput):
        find_json(text)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.decimals(0, 1000, places=4), st.decimals(0, 1000, places=4))
def test_money_is_exact(inputs: int, outputs: int, each_in: Decimal, each_out: Decimal) -> None:
    """The amount is the sum to the last digit, and never written with an exponent."""
    price = Price.of({"input_per_million": str(each_in), "output_per_million": str(each_out)})
    assert price is not None
    amount = price.amount(inputs, outputs)
    assert Decimal(amount) * 1_000_000 == inputs * each_in + outputs * each_out
    assert "E" not in amount


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}),
        ({"type": "array"}, [1]),
        ({"enum": ["x", "y"]}, "x"),
        ({"type": ["object", "null"]}, None),
        ({}, {"anything": 1}),
    ],
)
def test_a_shape_gives_what_the_schema_says(schema: dict[str, Any], value: Any) -> None:
    """Whether or not it had to be wrapped for the provider, the value is the tool's own."""
    shape = AnswerShape.of(schema)
    said = {"value": value} if shape.is_wrapped else value
    assert shape.read(Completion(json.dumps(said), "end", 1, 1)) == value
    assert shape.asked["type"] == "object"
