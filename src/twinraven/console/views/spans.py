"""Names the stretches of time that pages ask about: whole hours, which the API has counted already."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from twinraven.foundation.clock import iso

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def last_hours(hours: int) -> tuple[datetime, datetime]:
    """So many whole hours, the last of which is the current one."""
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return until - timedelta(hours=hours), until


def last_days(days: int) -> tuple[datetime, datetime]:
    """So many whole days in UTC, the last of which is today."""
    until = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return until - timedelta(days=days), until


def last_day() -> dict[str, str]:
    """Return the 24 hours that end with the current one, as the API is asked for them."""
    begin, until = last_hours(24)
    return {"since": iso(begin), "until": iso(until)}


def day_of(text: str) -> str:
    """Return a time as the API is asked for it: a day that was chosen in a form is its beginning, in UTC."""
    return f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text
