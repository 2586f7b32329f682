"""Predicates: what they mean, that they always answer, and that nothing but the grammar parses."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidExpression
from twinraven.foundation.predicates import (
    MAX_PREDICATE_CHARS,
    MAX_PREDICATE_DEPTH,
    is_truthy,
    json_equal,
    parse_predicate,
)

SCOPE: dict[str, Any] = {
    "parameters": {"q": "ravens", "n": 1, "f": 1.5, "yes": True, "no": False, "zero": 0, "empty": "", "none": None},
    "steps": [{"output": {"items": [1, "a", None, {"k": [1]}]}}, {"output": None}],
    "item": {"id": 7, "tags": ["x", "y"]},
    "step": {"x": "done"},
}

TRUE = [
    "$.steps[1].output == null",
    "$.steps[0].output != null",
    "$.nothing == null",
    "$.parameters.n == 1",
    "$.parameters.n == 1.0",
    "$.parameters.n != true",
    "$.parameters.yes == true",
    "$.parameters.q == 'ravens'",
    '$.parameters.q == "ravens"',
    "'it\\'s' == \"it's\"",
    "$.parameters.f > 1",
    "$.parameters.f <= 1.5e0",
    "-1 < 0",
    "'a' < 'b'",
    "10000000000000000000000 > 1e21",
    "$.parameters.n == 1 && $.parameters.yes",
    "$.parameters.no or $.parameters.yes",
    "not $.parameters.no",
    "!$.parameters.no",
    "!!$.parameters.yes",
    "not not $.parameters.yes",
    "true || false && false",
    "(true || false) and !(false)",
    "not 1 == 2",
    "'rav' in $.parameters.q",
    "'n' in $.parameters",
    "null in $.steps[0].output.items",
    "$.steps[0].output.items contains 'a'",
    "$.item.tags contains 'x' and not ($.item.tags contains 'z')",
    "exists($.item.id)",
    "!exists($.item.gone)",
    "!exists($.parameters.none)",
    "length($.item.tags) == 2",
    "length($.parameters.q) >= 6",
    "length($.parameters.n) == null",
    "is_empty($.parameters.empty) && is_empty($.gone) && is_empty($.parameters.none)",
    "!is_empty($.parameters.zero)",
    "$.item",
    "$.parameters.q",
    "{step.x} == 'done'",
    "$.a==null&&$.b==null",
    "\t$.item.id\r\n== 7 ",
]

FALSE = [
    "$.steps[0].output == null",
    "$.parameters.yes == 1",
    "$.parameters.no == 0",
    "$.parameters.n == '1'",
    "$.parameters.none == false",
    "$.parameters.n < 'a'",
    "'a' > 1",
    "$.gone < 1",
    "$.gone >= 0",
    "$.parameters.yes > 0",
    "null <= null",
    "$.item < $.item",
    "$.parameters.zero",
    "$.parameters.empty",
    "$.gone",
    "$.parameters.no",
    "1 in $.gone",
    "1 in '1'",
    "true in $.steps[0].output.items",
    "$.parameters.n contains 1",
    "false or false",
    "!(true and true)",
]

MALFORMED = [
    ("", 0),
    ("   ", 3),
    ("$.a ==", 6),
    ("== 1", 0),
    ("1 2", 2),
    ("1 == 2 == 3", 7),
    ("(1", 2),
    ("1)", 1),
    ("()", 1),
    ("$.a &", 4),
    ("$.a = 1", 4),
    ("$.a + 1", 4),
    ("a", 0),
    ("_a", 0),
    ("None", 0),
    ("True", 0),
    ("$.a === 1", 6),
    ("exists", 6),
    ("exists(1)", 7),
    ("exists($.a", 10),
    ("length()", 7),
    ("eval('1')", 0),
    ("__import__('os').system('id')", 0),
    ("$.a.b('x')", 5),
    ("lambda: 1", 0),
    ("[1]", 0),
    ("'open", 0),
    ("07", 1),
    ("1e999", 0),
    (".5", 0),
    ("not", 3),
    ("$.a in", 6),
    ("$.a[", 4),
    ("1 or", 4),
    ("$.a ; 1", 4),
]

fragments = st.sampled_from(
    [
        *("$.parameters.n", "$.steps[0].output.items", "{step.x}", "$.gone", "null", "true", "1", "-2.5", "'a'"),
        *("==", "!=", "<", "<=", ">", ">=", "&&", "||", "!", "and", "or", "not", "in", "contains", "(", ")"),
        *("exists(", "length(", "is_empty(", "$", "'", '"', "\\", "{", "__class__", " "),
    ]
)
pieces = st.lists(fragments, max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "a", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def assert_parses_or_is_refused(text: str) -> None:
    try:
        predicate = parse_predicate(text)
    except InvalidExpression as error:
        position = error.details["position"]
    else:
        position = 0
        assert isinstance(predicate.evaluate(SCOPE), bool)
        assert isinstance(predicate.evaluate({}), bool)
    assert 0 <= position <= len(text)


@pytest.mark.parametrize("text", TRUE)
def test_these_hold(text: str) -> None:
    """Each of these conditions is true of the scope."""
    assert parse_predicate(text).evaluate(SCOPE) is True


@pytest.mark.parametrize("text", FALSE)
def test_these_do_not_hold(text: str) -> None:
    """Each of these conditions is false of the scope."""
    assert parse_predicate(text).evaluate(SCOPE) is False


@pytest.mark.parametrize(("text", "position"), MALFORMED)
def test_malformed_predicates_name_the_position(text: str, position: int) -> None:
    """Anything outside the grammar, Python above all, is refused with the place."""
    with pytest.raises(InvalidExpression, match=f"at position {position} of") as caught:
        parse_predicate(text)
    assert caught.value.details["position"] == position


def test_references_are_listed_once_in_order() -> None:
    """What a condition depends on can be read off before it runs."""
    predicate = parse_predicate("exists($.b) && ($.a == {step.x} || $.b == null)")
    assert [reference.text for reference in predicate.references] == ["$.b", "$.a", "{step.x}"]
    assert predicate == parse_predicate("exists($.b) && ($.a == {step.x} || $.b == null)")


def test_later_terms_are_not_asked_when_the_answer_is_known() -> None:
    """And stops at the first false and or at the first true, so that a guard guards."""

    class Watched(dict[str, Any]):
        asked = False

        def get(self, key: str, default: Any = None) -> Any:
            self.asked = True
            return super().get(key, default)

    for text in ("false && $.w.x", "true || $.w.x"):
        watched = Watched()
        parse_predicate(text).evaluate({"w": watched})
        assert not watched.asked


def test_size_and_depth_are_bounded() -> None:
    """Length and nesting have limits that are stated when passed; long flat conditions are fine."""
    deepest = "(" * MAX_PREDICATE_DEPTH + "1" + ")" * MAX_PREDICATE_DEPTH
    assert parse_predicate(deepest).evaluate({})
    with pytest.raises(InvalidExpression, match="deeper than 32 levels"):
        parse_predicate(f"({deepest})")
    with pytest.raises(InvalidExpression, match="longer than 2000"):
        parse_predicate("1" * (MAX_PREDICATE_CHARS + 1))
    assert parse_predicate(" && ".join(["true"] * 200)).evaluate({})
    assert parse_predicate("!" * 1_998 + "1").evaluate({})
    assert parse_predicate("(1)||" * 300 + "0").evaluate({})


@settings(deadline=None, max_examples=500)
@given(st.text(max_size=60) | pieces.map("".join) | pieces.map(" ".join))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """No text makes the parser fail in any other way, and whatever parses has a boolean answer."""
    assert_parses_or_is_refused(text)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(TRUE + FALSE), st.data())
def test_mutated_predicates_parse_or_are_refused(text: str, data: st.DataObject) -> None:
    """A valid condition with a piece changed is a condition or an error, never a crash."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    assert_parses_or_is_refused(text[:start] + data.draw(fragments | st.text(max_size=3)) + text[end:])


