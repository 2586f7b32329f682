"""JSON Schema: what is checked and said, which defaults are filled in, and that no schema can do harm."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twinraven
from twinraven.foundation.errors import InvalidInput, InvalidSchema
from twinraven.foundation.json_schema import MAX_REPORTED_ERRORS, compile_schema

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "pattern": "^#W[0-9]+$"},
        "count": {"type": "integer", "minimum": 1, "default": 1},
        "when": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["order_id"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}},
}

FILLED: list[tuple[Any, Any, Any]] = [
    (ORDER, {"order_id": "#W1"}, {"order_id": "#W1", "count": 1}),
    ({"properties": {"a": {"default": None}}}, {}, {"a": None}),
    ({"properties": {"a": {"default": 1}}}, {"a": None}, {"a": None}),
    ({"properties": {"o": {"properties": {"n": {"default": 5}}}}}, {}, {}),
    ({"properties": {"o": {"properties": {"n": {"default": 5}}}}}, {"o": {}}, {"o": {"n": 5}}),
    ({"properties": {"o": {"default": {}, "properties": {"n": {"default": 5}}}}}, {}, {"o": {"n": 5}}),
    ({"items": {"properties": {"n": {"default": 5}}}}, [{}, {"n": 1}, 3], [{"n": 5}, {"n": 1}, 3]),
    ({"prefixItems": [{}, {"properties": {"n": {"default": 5}}}]}, [{}, {}, {}], [{}, {"n": 5}, {}]),
    (
        {"allOf": [{"properties": {"a": {"default": 1}}}, {"properties": {"b": {"default": 2}}}]},
        {},
        {"a": 1, "b": 2},
    ),
    (
        {
            "$ref": "#/$defs/x",
            "$defs": {
                "x": {"properties": {"a": {"$ref": "#/$defs/y"}, "b": {"default": 2}}},
                "y": {"properties": {"c": {"default": 3}}},
            },
        },
        {"a": {}},
        {"a": {"c": 3}, "b": 2},
    ),
    (
        {
            "properties": {"a": {"$ref": "#/$defs/x%20y~1z"}},
            "$defs": {"x y/z": {"properties": {"b": {"default": 1}}}},
        },
        {"a": {}},
        {"a": {"b": 1}},
    ),
    (
        {
            "properties": {"a": {"$ref": "#spot"}},
            "$defs": {"x": {"$anchor": "spot", "properties": {"b": {"default": 1}}}},
        },
        {"a": {}},
        {"a": {"b": 1}},
    ),
    (
        {"properties": {"next": {"$ref": "#"}, "n": {"default": 1}}},
        {"next": {"next": {}}},
        {"next": {"next": {"n": 1}, "n": 1}, "n": 1},
    ),
    ({"properties": {"a": {"default": 1}}}, "not an object", "not an object"),
    ({"properties": {"n": {"default": 10**30}}}, {}, {"n": 10**30}),
]


def nested_lists(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def doubling(levels: int, keyword: str) -> dict[str, Any]:
    """A schema of a few lines whose references double at every level."""
    definitions: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(1, levels):
        target = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {keyword: [target, target]}
    return {"$defs": definitions, "$ref": f"#/$defs/d{levels - 1}"}


def test_a_fitting_value_passes() -> None:
    """A value that fits raises nothing."""
    compile_schema(ORDER).check({"order_id": "#W1", "lines": [{"price": 1.5}], "when": "2026-01-01T00:00:00Z"})


@pytest.mark.parametrize(
    ("value", "path", "problem", "expected"),
    [
        ({}, "params", '"order_id" is a required property', 'required ["order_id"]'),
        ({"order_id": 5}, "params.order_id", 'this integer is not of type "string"', 'type "string"'),
        ({"order_id": "W1"}, "params.order_id", 'this string does not match "^#W[0-9]+$"', 'pattern "^#W[0-9]+$"'),
        ({"order_id": "#W1", "count": 0}, "params.count", "less than the minimum of 1", "minimum 1"),
        ({"order_id": "#W1", "when": "now"}, "params.when", 'is not a "date-time"', 'format "date-time"'),
        ({"order_id": "#W1", "lines": [{"price": 1}, {}]}, "params.lines[1]", '"price" is a required', "required"),
        ({"order_id": "#W1", "a b": 1}, "params", "'a b' was unexpected", "additionalProperties false"),
        ([], "params", 'this array is not of type "object"', 'type "object"'),
    ],
)
def test_an_error_says_where_what_and_what_was_expected(value: Any, path: str, problem: str, expected: str) -> None:
    """The message names the place and the rule, and the details say the same to programs."""
    with pytest.raises(InvalidInput) as caught:
        compile_schema(ORDER).check(value)
    error = caught.value
    first = error.details["errors"][0]
    assert error.message.startswith(f"{path}: ")
    assert problem in error.message
    assert error.details["field"] == first["path"] == path
    assert problem in first["problem"]
    assert expected in first["expected"]


def test_errors_are_reported_together_up_to_a_limit() -> None:
    """A caller sees several mistakes at once, but not thousands."""
    schema = compile_schema({"items": {"type": "integer"}})
    with pytest.raises(InvalidInput, match=r"output\[0\].*\(and 1 more\)") as two:
        schema.check(["a", "b"], field="output")
    assert [error["path"] for error in two.value.details["errors"]] == ["output[0]", "output[1]"]
    with pytest.raises(InvalidInput) as many:
        schema.check(["a"] * 1_000)
    assert len(many.value.details["errors"]) == MAX_REPORTED_ERRORS


def test_errors_do_not_contain_the_value() -> None:
    """Arguments may be secrets and errors are recorded, so no message or detail quotes a value."""
    schema = compile_schema(
        {
            "properties": {
                "a": {"type": "integer"},
                "b": {"enum": ["x"]},
                "c": {"pattern": "^z"},
                "d": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "e": {"const": 1},
            }
        }
    )
    with pytest.raises(InvalidInput) as caught:
        schema.check(dict.fromkeys("abcde", "hunter2"))
    assert len(caught.value.details["errors"]) == 5
    assert "hunter2" not in str(caught.value.as_json())


def test_alternatives_are_listed_when_none_fits() -> None:
    """Where the rule is one of several schemas, the message shows them."""
    with pytest.raises(InvalidInput, match=r'expected anyOf \[\{"type":"integer"\},\{"type":"null"\}\]'):
        compile_schema({"anyOf": [{"type": "integer"}, {"type": "null"}]}).check("x")


def test_odd_names_are_quoted_in_paths() -> None:
    """A path with unusual keys can be read without doubt."""
    with pytest.raises(InvalidInput) as caught:
        compile_schema({"additionalProperties": {"items": {"type": "null"}}}).check({'a "b"': [1]})
    assert caught.value.details["field"] == 'params["a \\"b\\""][0]'


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"properties": {"a": {"type": "strin"}}}, r'schema\.properties\.a\.type: "strin" is none of'),
        ({"properties": {"a": {"pattern": "("}}}, r"schema\.properties\.a\.pattern"),
        ({"required": "a"}, r"schema\.required"),
        ({"properties": {"a": {"$ref": "#/$defs/no"}}}, r'schema\.properties\.a\["\$ref"\].*points at nothing'),
        ({"$ref": "http://example.test/x.json"}, r'schema\["\$ref"\].*points outside the schema'),
        ({"$defs": {"a": {"$ref": "https://example.test/x"}}}, "points outside the schema"),
        ({"items": {"$ref": "file:///etc/passwd"}}, r'schema\.items\["\$ref"\].*points outside the schema'),
        ({"$schema": "http://example.test/dialect"}, "Unknown meta-schema"),
        ([], "schema is an array; it must be an object"),
        ("true", "schema is a string; it must be an object"),
        (object(), "not a JSON value"),
        ({1: 2}, "JSON keys are strings"),
    ],
)
def test_invalid_schemas_are_refused_by_place(schema: Any, where: str) -> None:
    """A broken schema, or one that points outside itself, is refused with the place that is wrong."""
    with pytest.raises(InvalidSchema, match=where):
        compile_schema(schema)


def test_booleans_are_schemas() -> None:
    """True allows everything and false nothing."""
    compile_schema(True).check(object.__doc__)
    with pytest.raises(InvalidInput):
        compile_schema(False).check(1)


def test_older_drafts_are_judged_by_their_own_rules() -> None:
    """A schema that names draft 7 may list the items of an array, as draft 7 does."""
    schema = compile_schema(
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}, {"default": 1}]}
    )
    schema.check(["a", 1])
    with pytest.raises(InvalidInput):
        schema.check([1])


def test_equal_schemas_are_compiled_once() -> None:
    """The order of keys makes no second schema, and changing the original afterwards changes nothing."""
    original = {"type": "object", "required": ["a"]}
    compiled = compile_schema(original)
    assert compile_schema({"required": ["a"], "type": "object"}) is compiled
    original["required"] = []
    with pytest.raises(InvalidInput):
        compiled.check({})


@pytest.mark.parametrize(("schema", "value", "expected"), FILLED)
def test_defaults_are_filled_in(schema: Any, value: Any, expected: Any) -> None:
    """Absent members get their defaults, at every depth and through references; present ones are kept, null too."""
    before = copy.deepcopy(value)
    filled = compile_schema(schema).fill(value)
    assert filled == expected
    assert value == before
    assert (filled is value) is (expected == before)


def test_a_filled_default_is_a_copy() -> None:
    """Changing what was filled in changes neither the schema nor the next filling."""
    schema = compile_schema({"properties": {"tags": {"default": []}}})
    schema.fill({})["tags"].append("x")
    assert schema.fill({}) == {"tags": []}


def test_filling_copies_only_what_it_changes() -> None:
    """Parts without absent defaults are the very objects that came in."""
    value: dict[str, Any] = {"big": {"n": 1}, "small": {}}
    member = {"properties": {"n": {"default": 0}}}
    filled = compile_schema({"properties": {"big": member, "small": dict(member), "more": {"default": 1}}}).fill(value)
    assert filled["big"] is value["big"]
    assert filled["small"] == {"n": 0}
    assert value["small"] == {}


def test_a_default_that_contains_itself_is_filled_once() -> None:
    """A recursive schema with a default for its own recursion ends."""
    schema = compile_schema({"properties": {"child": {"$ref": "#", "default": {}}, "n": {"default": 1}}})
    assert schema.fill({}) == {"child": {"n": 1}, "n": 1}


def test_defaults_that_multiply_are_refused() -> None:
    """Thirty lines of defaults inside defaults do not become a billion values."""
    definitions: dict[str, Any] = {"d0": {}}
    for level in range(1, 30):
        member: dict[str, Any] = {"$ref": f"#/$defs/d{level - 1}", "default": {}}
        definitions[f"d{level}"] = {"properties": {"a": member, "b": dict(member)}}
    with pytest.raises(InvalidInput, match="defaults contain each other"):
        compile_schema({"$defs": definitions, "$ref": "#/$defs/d29"}).fill({})


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_double_are_refused(keyword: str) -> None:
    """A small schema that means a billion checks is refused before it is compiled."""
    with pytest.raises(InvalidSchema, match="more than 100000 checks"):
        compile_schema(doubling(40, keyword))
    compile_schema(doubling(8, keyword))


@pytest.mark.parametrize("backwards", [False, True])
def test_long_chains_of_references_are_refused(backwards: bool) -> None:
    """A chain of references too long to follow is refused, in whatever order it is written."""
    length = 3_000
    names = [f"d{index:06}" for index in range(length)]
    names = names[::-1] if backwards else names
    definitions: dict[str, Any] = {name: {"$ref": f"#/$defs/{names[at + 1]}"} for at, name in enumerate(names[:-1])}
    definitions[names[-1]] = {"type": "integer"}
    with pytest.raises(InvalidSchema, match="deeper than 200 levels"):
        compile_schema({"$defs": definitions, "$ref": f"#/$defs/{names[0]}"})


def test_deep_and_large_schemas_are_refused() -> None:
    """Nesting and size of a schema have limits."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    with pytest.raises(InvalidSchema, match="nested deeper"):
        compile_schema(deep)
    with pytest.raises(InvalidSchema, match="larger than"):
        compile_schema({"description": "x" * 1_000_001})


