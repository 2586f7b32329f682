"""Adds up what the calls of an attempt cost, exactly, and rounds up to the smallest unit once at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any, NamedTuple

from twinraven.governance.money import Money, minor_digits


class AttemptCost(NamedTuple):
    """The cost of an attempt."""

    total: Money | None
    """In the budget's currency, else in the only one that was stated; None where nothing was."""
    has_foreign: bool
    """Whether something was stated in another currency, in none, or as what is no amount: it is not in the total."""


def cost_of(invocations: Iterable[Mapping[str, Any]], currency: str | None) -> AttemptCost:
    """Add up the stated costs; single calls may cost fractions of the smallest unit."""
    sums, unread = dict[str, Decimal](), False
    for each in invocations:
        stated: Mapping[str, Any] = each.get("cost_estimate") or {}
        text, unit = stated.get("amount"), stated.get("currency")
        amount = _amount(text)
        if amount is not None and unit is not None:
            sums[unit] = sums.get(unit, Decimal(0)) + amount
        elif text is not None:
            unread = True
    wanted = currency or (next(iter(sums)) if len(sums) == 1 else None)
    has_foreign = unread or any(unit != wanted for unit in sums)
    if wanted is None or wanted not in sums:
        return AttemptCost(None, has_foreign)
    scaled = sums[wanted].scaleb(minor_digits(wanted)).to_integral_value(ROUND_CEILING)
    return AttemptCost(Money(int(scaled), wanted), has_foreign)


def _amount(text: Any) -> Decimal | None:
    """Return a stated amount; None where it is none."""
    try:
        found = Decimal(str(text))
    except InvalidOperation:
        return None
    return found if found.is_finite() and found >= 0 else None
