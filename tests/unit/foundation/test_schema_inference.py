"""Schemas inferred from samples: exact for small cases, and true of every sample."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinraven.foundation.json_schema import compile_schema, infer_schema
from twinraven.foundation.schema_inference import MAX_INFERRED_DEPTH

json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)


SUGGESTED: list[tuple[list[Any], dict[str, Any]]] = [
    ([], {}),
    ([None], {"type": "null"}),
    ([True, False], {"type": "boolean"}),
    ([1, 2], {"type": "integer"}),
    ([1, 2.5], {"type": "number"}),
    ([1.0], {"type": "number"}),
    (["a", "a", "a"], {"type": "string"}),
    (["2026-01-01T00:00:00Z"], {"type": "string"}),
    ([None, "a", 1, True], {"type": ["null", "boolean", "integer", "string"]}),
    ([[]], {"type": "array"}),
    ([[1], [2.5, None]], {"type": "array", "items": {"type": ["null", "number"]}}),
    ([{}], {"type": "object"}),
    (
        [{"b": 1, "a": "x"}, {"b": 2, "c": None}],
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "null"}},
            "required": ["b"],
        },
    ),
    (
        [[{"id": 1}, {"id": 2, "tags": ["x"]}]],
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
                "required": ["id"],
            },
        },
    ),
    (
        [{"a": 1}, [2]],
        {
            "type": ["array", "object"],
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
            "items": {"type": "integer"},
        },
    ),
]


@pytest.mark.parametrize(("values", "expected"), SUGGESTED)
def test_samples_suggest_this_schema(values: list[Any], expected: dict[str, Any]) -> None:
    """Types are united, members seen in all samples are required, and nothing else is guessed."""
    assert infer_schema(values) == expected


@settings(deadline=None, max_examples=200)
@given(st.lists(json_trees, max_size=6), st.randoms(use_true_random=False))
def test_every_sample_fits_and_order_does_not_matter(values: list[Any], random: Any) -> None:
    """The schema accepts each sample, and the same samples in another order give the same schema."""
    schema = infer_schema(values)
    for value in values:
        compile_schema(schema).check(value)
    shuffled = list(values)
    random.shuffle(shuffled)
    assert infer_schema(shuffled) == schema


def test_depth_is_bounded() -> None:
    """Samples deeper than any stack give a schema that ends and still accepts them at its edge."""
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    schema: Any = infer_schema([value])
    for _ in range(MAX_INFERRED_DEPTH):
        assert schema["type"] == "array"
        schema = schema["items"]
    assert schema == {}