def test_recursive_schemas_end_on_any_value() -> None:
    """A recursive schema accepts what fits it, and refuses a value deeper than any stack instead of crashing."""
    schema = compile_schema({"type": "array", "items": {"$ref": "#"}, "properties": {"a": {"default": 1}}})
    schema.check(nested_lists(200))
    assert schema.fill(nested_lists(200)) == nested_lists(200)
    with pytest.raises(InvalidInput, match="params: value is nested deeper"):
        schema.check(nested_lists(100_000))
    with pytest.raises(InvalidInput, match="nested deeper"):
        schema.fill(nested_lists(100_000))
    compile_schema({"$ref": "#"}).check(1)


def test_explaining_a_recursive_mismatch_does_not_hang() -> None:
    """Where finding the fault would follow exponentially many branches, the error says only that there is one."""
    branches = [{"properties": {"a": {"$ref": "#"}}, "required": [name]} for name in ("x", "y", "z")]
    schema = compile_schema({"anyOf": [*branches, {"type": "null"}]})
    value: Any = 1
    for _ in range(60):
        value = {"a": value}
    began = time.process_time()
    with pytest.raises(InvalidInput, match="params does not fit its schema"):
        schema.check(value)
    with pytest.raises(InvalidInput, match="anyOf"):
        schema.check({"a": 1})
    assert time.process_time() - began < 2


