"""Adds up what the calls of an attempt cost, exactly, and rounds up to the smallest unit once at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any, NamedTuple

from twinraven.governance.money import Money, minor_digits


class AttemptCost(NamedTuple):
    """What an attempt cost."""

    total: Money | None
    """In the budget's currency, else in the only one that was stated; None where nothing was."""
    has_foreign: bool
    """Whether something was stated in another currency."""


def cost_of(invocations: Iterable[Mapping[str, Any]], currency: str | None) -> AttemptCost:
    """Add up the stated costs; single calls may cost fractions of the smallest unit."""
    sums: dict[str, Decimal] = {}
    for each in invocations:
        stated: Mapping[str, Any] = each.get("cost_estimate") or {}
        amount, unit = stated.get("amount"), stated.get("currency")
        if amount is not None and unit is not None:
            sums[unit] = sums.get(unit, Decimal(0)) + _amount(amount)
    wanted = currency or (next(iter(sums)) if len(sums) == 1 else None)
    has_foreign = any(unit != wanted for unit in sums)
    if wanted is None or wanted not in sums:
        return AttemptCost(None, has_foreign)
    scaled = sums[wanted].scaleb(minor_digits(wanted)).to_integral_value(ROUND_CEILING)
    return AttemptCost(Money(int(scaled), wanted), has_foreign)


def _amount(text: Any) -> Decimal:
    try:
        found = Decimal(str(text))
    except InvalidOperation:
        return Decimal(0)
    return found if found.is_finite() and found > 0 else Decimal(0)
