"""The mapping language: references, literals and small changes, all of them total."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.flow import literal
from twinraven.flow.mapping import compile_inputs, compile_value
from twinraven.foundation.errors import InvalidDefinition

_SCOPE: dict[str, Any] = {
    "parameters": {"q": "cats", "none": None},
    "steps": [{"output": {"id": 7, "name": "a-b-c", "items": [{"id": 1}, {"id": 2}]}}],
    "item": {"id": 3},
}
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text()
    | st.sampled_from(["$.parameters.q", "$$.x", "$$$[0]", "$", "$$", "$5", "{$.parameters.q}", "$['a']"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["$literal", "$string", "$part"]), inner, max_size=2)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("mapping", "value"),
    [
        ("$.parameters.q", "cats"),
        ("$.steps[0].output.items[1].id", 2),
        ("$.steps.0.output.id", 7),
        ("$.steps[0].output.missing.deeper", None),
        ("$.item.id", 3),
        ({"ids": ["$.item.id", "$.steps[0].output.id"], "n": 5}, {"ids": [3, 7], "n": 5}),
        ("plain", "plain"),
        ("{step.x}", "{step.x}"),
        ("costs $.50", "costs $.50"),
        ("$$.parameters.q", "$.parameters.q"),
        ("$$$.x", "$$.x"),
        ("$$5", "$$5"),
        ({"$literal": {"a": "$.parameters.q"}}, {"a": "$.parameters.q"}),
        ({"$ref": "#/x"}, {"$ref": "#/x"}),
        ({"$string": "$.steps[0].output.id"}, "7"),
        ({"$string": "$.parameters.none"}, None),
        ({"$string": True}, "true"),
        ({"$integer": "12"}, 12),
        ({"$integer": 12.0}, 12),
        ({"$integer": "12.5"}, None),
        ({"$integer": True}, None),
        ({"$affix": {"of": "$.steps[0].output.id", "before": "#", "after": "!"}}, "#7!"),
        ({"$affix": {"of": "$.parameters.none", "before": "#"}}, None),
        ({"$part": {"of": "$.steps[0].output.name", "separator": "-", "index": 1}}, "b"),
        ({"$part": {"of": "$.steps[0].output.name", "separator": "-", "index": -1}}, "c"),
        ({"$part": {"of": "$.steps[0].output.name", "separator": "-", "index": 9}}, None),
        ({"$part": {"of": "$.steps[0].output.id", "separator": "-"}}, None),
        ({"$part": {"of": "$.steps[0].output.name", "separator": "-", "count": 2}}, "a-b"),
        ({"$part": {"of": "$.steps[0].output.name", "separator": "-", "index": -2, "count": 2}}, "b-c"),
        ({"$part": {"of": "$.steps[0].output.name", "separator": "-", "index": 2, "count": 2}}, None),
        ({"$part": {"of": "$.steps[0].output.name", "separator": "-", "index": -4, "count": 2}}, None),
        ({"$integer": {"$part": {"of": "a/42", "separator": "/", "index": 1}}}, 42),
    ],
)
def test_a_mapping_yields(mapping: Any, value: Any) -> None:
    """Each form of the language gives the value it stands for, and null where it does not fit."""
    assert compile_value(mapping, "here").resolve(_SCOPE) == value


@given(_JSON)
def test_literal_writes_the_mapping_of_any_value(value: Any) -> None:
    """Whatever a value looks like, `literal` maps to exactly that value and refers to nothing."""
    mapped = compile_value(literal(value), "here")
    assert mapped.resolve(_SCOPE) == value
    assert mapped.references == ()


@pytest.mark.parametrize(
    "mapping",
    [
        "$.",
        "$.a[",
        "$['open",
        {"x": ["$..y"]},
        "$." + "a" * 5000,
        "x" * 70_000,
        {"$part": {"of": "$.a", "separator": ""}},
        {"$part": {"of": "$.a", "separator": "-", "count": 0}},
        {"$part": {"of": "$.a"}},
        {"$part": "$.a"},
        {"$affix": {"before": "#"}},
        {"$affix": {"of": "x", "until": "y"}},
    ],
)
def test_a_mapping_that_cannot_be_parsed_names_its_place(mapping: Any) -> None:
    """Broken references, huge literals and malformed operators are refused where they stand."""
    with pytest.raises(InvalidDefinition, match=r"^steps\[3\]"):
        compile_value(mapping, "steps[3].input_mapping.x")


def test_an_input_is_left_out_when_the_caller_left_it_out() -> None:
    """A bare parameter that was not given is not sent as null; one that was given as null is."""
    inputs = compile_inputs({"a": "$.parameters.absent", "b": "$.parameters.none", "c": "$.parameters.q.deep"}, "here")
    assert inputs.resolve(_SCOPE) == {"b": None, "c": None}
