"""Defines argument types that several commands share: counts, durations, timestamps, ids."""

from __future__ import annotations

import argparse
import re
from datetime import datetime, timedelta

from twinraven.foundation.clock import parse_iso, utc_now
from twinraven.foundation.errors import InvalidInput

_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})Z?")
_DAYS = {"today": 0, "yesterday": 1}
_SPAN = re.compile(r"([0-9]{1,9})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def count(text: str) -> int:
    """Return a whole number from 1."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:19]) < 2**63:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def amount(text: str) -> float:
    """Return a number from 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number from 0, not {text!r}")
    return value


def share(text: str) -> float:
    """Return a number above 0 and at most 1."""
    value = amount(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must lie above 0 and at most at 1, not {text!r}")
    return value


def span(text: str) -> timedelta:
    """Parse a duration: 90m, 12h, 7d."""
    found = _SPAN.fullmatch(text)
    try:
        if found is not None:
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        pass
    raise argparse.ArgumentTypeError(f"must be a span of time such as 90m, 12h or 7d, not {text!r}")


def moment(text: str) -> datetime:
    """Return a time with its zone, a day in UTC, `today`, `yesterday`, or how long ago."""
    try:
        if text in _DAYS:
            day = utc_now() - timedelta(days=_DAYS[text])
            return day.replace(hour=0, minute=0, second=0, microsecond=0)
        if (day_named := _DAY.fullmatch(text)) is not None:
            return parse_iso(f"{day_named[1]}T00:00:00Z", field="the day")
        return utc_now() - span(text) if _SPAN.fullmatch(text) else parse_iso(text, field="the time")
    except (InvalidInput, OverflowError, argparse.ArgumentTypeError) as error:
        raise argparse.ArgumentTypeError(
            f"{error}; write 2026-03-01, 2026-03-01T12:00:00Z, yesterday, or 90m, 12h, 7d for how long ago"
        ) from None
