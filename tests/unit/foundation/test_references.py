"""References: what each form means, that nothing else parses, and that nothing escapes."""

from __future__ import annotations

import time
import timeit
from collections import ChainMap
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidExpression
from twinraven.foundation.references import (
    MAX_REFERENCE_CHARS,
    MAX_SEGMENTS,
    MAX_TEMPLATE_CHARS,
    Reference,
    is_reference,
    parse_reference,
    parse_template,
    resolve_template,
)

SCOPE: dict[str, Any] = {
    "parameters": {"q": "ravens", "limit": 3, "a b": {"x": 1}, "none": None, "007": "bond", "ключ": "да"},
    "steps": [{"output": {"items": [{"id": "a1"}, {"id": "a2"}]}}, {"output": None}],
    "internal_wiring": {"0": {"url": "https://example.test"}},
    "item": {"id": 7},
    "step": {"searchResults": [{"title": "one"}], "name": "Ada", "price": 12.0},
}

MEANINGS: list[tuple[str, Any]] = [
    ("$.parameters.q", "ravens"),
    ("$.parameters.limit", 3),
    ("$.parameters.none", None),
    ("$.parameters.ключ", "да"),
    ("$.parameters.007", "bond"),
    ("$.steps[0].output.items[0].id", "a1"),
    ("$.steps.0.output.items.1.id", "a2"),
    ("$.internal_wiring.0.url", "https://example.test"),
    ("$.internal_wiring[0].url", "https://example.test"),
    ("$.item", {"id": 7}),
    ("$.item.id", 7),
    ("$['parameters']['a b'][\"x\"]", 1),
    ("$['item'].id", 7),
    ("{step.searchResults}", [{"title": "one"}]),
    ("{step.searchResults[0].title}", "one"),
    ("{step['name']}", "Ada"),
    ("{$.item.id}", 7),
]

MISSING = [
    "$.nothing",
    "$.parameters.q.deeper",
    "$.parameters.q[0]",
    "$.steps[2]",
    "$.steps[999999999].output",
    "$.steps.output",
    "$.steps[1].output.items",
    "$.parameters.none.x",
    "$.steps['0']",
    "{step.unknown}",
]

MALFORMED = [
    ("", 0),
    ("parameters.q", 0),
    ("$", 1),
    ("$5", 1),
    ("$parameters", 1),
    ("$.", 2),
    ("$..a", 2),
    ("$.a.", 4),
    ("$.a b", 3),
    ("$.a\n", 3),
    (" $.a", 0),
    ("$.a[", 4),
    ("$.a[]", 4),
    ("$.a[-1]", 4),
    ("$.a[*]", 4),
    ("$.a[0", 5),
    ("$.a[1234567890]", 4),
    ("$.a['b", 4),
    ("$.a['b'", 7),
    ("$.a['\\x41']", 6),
    ("$.a()", 3),
    ("$.a}", 3),
    ("{}", 1),
    ("{step}", 5),
    ("{step.}", 6),
    ("{step.a", 7),
    ("{step.a}}", 8),
    ("{other.a}", 1),
]

ESCAPES = [
    "$.__class__",
    "$.object.__class__.__mro__",
    "$.object.secret",
    "$['__init__']['__globals__']",
    "$.parameters.__class__.__base__.__subclasses__",
    "$.parameters.keys",
    "$.steps.__len__",
    "$.steps.append",
    "$.parameters.q.__class__",
    "$.function.__globals__",
    "{step.__class__}",
]


class Holder:
    secret = "attribute"


hostile_texts = st.text(st.sampled_from("$.[]{}'\"\\ ab0159_-step\n\u00e9\ud800"), max_size=60)


@pytest.mark.parametrize(("text", "expected"), MEANINGS)
def test_each_form_finds_its_value(text: str, expected: Any) -> None:
    """Every form of the grammar points where it says, in any kind of mapping."""
    assert is_reference(text)
    for scope in (SCOPE, ChainMap({}, SCOPE), MappingProxyType(SCOPE)):
        assert parse_reference(text).resolve(scope) == expected


@pytest.mark.parametrize("text", MISSING)
def test_what_is_missing_is_null(text: str) -> None:
    """A path that leads nowhere gives None and never raises."""
    assert parse_reference(text).resolve(SCOPE) is None
    assert parse_reference(text).resolve({}) is None


@pytest.mark.parametrize(("text", "position"), MALFORMED)
def test_malformed_references_name_the_position(text: str, position: int) -> None:
    """What is not a reference is refused, with the place where it stops being one."""
    with pytest.raises(InvalidExpression, match=f"at position {position} of") as caught:
        parse_reference(text)
    assert caught.value.details["position"] == position


@pytest.mark.parametrize("text", ESCAPES)
def test_attributes_are_out_of_reach(text: str) -> None:
    """Names that mean something to Python are only keys, and there are no such keys."""
    scope = {**SCOPE, "object": Holder(), "function": test_attributes_are_out_of_reach}
    assert parse_reference(text).resolve(scope) is None


def test_segments_show_keys_and_indexes() -> None:
    """Segments are numbers exactly where a list could be indexed."""
    reference = parse_reference("$.steps[0].output.1.007.x['2'][\"it's \\\"\\\\\\n\"]")
    assert reference.segments == ("steps", 0, "output", 1, "007", "x", "2", "it's \"\\\n")
    assert reference == Reference(reference.segments, reference.text)
    assert parse_reference(reference.text) is parse_reference(reference.text)


