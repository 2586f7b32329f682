"""Amounts are exact: decimal text outside, integers inside, and nothing that would have to be rounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidInput
from twinraven.governance import check_currency, format_minor, parse_minor
from twinraven.governance.work.costs import cost_of


@given(st.integers(0, 10**15), st.sampled_from(["EUR", "JPY", "KWD", "CLF"]))
def test_an_amount_reads_back_as_it_was(minor: int, currency: str) -> None:
    """Writing an amount and reading it gives the same integer, in currencies of zero to four digits."""
    assert parse_minor(format_minor(minor, currency), currency) == minor


@pytest.mark.parametrize(
    "bad", [12.5, 12, True, None, "", "1,5", "-1", "+1", "1e3", "01", "1.", ".5", "1.505", "٣", "9" * 16]
)
def test_what_is_no_exact_amount_is_refused(bad: Any) -> None:
    """Floats, signs, exponents, other digits and too many of them are refused by the field's name."""
    with pytest.raises(InvalidInput) as refused:
        parse_minor(bad, "EUR", field="total")
    assert refused.value.details["field"] == "total"


@pytest.mark.parametrize("bad", ["eur", "EURO", "", None, "E1R"])
def test_a_currency_has_three_capital_letters(bad: Any) -> None:
    """Anything else is no currency."""
    with pytest.raises(InvalidInput):
        check_currency(bad)


def test_costs_are_added_exactly_and_rounded_up_once() -> None:
    """Three tenths of a cent are one cent, not three, and another currency than the budget's is told."""
    calls = [{"cost_estimate": {"currency": "EUR", "amount": "0.001"}}] * 3
    cost = cost_of(calls, "EUR")
    assert cost.total is not None
    assert (cost.total.minor, cost.has_foreign) == (1, False)
    mixed = cost_of([*calls, {"cost_estimate": {"currency": "USD", "amount": "1"}}], "EUR")
    assert mixed.has_foreign
    assert cost_of([{"cost_estimate": {"currency": "USD", "amount": "2"}}], None).total is not None
    assert cost_of([{"cost_estimate": {"currency": None, "amount": None}}, {}], "EUR").total is None


@pytest.mark.parametrize(("amount", "currency"), [("much", "EUR"), ("-1", "EUR"), ("NaN", "EUR"), ("1", None)])
def test_a_cost_that_cannot_be_counted_is_told(amount: str, currency: str | None) -> None:
    """What is no amount is in no total, and is told like another currency: no limit is kept by not counting."""
    calls = [{"cost_estimate": {"currency": "EUR", "amount": "0.50"}}]
    cost = cost_of([*calls, {"cost_estimate": {"currency": currency, "amount": amount}}], "EUR")
    assert (cost.total is not None and cost.total.minor, cost.has_foreign) == (50, True)


def test_an_amount_beyond_64_bits_is_refused() -> None:
    """Two amounts can always be added, in currencies of four digits too."""
    with pytest.raises(InvalidInput, match="too large"):
        parse_minor("999999999999999.9999", "CLF")
