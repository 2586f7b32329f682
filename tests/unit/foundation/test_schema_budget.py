"""JSON Schema checks of hostile schemas and values: bounded in work, because the validator holds the interpreter.

The times are of this process's own processor and a hundred times what is needed; without the bounds it is minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import process_time
from typing import Any

import pytest

from twinraven.foundation.errors import InvalidInput, InvalidSchema
from twinraven.foundation.json_schema import compile_schema


def nested(depth: int, width: int) -> Any:
    return 1 if depth == 0 else [nested(depth - 1, width) for _ in range(width)]


def branches(keyword: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(7):
        schema = {keyword: [{"items": schema}, {"items": schema}, {"items": schema}]}
    return schema


def recursive(keyword: str) -> dict[str, Any]:
    again = {"type": "array", "items": {"$ref": "#/$defs/node"}}
    return {"$ref": "#/$defs/node", "$defs": {"node": {keyword: [again, again, {"type": "string"}]}}}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize("make", [branches, recursive])
def test_explaining_branches_is_bounded(make: Callable[[str], dict[str, Any]], keyword: str) -> None:
    """A list of lists that fits no branch is refused without an error for each branch of each element."""
    schema = compile_schema(make(keyword))
    before = process_time()
    with pytest.raises(InvalidInput, match="where was not searched"):
        schema.check(nested(7, 3))
    assert process_time() - before < 5


def test_a_wrong_element_of_a_long_list_is_still_named() -> None:
    """The bound is for branches: where a schema has none, or few, the error names the place in a large value too."""
    rows: list[Any] = [{"id": number, "note": None} for number in range(20_000)]
    rows[19_000]["id"] = "x"
    plain = {"items": {"properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}}}}
    with pytest.raises(InvalidInput, match=r"params\[19000\]\.id"):
        compile_schema(plain).check(rows)
    note = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    rows[900]["note"] = 7
    with pytest.raises(InvalidInput, match=r"params\[900\]\.note"):
        compile_schema({"items": {"properties": {"note": note}}}).check(rows[:1000])


def test_unevaluated_properties_in_each_other_are_refused() -> None:
    """Each level goes through all below it again, so that levels double the work; such a schema is not compiled."""
    schema: dict[str, Any] = {"unevaluatedProperties": False}
    for level in range(20):
        schema = {"unevaluatedProperties": False, "allOf": [schema], "properties": {f"p{level}": True}}
    with pytest.raises(InvalidSchema, match="checks"):
        compile_schema(schema)


def test_unevaluated_properties_bound_the_value() -> None:
    """Many alternatives times many members are refused with the reason; an ordinary value is checked."""
    parts = [{"properties": {f"p{number}": {"type": "integer"}}} for number in range(1000)]
    schema = compile_schema({"unevaluatedProperties": False, "anyOf": parts})
    schema.check({f"p{number}": 1 for number in range(1000)})
    with pytest.raises(InvalidInput, match="more than can be checked with uniqueItems"):
        schema.check({f"p{number}": 1 for number in range(50_000)})


def test_unique_items_at_every_level_bound_the_value() -> None:
    """A recursive uniqueItems compares each element once for each level above it; a long list in one level is fine."""
    schema = compile_schema({"uniqueItems": True, "items": {"$ref": "#"}})
    schema.check(list(range(100_000)))
    value: Any = list(range(100_000))
    for _ in range(150):
        value = [value, 0]
    with pytest.raises(InvalidInput, match="in 152 levels"):
        schema.check(value)


NAMES = [f"name{number}" for number in range(5_000)]
WORDY: dict[str, tuple[dict[str, Any], Any]] = {
    "required": ({"type": "object", "required": NAMES}, {}),
    "dependentRequired": ({"dependentRequired": {"name0": NAMES}}, {"name0": 1}),
    "enum": ({"enum": [f"{name} {number}" for name in NAMES for number in range(4)]}, "x"),
    "const": ({"const": "y" * 200_000}, "x"),
}


@pytest.mark.parametrize("keyword", WORDY)
def test_a_schema_of_many_words_is_not_repeated_for_each_value(keyword: str) -> None:
    """Of many values that lack as much as a schema can name, the first is told; a short schema lists several."""
    rule, wrong = WORDY[keyword]
    schema = compile_schema({"type": "array", "items": rule})
    before = process_time()
    with pytest.raises(InvalidInput, match=r"params\[0\]"):
        schema.check([wrong] * 300)
    assert process_time() - before < 5
    with pytest.raises(InvalidInput, match="2 more"):
        compile_schema({"type": "object", "required": ["a", "b", "c"]}).check({})


def test_an_enum_of_objects_bounds_the_value() -> None:
    """Objects are compared one by one: a long list of them against a long enum is refused, words are looked up."""
    objects = compile_schema({"items": {"enum": [{"k": number} for number in range(20_000)]}})
    objects.check([{"k": 19_999}] * 10)
    before = process_time()
    with pytest.raises(InvalidInput, match="an enum of objects"):
        objects.check([{"k": 19_999}] * 3_000)
    compile_schema({"items": {"enum": NAMES}}).check(NAMES * 10)
    assert process_time() - before < 5


def test_an_enum_in_branches_bounds_the_explanation() -> None:
    """Each branch would repeat its words for each value."""
    enum = {"enum": NAMES}
    schema = compile_schema({"items": {"anyOf": [enum, {"type": "array", "items": enum}]}})
    before = process_time()
    with pytest.raises(InvalidInput, match="where was not searched"):
        schema.check(["x"] * 300)
    assert process_time() - before < 5


PATTERNS = {
    "branches that are tried anew": (r"(a|aa)+(?!b)!$", ["a" * 18 + "?"] * 20_000),
    "a look at all that follows, from everywhere": (r"(?=[\s\S]*\d)\w!", "a" * 100_000),
    "a copy of what was found": (r"((a|aa)+)\1!", ["a" * 18 + "?"] * 20_000),
    "many positions at once": (r"(?:[^\x00]?){800}\d", "aé" * 100_000),
    "counts in counts": (r"^((a{1,10}){1,10}){1,10}b", ["a" * 900] * 1000),
    "a tail that may begin anywhere": (r"[ab]*a[ab]{20}c", "ab" * 2_000_000),
    "a pattern too long to read": ("|".join(["x"] * 10_000), "a" * 100_000),
}


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("place", ["value", "name of a member"])
def test_patterns_bound_the_text(name: str, place: str) -> None:
    """A pattern that would be matched for seconds is not begun, whether texts or names of members are to fit it."""
    pattern, texts = PATTERNS[name]
    matched: dict[str, Any] = {"pattern": pattern}
    schema: dict[str, Any] = {"properties": {"texts": {"items": matched, **matched}}}
    value: Any = texts
    if place != "value":
        schema = {"properties": {"texts": {"propertyNames": matched, "patternProperties": {pattern: True}}}}
        value = {f"{number}{text}": 1 for number, text in enumerate([texts] if isinstance(texts, str) else texts)}
    compiled = compile_schema(schema)
    before = process_time()
    with pytest.raises(InvalidInput, match="the patterns of its schema"):
        compiled.check({"texts": value})
    assert process_time() - before < 2


USUAL = {
    r"^.{1,4096}$": "x" * 4000,
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$": "01234567-89ab-cdef-0123-456789abcdef",
    r"^data:image/(png|jpeg);base64,[A-Za-z0-9+/=]+$": "data:image/png;base64," + "A" * 1_000_000,
    r"^[\w.+-]+@[\w-]+\.[\w.]+$": "ada.lovelace@example.org",
    r"^(?=.*[a-z])(?=.*\d).{8,}$": "a" * 50_000 + "1",
    r"^(?!.*secret)[\s\S]*$": "a" * 500_000,
    r"^(?!\s)(.*)(?<!\s)$": "a word",
    r"^((?!\.\.)[\w./-])+$": "src/a/file.py",
    r"^\d{4}-\d{2}-\d{2}$": "2026-11-19",
    r"[]a]{2}\x41\u{42}(?:x|y)??(?P<z>[^]\]])": "]aABxz",
}


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_meet_what_they_are_for(pattern: str) -> None:
    """Patterns as people write them are matched with a text as long as they are for, and with a thousand short ones."""
    text = USUAL[pattern]
    compile_schema({"items": {"pattern": pattern}}).check([text] if len(text) > 100 else [text] * 1000)


def test_plain_checks_of_many_values_are_bounded() -> None:
    """A thousand checks of each of a million values, or as many exact divisions, are refused; thousands are made."""
    plain = compile_schema({"items": {"allOf": [{"minLength": number} for number in range(1000)]}})
    plain.check([1] * 10_000)
    with pytest.raises(InvalidInput, match="many branches"):
        plain.check([1] * 1_000_000)
    exact = compile_schema({"items": {"multipleOf": 0.01}})
    exact.check([12.34] * 50_000)
    with pytest.raises(InvalidInput, match="multipleOf"):
        exact.check([1.5e300] * 1_000_000)


def test_what_a_schema_leaves_free_costs_nothing() -> None:
    """A member without a schema may be as large as a request, beside members with patterns and limits, at any depth."""
    row = {"type": "object", "properties": {"id": {"pattern": "^[a-z]+$"}, "count": {"minimum": 0.5}, "body": {}}}
    schema = {"$ref": "#/$defs/all", "$defs": {"all": {"properties": {"rows": {"items": row}}}}}
    compiled = compile_schema(schema)
    compiled.check({"rows": [{"id": "a", "count": 1, "body": "x" * 15_000_000}]})
    compiled.check({"rows": [{"id": "a", "count": 1, "body": [1.5] * 2_000_000}]})
    compiled.check({"rows": [{"id": "a", "count": 1, "body": None}] * 20_000})
    with pytest.raises(InvalidInput, match="many branches"):
        compiled.check({"rows": [{"id": "a", "count": 1}] * 400_000})


def test_a_schema_with_too_many_values_is_refused_unread() -> None:
    """A million numbers are no schema: they are counted and not written out first, which would take seconds."""
    before = process_time()
    with pytest.raises(InvalidSchema, match="larger than"):
        compile_schema({"enum": [1.7e300] * 1_000_000})
    with pytest.raises(InvalidSchema, match="larger than"):
        compile_schema({"enum": [1.7e300] * 1_000_000, "const": 2**70})
    assert process_time() - before < 2


def test_the_part_that_is_too_much_is_named() -> None:
    """An error says which member is too long for its pattern, and that it is longer than it may be, if it is."""
    text = {"type": "string", "pattern": "(?=[\\s\\S]*\\d)\\w!"}
    schema = {"properties": {"rows": {"items": {"properties": {"note": text, "name": {**text, "maxLength": 9}}}}}}
    compiled = compile_schema(schema)
    with pytest.raises(InvalidInput, match=r"params\.rows\[1\]\.note has 1 values in 1 levels") as unbounded:
        compiled.check({"rows": [{"note": "a"}, {"note": "a" * 100_000}]})
    assert unbounded.value.details["field"] == "params.rows[1].note"
    with pytest.raises(InvalidInput, match=r"params\.rows\[0\]\.name: this string is longer than 9 characters"):
        compiled.check({"rows": [{"name": "a" * 100_000}]})


def test_references_at_every_level_do_not_exhaust_the_stack() -> None:
    """A value as deep as any may be is walked through a schema that refers on many times at each level."""
    names = [f"d{number}" for number in range(19)]
    defs: dict[str, Any] = {one: {"$ref": f"#/$defs/{other}"} for one, other in pairwise(names)}
    defs[names[-1]] = {"items": {"$ref": "#/$defs/d0"}, "pattern": "(?=[\\s\\S]*\\d)\\w!"}
    value: Any = "a" * 100_000
    for _ in range(250):
        value = [value]
    with pytest.raises(InvalidInput, match="the patterns of its schema"):
        compile_schema({"$ref": "#/$defs/d0", "$defs": defs}).check(value)


@pytest.mark.parametrize("keyword", ["items", "anyOf"])
def test_a_reference_back_is_not_free(keyword: str) -> None:
    """What a recursive schema checks is counted at every level, through whatever keyword it refers back."""
    back: dict[str, Any] = {"$ref": "#"}
    again = back if keyword == "items" else {"anyOf": [{"type": "null"}, back]}
    schema = {"properties": {"text": {"pattern": r"(?=[\s\S]*\d)\w!"}, "rows": {"items": again}}}
    compiled = compile_schema(schema)
    compiled.check({"rows": [{"rows": [{"other": "a" * 1_000_000, "text": "a!1"}]}]} if keyword == "items" else {})
    before = process_time()
    with pytest.raises(InvalidInput, match="the patterns of its schema"):
        compiled.check({"rows": [{"rows": [{"text": "a" * 100_000}]}]})
    assert process_time() - before < 2
