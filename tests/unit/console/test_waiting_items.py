"""Lines of the queue of what waits for a person."""

from __future__ import annotations

from typing import Any

from twinraven.console.views.waiting_items import cost_of, waiting_of
from twinraven.inbox import ItemCost


def item(**more: Any) -> dict[str, Any]:
    return {
        "item_id": "question:note__ask@r1",
        "kind": "question",
        "ref": "r1",
        "target": "replace_item",
        "what": "answer it",
        "why": "Run 'add_note' now?",
        "evidence": {},
        "asked_at": "2026-01-05T09:00:00Z",
        "expires_at": None,
        "requested_by": "local",
        "cost": None,
        "holds": None,
        **more,
    }


def test_a_question_is_said_once() -> None:
    """What a run asks stands in the first line of its item and is not repeated in the second."""
    line = waiting_of(item(), {})
    assert (line.name, line.about, line.why) == ("replace_item", "Run 'add_note' now?", "a run waits for the answer")


def test_a_reason_loses_the_name_that_stands_before_it() -> None:
    """The tool's name in front of a rule's reason is left out, because it is the item's own name."""
    line = waiting_of(item(kind="unknown_step", why="'replace_item': nobody knows", what="settle it"), {})
    assert (line.about, line.why) == ("settle it", "nobody knows")


def test_what_is_held_stands_beside_a_payment() -> None:
    """A payment that nobody knows the end of says what of its wallet it keeps from being spent."""
    request = {"amount": "12.50", "currency": "EUR", "counterparty": "Printer & Co"}
    hold = {"amount": "12.50", "currency": "EUR", "wallet_id": "w1", "budget_id": None}
    line = waiting_of(item(kind="unknown_effect", evidence={"request": request}, holds=hold), {})
    assert (line.name, line.holds) == ("12.50 EUR to Printer & Co", "12.50 EUR")


def test_costs_have_the_digits_of_their_currency() -> None:
    """Yen have no cents, dinars three digits, and what has no currency is a plain number."""
    costs = [ItemCost(1250, "EUR"), ItemCost(1250, "JPY"), ItemCost(1250, "KWD"), ItemCost(7), ItemCost(tokens=1200)]
    assert [cost_of(each.as_json()) for each in costs] == ["12.50 EUR", "1250 JPY", "1.250 KWD", "7", "1,200 tokens"]


def test_a_learned_tool_says_what_it_is_worth() -> None:
    """The turns that a learned tool would save stand beside it; what was not measured is worth nothing."""
    found = [
        waiting_of(item(kind="learned_tool", ref="one@2", evidence={"savings": savings}), {}).worth
        for savings in ({"turns_saved": 135.0, "value": 1.3}, None)
    ]
    assert found == [135.0, 0.0]