@pytest.mark.parametrize("text", ["", "$", "$5.00", "plain", "{", "{}", '{"a": 1}', "{other.a}", "{{step.a}}", "a $.b"])
def test_ordinary_text_is_no_reference(text: str) -> None:
    """Prices, JSON and Handlebars are texts, and stay what they are."""
    assert not is_reference(text)
    assert resolve_template(text, SCOPE) == text


def test_text_that_begins_like_a_reference_must_be_one() -> None:
    """A misspelt reference is an error and not silently a text."""
    for text in ("$.a[", "$['a", "{step.a.}", "see {step.a[x]} there", "{$.}"):
        with pytest.raises(InvalidExpression):
            resolve_template(text, SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{step.searchResults}", [{"title": "one"}]),
        ("$.parameters.limit", 3),
        ("{step.unknown}", None),
        ("Dear {step.name}!", "Dear Ada!"),
        ("{step.name}{step.name}", "AdaAda"),
        ("{step.price} and {$.item}", '12 and {"id":7}'),
        ("all: {step.searchResults}", 'all: [{"title":"one"}]'),
        ("gone: {step.unknown}.", "gone: ."),
        ("flag {$.parameters.limit}", "flag 3"),
        ('{"q": {step.name}}', '{"q": Ada}'),
        ("{{step.name}} {{{step.name}}} {step.name}", "{{step.name}} {{{step.name}}} Ada"),
        ("{step['}']}!", "!"),
        ("costs $5 {or so}", "costs $5 {or so}"),
    ],
)
def test_templates_give_typed_values_or_text(text: str, expected: Any) -> None:
    """A template that is one reference keeps the type; otherwise values become text, and null leaves nothing."""
    assert resolve_template(text, SCOPE) == expected


def test_templates_list_their_references() -> None:
    """What a template depends on can be read off before it runs."""
    found = parse_template("{step.name} of {$.item.id} {step.name}").references
    assert [reference.text for reference in found] == ["{step.name}", "{$.item.id}", "{step.name}"]
    assert parse_template("$.item").references == (parse_reference("$.item"),)


def test_values_are_not_searched_for_references() -> None:
    """A value that looks like a reference is data; resolving is done once."""
    assert resolve_template("got {step.x}", {"step": {"x": "{step.y}", "y": "secret"}}) == "got {step.y}"


def test_size_is_bounded() -> None:
    """Length and number of steps have limits that are stated when passed."""
    assert parse_reference("$" + ".a" * MAX_SEGMENTS).segments == ("a",) * MAX_SEGMENTS
    with pytest.raises(InvalidExpression, match="more than 64 steps"):
        parse_reference("$" + ".a" * (MAX_SEGMENTS + 1))
    for text in ("$." + "a" * MAX_REFERENCE_CHARS, "$['" + "a" * MAX_REFERENCE_CHARS + "']"):
        with pytest.raises(InvalidExpression, match="longer than 1000 characters"):
            parse_reference(text)
        with pytest.raises(InvalidExpression, match="longer than 1000 characters"):
            resolve_template(f"see {{{text}}}", SCOPE)
    with pytest.raises(InvalidExpression, match="template is longer"):
        resolve_template("{" * (MAX_TEMPLATE_CHARS + 1), SCOPE)
    assert resolve_template("x" * (MAX_TEMPLATE_CHARS + 1), SCOPE).startswith("xx")


@settings(deadline=None, max_examples=400)
@given(st.text(max_size=80) | hostile_texts)
@example("$['\\")
def test_any_text_parses_or_is_refused(text: str) -> None:
    """No text makes the parser fail in any other way, and whatever parses can be resolved."""
    with suppress(InvalidExpression):
        parse_reference(text).resolve(SCOPE)
        assert is_reference(text)
    with suppress(InvalidExpression):
        resolve_template(text, SCOPE)


@settings(deadline=None, max_examples=400)
@given(st.sampled_from([text for text, _ in MEANINGS]), st.data())
def test_mutated_references_parse_or_are_refused(text: str, data: st.DataObject) -> None:
    """A valid reference with a few characters changed is a reference or an error, never a crash."""
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 3)))
        text = text[:start] + data.draw(hostile_texts) + text[end:]
    try:
        parse_reference(text).resolve(SCOPE)
        position = 0
    except InvalidExpression as error:
        position = error.details["position"]
    assert 0 <= position <= len(text)


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="'\\\n\r\t"), max_size=8), min_size=1, max_size=6))
def test_any_key_can_be_reached_quoted(keys: list[str]) -> None:
    """Whatever a key contains, its quoted form finds it."""
    value: Any = "found"
    for key in reversed(keys):
        value = {key: value}
    assert parse_reference("$" + "".join(f"['{key}']" for key in keys)).resolve(value) == "found"


@pytest.mark.parametrize(
    "text",
    ["{step.a" * 20_000, "{" * 200_000, "{step['" * 30_000, "{step.a}" * 20_000, "$" + "." * 900, "{$" * 100_000],
)
def test_hostile_templates_take_linear_time(text: str) -> None:
    """Long hostile texts are refused or resolved at once."""
    began = time.process_time()
    with suppress(InvalidExpression):
        resolve_template(text, SCOPE)
    assert time.process_time() - began < 2


def test_resolving_takes_microseconds() -> None:
    """Following six steps costs about a microsecond; ten times that would be another kind of algorithm."""
    resolve = parse_reference("$.steps[0].output.items[0].id").resolve
    best = min(timeit.repeat(lambda: resolve(SCOPE), timer=time.process_time, number=5_000, repeat=5)) / 5_000
    assert best < 10e-6
