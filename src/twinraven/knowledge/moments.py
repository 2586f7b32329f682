"""Reads when something was said: ISO 8601, seconds since the epoch, and the forms in which chats are exported.

Exported dialogues write "1:56 pm on 8 May, 2023", "2023/05/30 (Tue) 23:40" or "May 8, 2023 at 13:56" as often as ISO
8601. A form counts only if it can be read in one way: 05/20/2023 and 20.05.2023 are, 05/08/2023 is refused, because it
is a day in May or in August.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from twinraven.foundation.errors import InvalidInput
from twinraven.knowledge.dates import MONTHS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS_FROM: Final = 100_000_000_000
"""A number this large counts milliseconds: as seconds it would be the year 5138."""
_CLOCK: Final = re.compile(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s*([ap])\.?m\b\.?)?", re.IGNORECASE)
_HOUR: Final = re.compile(r"\b(\d{1,2})\s*([ap])\.?m\b\.?", re.IGNORECASE)
_MAILED: Final = re.compile(r"\A[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} .* [+-]\d{4}\Z")
_STAMP: Final = re.compile(r"\d{9,13}(?:\.\d+)?")
_DAY_FIRST: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_EITHER: Final = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})")
_HYPHEN: Final = re.compile(r"(?<=\d)-(?=[a-z])|(?<=[a-z])-(?=\d)")
_LAST_MONTH: Final = 12
_NUMBERS: Final = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})")
_WORDS: Final = re.compile(
    r"(?:(\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)?([a-z]{3,9})\.?(?:\s+(\d{1,2})(?:st|nd|rd|th)?)?,?\s+(\d{4})"
)
_BETWEEN: Final = re.compile(
    r"\(?\b(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b\.?\)?,?|\b(?:on|at)\b|\b(?:utc|gmt)\b|[,\s]+",
    re.IGNORECASE,
)


def parse_moment(value: Any, *, field: str) -> datetime:
    """Parse a time or a day; without a zone it is read as UTC, because exported dialogues have none."""
    try:
        found = _of_number(value) if _is_number(value) else _of_text(value)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{field} is outside the calendar: {value!r}", field=field) from error
    if found is None:
        message = f"{field} is no time that can be read: {str(value)[:60]!r}; write 2026-05-08T13:00:00Z (ISO 8601)"
        raise InvalidInput(message, field=field)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_number(value: float) -> datetime:
    seconds = value / 1000 if abs(value) >= _MILLIS_FROM else value
    return _EPOCH + timedelta(seconds=seconds)


def _of_text(value: Any) -> datetime | None:
    if not isinstance(value, str) or len(value) > 100:
        return None
    value = value.strip().removeprefix("[").removesuffix("]")
    if _STAMP.fullmatch(value):
        return _of_number(float(value))
    try:
        moment = parsedate_to_datetime(value) if _MAILED.search(value) else datetime.fromisoformat(value.strip())
    except ValueError:
        return _of_export(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _of_export(text: str) -> datetime | None:
    hour, minute, second = 0, 0, 0
    rest = text
    if (clock := _CLOCK.search(text)) is not None:
        hour, minute, second = _hour(clock[1], clock[4]), int(clock[2]), int(clock[3] or 0)
        rest = text[: clock.start()] + " " + text[clock.end() :]
    elif (clock := _HOUR.search(text)) is not None:
        hour = _hour(clock[1], clock[2])
        rest = text[: clock.start()] + " " + text[clock.end() :]
    day = _BETWEEN.sub(" ", rest).strip().lower()
    found = _of_numbers(day) or _of_words(_HYPHEN.sub(" ", day))
    return None if found is None else datetime(*found, hour, minute, second, tzinfo=UTC)


def _of_numbers(day: str) -> tuple[int, int, int] | None:
    """Year, month and day of a date in numbers."""
    if (match := _NUMBERS.fullmatch(day)) is not None:
        return int(match[1]), int(match[2]), int(match[3])
    if (match := _DAY_FIRST.fullmatch(day)) is not None:
        return int(match[3]), int(match[2]), int(match[1])
    if (match := _EITHER.fullmatch(day)) is not None:
        first, second = int(match[1]), int(match[2])
        if first > _LAST_MONTH or first == second:
            return int(match[3]), second, first
        if second > _LAST_MONTH:
            return int(match[3]), first, second
    return None


def _of_words(day: str) -> tuple[int, int, int] | None:
    """Year, month and day of a date whose month is a word."""
    match = _WORDS.fullmatch(day)
    if match is None or match[2] not in MONTHS or bool(match[1]) == bool(match[3]):
        return None
    return int(match[4]), MONTHS[match[2]], int(match[1] or match[3])


def _hour(written: str, half: str | None) -> int:
    hour = int(written)
    return hour if half is None else hour % 12 + (12 if half.lower() == "p" else 0)
