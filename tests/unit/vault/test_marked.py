"""Fields a schema marks as secret are replaced wherever the schema describes them."""

from __future__ import annotations

from typing import Any

import pytest

from twinraven.vault.marked import has_marks, marked_texts, replace_marked

_MARKS: list[dict[str, Any]] = [{"x-secret": True}, {"writeOnly": True}, {"type": "string", "format": "password"}]


def hide(schema: Any, value: Any) -> Any:
    return replace_marked(schema, value, lambda text: f"<{text.decode()}>")


@pytest.mark.parametrize("mark", _MARKS)
def test_every_mark_counts(mark: dict[str, Any]) -> None:
    """Our own mark, writeOnly and the password format each hide a field and nothing beside it."""
    schema = {"type": "object", "properties": {"pin": mark, "name": {"type": "string"}}}
    assert hide(schema, {"pin": "1234", "name": "Ada"}) == {"pin": "<1234>", "name": "Ada"}


def test_a_mark_hides_whatever_is_there() -> None:
    """Numbers, lists and objects are hidden whole, as their canonical text; null tells nothing and stays."""
    schema = {"additionalProperties": {"x-secret": True}}
    value = {"n": 12, "o": {"b": 1, "a": [2]}, "none": None}
    assert hide(schema, value) == {"n": "<12>", "o": '<{"a":[2],"b":1}>', "none": None}


@pytest.mark.parametrize(
    ("schema", "value", "hidden"),
    [
        ({"items": {"properties": {"k": {"writeOnly": True}}}}, [{"k": "v"}, {"j": 1}], [{"k": "<v>"}, {"j": 1}]),
        ({"prefixItems": [{}, {"x-secret": True}], "items": {}}, ["a", "b", "c"], ["a", "<b>", "c"]),
        ({"items": [{"x-secret": True}]}, ["a", "b"], ["<a>", "b"]),
        ({"anyOf": [{"type": "null"}, {"properties": {"k": {"x-secret": True}}}]}, {"k": "v"}, {"k": "<v>"}),
        ({"if": {}, "then": {"properties": {"k": {"x-secret": True}}}}, {"k": "v"}, {"k": "<v>"}),
        ({"dependentSchemas": {"j": {"properties": {"k": {"x-secret": True}}}}}, {"k": "v"}, {"k": "<v>"}),
        (
            {"patternProperties": {"^(a+)+$": {"x-secret": True}}, "properties": {"p": {}}},
            {"a": "v", "p": "w"},
            {"a": "<v>", "p": "w"},
        ),
        ({"$ref": "#/$defs/key", "$defs": {"key": {"format": "password"}}}, "v", "<v>"),
        (
            {"properties": {"a/b": {"$ref": "#/$defs/x~1y/0"}}, "$defs": {"x/y": [{"x-secret": True}]}},
            {"a/b": "v"},
            {"a/b": "<v>"},
        ),
    ],
)
def test_marks_are_found_wherever_schemas_put_them(schema: Any, value: Any, hidden: Any) -> None:
    """Arrays, alternatives, conditions, patterns and references lead to the same fields as in validation."""
    assert has_marks(schema)
    assert hide(schema, value) == hidden


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"$ref": "#/nowhere"},
        {"$ref": "https://elsewhere.example/schema"},
        {"properties": 3, "items": "x", "anyOf": {}},
        {"writeOnly": "yes"},
    ],
)
def test_what_marks_nothing_hides_nothing(schema: Any) -> None:
    """A schema without marks, or one that is broken, leaves the value as it is."""
    value = {"a": [1, {"b": None}], "c": "d"}
    assert not has_marks(schema)
    assert hide(schema, value) == value


def test_schemas_that_refer_to_themselves_end() -> None:
    """A recursive schema hides at every depth and does not run for ever."""
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"properties": {"key": {"x-secret": True}, "next": {"$ref": "#/$defs/node"}}}},
    }
    loop = {"$ref": "#", "allOf": [{"$ref": "#"}]}
    assert hide(schema, {"key": "1", "next": {"key": "2"}}) == {"key": "<1>", "next": {"key": "<2>"}}
    assert hide(loop, {"a": 1}) == {"a": 1}


def test_the_texts_of_marked_fields_can_be_listed() -> None:
    """So that they can be looked for elsewhere, also the parts of a marked whole."""
    schema = {"properties": {"a": {"x-secret": True}, "b": {"items": {"writeOnly": True}}}}
    assert marked_texts(schema, {"a": "one", "b": ["two", 3], "c": "four"}) == ["one", "two", "3"]
    assert marked_texts({"x-secret": True}, {"user": "ada", "keys": ["k"]}) == [
        '{"keys":["k"],"user":"ada"}',
        "ada",
        "k",
    ]
