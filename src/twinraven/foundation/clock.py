"""Reads the time: always UTC, always injectable.

Stored times are whole microseconds since the epoch: exact, sortable and the same on both stores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from twinraven.foundation.errors import InvalidInput

Clock = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def utc_now() -> datetime:
    return datetime.now(UTC)


def now_micros() -> int:
    return time.time_ns() // 1000


def to_micros(moment: datetime, *, field: str = "timestamp") -> int:
    """Microseconds since the epoch; a naive or non-UTC time is refused, because guessing a zone rewrites history."""
    offset = moment.utcoffset()
    if offset is None:
        raise InvalidInput(f"{field} has no time zone; give a UTC datetime (tzinfo=UTC)", field=field)
    if offset:
        raise InvalidInput(f"{field} is not in UTC (offset {offset}); convert it with .astimezone(UTC)", field=field)
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def iso(moment: datetime) -> str:
    """RFC 3339 with a Z, microseconds kept."""
    at_home = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{at_home.isoformat(timespec='microseconds')[:-6]}Z"


def iso_micros(micros: int) -> str:
    """`iso` of a stored time. Calls come many to a second, and only its fraction differs."""
    second, fraction = divmod(micros, 1_000_000)
    return f"{_iso_second(second)}.{fraction:06d}Z"


@lru_cache(64)
def _iso_second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat()[:-6]


def parse_iso(text: str, *, field: str = "timestamp") -> datetime:
    """Parse the inverse of `iso`; any offset is accepted and converted to UTC, no offset is refused."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{field} is not an ISO 8601 time: {text!r}", field=field) from error
    if moment.tzinfo is None:
        raise InvalidInput(f"{field} has no time zone: {text!r}; end it with Z", field=field)
    return moment.astimezone(UTC)
