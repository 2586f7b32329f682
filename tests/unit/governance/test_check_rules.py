"""Rules of policy checks are read strictly: one that cannot be understood is named by its place."""

from __future__ import annotations

from typing import Any

import pytest

from twinraven.foundation.errors import InvalidInput, InvalidSetting
from twinraven.governance import read_check_rules
from twinraven.governance.work.check_functions import read_answer
from twinraven.governance.work.graph import in_order, refuse_cycle


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"then": "reject"}, "policy.checks[1].check"),
        ({"check": "a"}, "policy.checks[1].then"),
        ({"check": "a", "then": "deny"}, "policy.checks[1].then"),
        ({"check": "a", "then": "warn", "colour": "red"}, "policy.checks[1]"),
        ({"check": "a", "then": "warn", "text": "("}, "policy.checks[1].text"),
        ({"check": "a", "then": "warn", "confidence_below": 2}, "policy.checks[1].confidence_below"),
        ({"check": "a", "then": "warn", "cost_above": 5}, "policy.checks[1].cost_above"),
        ({"check": "a", "then": "warn", "cost_above": "5.001 EUR"}, "policy.checks[1].cost_above"),
        ({"check": "a", "then": "warn", "disclosure": "there"}, "policy.checks[1].disclosure"),
        ({"check": "a", "then": "warn", "action": "burn"}, "policy.checks[1].action"),
        ({"check": "a", "then": "warn", "channel": 7}, "policy.checks[1].channel"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: dict[str, Any], field: str) -> None:
    """Skipping a rule would approve what it forbids."""
    with pytest.raises(InvalidSetting) as refused:
        read_check_rules([rule])
    assert refused.value.details["field"] == field


def test_two_checks_of_one_name_are_refused() -> None:
    """A safety policy must name one check."""
    with pytest.raises(InvalidSetting, match="twice"):
        read_check_rules([{"check": "a", "then": "warn"}] * 2)


@pytest.mark.parametrize(
    ("line", "result"),
    [
        (b'{"answer": true}', "pass"),
        (b'{"answer": null}', "pass"),
        (b'{"answer": false}', "fail"),
        (b'{"answer": "no"}', "fail"),
        (b'{"answer": {"result": "warning"}}', "warning"),
        (b'{"answer": {"result": "maybe"}}', "fail"),
        (b'{"answer": 7}', "fail"),
        (b'{"error": "ValueError"}', "fail"),
        (b"[]", "fail"),
        (b"noise", "fail"),
    ],
)
def test_only_an_answer_passes(line: bytes, result: str) -> None:
    """What a function says is read strictly, and whatever is no answer denies."""
    assert read_answer(line).result == result


def test_graphs_are_ordered_and_circles_named() -> None:
    """Each name comes after what it depends on, and a circle is told by the names it goes through."""
    assert in_order({"c": ["a", "b"], "b": ["a"], "a": []}) == ["a", "b", "c"]
    with pytest.raises(InvalidInput) as refused:
        in_order({"a": ["b"], "b": ["c"], "c": ["b"]})
    assert refused.value.details["path"] == ["b", "c", "b"]
    with pytest.raises(InvalidInput, match="a → a"):
        refuse_cycle("a", ["a"], lambda _: [])
