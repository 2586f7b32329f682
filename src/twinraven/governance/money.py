"""Reads and writes amounts of money: decimal text outside, integers in the smallest unit of the currency inside.

A JSON number is refused, because a float has lost the last digit before anybody can look. ISO 4217 says how many
digits a currency has after the point; currencies that are not listed here have two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from twinraven.foundation.errors import InvalidInput

_AMOUNT: Final = re.compile(r"(0|[1-9][0-9]{0,14})(?:\.([0-9]{1,18}))?")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_WITHOUT_POINT: Final = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_DIGITS: Final[dict[str, int]] = {
    **dict.fromkeys(_WITHOUT_POINT.split(), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}
_LARGEST: Final = 2**62 - 1
"""What two of can be added in 64 bits."""


@dataclass(frozen=True, slots=True)
class Money:
    """An amount, never negative, in the smallest unit of a currency."""

    minor: int
    currency: str

    def as_json(self) -> dict[str, Any]:
        return {"amount": format_minor(self.minor, self.currency), "currency": self.currency}


def check_currency(currency: Any, *, field: str = "currency") -> str:
    """Return a currency's three capital letters, as ISO 4217 has them."""
    if not isinstance(currency, str) or _CURRENCY.fullmatch(currency) is None:
        raise InvalidInput(f"{field} must be three capital letters such as EUR", field=field)
    return currency


def parse_minor(amount: Any, currency: str, *, field: str = "amount") -> int:
    """Read a decimal text such as "12.50" as an integer in the smallest unit; exact or refused."""
    if not isinstance(amount, str):
        raise InvalidInput(f'{field} must be decimal text such as "12.50", not a {type(amount).__name__}', field=field)
    found = _AMOUNT.fullmatch(amount)
    if found is None:
        raise InvalidInput(f'{field} must be decimal text such as "12.50", without sign or exponent', field=field)
    digits = minor_digits(check_currency(currency))
    whole, fraction = found[1], (found[2] or "")
    if len(fraction) > digits:
        raise InvalidInput(f"{field} has {len(fraction)} digits after the point; {currency} has {digits}", field=field)
    minor = int(whole + fraction.ljust(digits, "0"))
    if minor > _LARGEST:
        raise InvalidInput(f"{field} is too large", field=field)
    return minor


def minor_digits(currency: str) -> int:
    """Return the number of digits of a currency after the point."""
    return _DIGITS.get(currency, 2)


def format_minor(minor: int, currency: str) -> str:
    """Write an integer in the smallest unit as decimal text."""
    digits = minor_digits(currency)
    if digits == 0:
        return str(minor)
    sign, text = ("-" if minor < 0 else ""), str(abs(minor)).rjust(digits + 1, "0")
    return f"{sign}{text[:-digits]}.{text[-digits:]}"