@settings(deadline=None, max_examples=300)
@given(json_values, json_values)
def test_comparisons_are_total_and_consistent(left: Any, right: Any) -> None:
    """For any two values exactly one of == and != holds, and order holds only between two numbers or two texts."""
    scope = {"l": left, "r": right}

    def holds(operator: str) -> bool:
        return parse_predicate(f"$.l {operator} $.r").evaluate(scope)

    assert holds("==") is not holds("!=")
    assert holds("==") == json_equal(right, left)
    ordered = [holds("<"), holds(">"), holds("==")]
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (left, right))
    if numbers or (isinstance(left, str) and isinstance(right, str)):
        assert sum(ordered) == 1
        assert holds("<=") is (holds("<") or holds("=="))
    else:
        assert not any(holds(operator) for operator in ("<", "<=", ">", ">="))
    assert holds("in") is parse_predicate("$.r contains $.l").evaluate(scope)


@settings(deadline=None)
@given(json_values)
def test_negation_and_emptiness_agree_with_truth(value: Any) -> None:
    """A bare value holds exactly when its negation does not, and nothing empty holds."""
    scope = {"v": value}
    assert parse_predicate("$.v").evaluate(scope) is is_truthy(value)
    assert parse_predicate("!$.v").evaluate(scope) is not is_truthy(value)
    if parse_predicate("is_empty($.v)").evaluate(scope):
        assert not is_truthy(value)
    assert parse_predicate("exists($.v)").evaluate(scope) is (value is not None)


def test_equality_of_deep_values_does_not_overflow() -> None:
    """Values nested far beyond any stack compare, and one difference at the bottom is seen."""

    def nested(core: int) -> Any:
        value: Any = core
        for _ in range(50_000):
            value = [value]
        return value

    predicate = parse_predicate("$.l == $.r")
    assert predicate.evaluate({"l": nested(1), "r": nested(1)})
    assert not predicate.evaluate({"l": nested(1), "r": nested(2)})


@pytest.mark.parametrize(
    "text",
    [*(character * 2_000 for character in "(!\\9ae{$"), "'" * 1_999, "1 " * 1_000, "$.a" * 600],
)
def test_hostile_predicates_take_linear_time(text: str) -> None:
    """The longest hostile texts are refused or parsed at once."""
    began = time.process_time()
    with suppress(InvalidExpression):
        parse_predicate(text)
    assert time.process_time() - began < 1