def test_a_million_mistakes_are_reported_at_once() -> None:
    """A large wrong value costs no more than looking at it."""
    began = time.process_time()
    with pytest.raises(InvalidInput, match=r"params\[0\]"):
        compile_schema({"items": {"type": "integer"}}).check(["x"] * 500_000)
    assert time.process_time() - began < 3


def test_hostile_patterns_end() -> None:
    """A pattern made to backtrack for ever stops and counts as a mismatch."""
    began = time.process_time()
    for pattern in ("^(a+)+$", "^((a|aa)+)(?!b)\\1c$"):
        with pytest.raises(InvalidInput):
            compile_schema({"pattern": pattern}).check("a" * 60 + "!")
    assert time.process_time() - began < 3


@pytest.mark.parametrize("digits", [30, 300, 5_000])
def test_huge_integers_obey_bounds(digits: int) -> None:
    """No integer is so large that it slips past a maximum."""
    with pytest.raises(InvalidInput):
        compile_schema({"maximum": 5}).check({"n": 10**digits}["n"])


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": {1}}, b"x"])
def test_what_is_not_json_is_refused(value: Any) -> None:
    """Even a schema that allows everything allows only JSON."""
    with pytest.raises(InvalidInput, match="output"):
        compile_schema({}).check(value, field="output")


def test_importing_does_not_load_the_validator() -> None:
    """A command that checks nothing does not pay for the validator."""
    script = "import sys, twinraven.foundation.json_schema; print('jsonschema_rs' in sys.modules)"
    source = str(Path(twinraven.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": source}, capture_output=True, check=True)
    assert done.stdout.strip() == b"False"


json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
keywords = st.sampled_from(
    [
        "properties",
        "items",
        "allOf",
        "anyOf",
        "not",
        "$ref",
        "$defs",
        "default",
        "type",
        "required",
        "prefixItems",
        "enum",
    ]
)
schema_like = st.recursive(
    st.booleans() | st.sampled_from(["#", "#/$defs/a", "#/$defs/a/items", "string", "object"]) | st.integers(0, 3),
    lambda inner: st.dictionaries(keywords | st.just("a"), inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=15,
)


@settings(deadline=None, max_examples=400)
@given(schema_like, json_trees)
def test_any_schema_compiles_or_is_refused(schema: Any, value: Any) -> None:
    """Nothing that looks like a schema causes anything but the two named errors."""
    try:
        compiled = compile_schema(schema)
    except InvalidSchema:
        return
    with suppress(InvalidInput):
        compiled.check(compiled.fill(value))
