"""Resolves the dates that a text names: "last Friday" said on 2023-05-08 is 2023-05-05.

A date is a span of days (ordinals, both ends included), because people say "in March" as often as they name a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from datetime import date, timedelta
from typing import Final, NamedTuple

MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ), start=1,
    )
    for name in names.split()
}  # fmt: skip
_PLAIN_MONTHS: Final = frozenset(name for name in MONTHS if len(name) > 4) - {"march"} | {"june", "july"}
_WEEKDAYS: Final = {
    name: number
    for number, names in enumerate(
        (
            "monday mon",
            "tuesday tue tues",
            "wednesday wed",
            "thursday thu thurs",
            "friday fri",
            "saturday sat",
            "sunday",
        )
    )
    for name in names.split()
}
_NUMBERS: Final = {
    word: number
    for number, words in enumerate(
        ("", "a an one", "two couple", "three few", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
    for word in words.split()
}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_MONTH: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_WEEKDAY: Final = "|".join(sorted(_WEEKDAYS, key=len, reverse=True))
_COUNT: Final = "|".join([r"\d{1,3}", *sorted(_NUMBERS, key=len, reverse=True)])
_ISO: Final = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
_DAY_MONTH: Final = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\b\.?,?(?:\s+(\d{{4}}))?", re.IGNORECASE
)
_MONTH_DAY: Final = re.compile(
    rf"\b({_MONTH})\b\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,?\s+(\d{{4}}))?", re.IGNORECASE
)
_MONTH_YEAR: Final = re.compile(
    rf"\b(in\s+|last\s+|this\s+|next\s+|of\s+)?({_MONTH})\b\.?,?(?:\s+(\d{{4}}))?", re.IGNORECASE
)
_YEAR: Final = re.compile(r"\b(?:in|of|since|during|year)\s+((?:19|20)\d{2})\b", re.IGNORECASE)
_RELATIVE_DAY: Final = re.compile(
    r"\b(the day before yesterday|yesterday|last night|today|tonight|this morning|tomorrow|the other day)\b",
    re.IGNORECASE,
)
_RELATIVE_WEEKDAY: Final = re.compile(rf"\b(last|this past|this|next|on|past)\s+({_WEEKDAY})\b", re.IGNORECASE)
_RELATIVE_SPAN: Final = re.compile(r"\b(last|this past|past|this|next)\s+(week|weekend|month|year)\b", re.IGNORECASE)
_AGO: Final = re.compile(rf"\b({_COUNT})(?:\s+of)?\s+(day|week|month|year)s?\s+ago\b", re.IGNORECASE)
_DAY_OFFSETS: Final = {
    "the day before yesterday": (-2, -2),
    "yesterday": (-1, -1),
    "last night": (-1, -1),
    "tomorrow": (1, 1),
    "the other day": (-7, -1),
}


_HINTS: Final = frozenset(
    "day days night today tonight yesterday morning tomorrow week weeks weekend month months year years".split()  # noqa: SIM905
).union(MONTHS, _WEEKDAYS)
"""Words without which, and without digits, nothing here is a date."""


class DaySpan(NamedTuple):
    """Days from the first to the last, as ordinals."""

    first: int
    last: int

    def meets(self, other: DaySpan) -> bool:
        return self.first <= other.last and other.first <= self.last


def day_terms(spans: Iterable[DaySpan], *, longest: int) -> list[str]:
    """Return the days of these spans as terms that turns are found by.

    A span of more days than the longest has none.
    """
    days = {day for span in spans if span.last - span.first < longest for day in range(span.first, span.last + 1)}
    return [f"@{day}" for day in sorted(days)]


def may_name_date(words: Set[str]) -> bool:
    """Return whether words in lower case can name a date at all: most turns do not, and a dozen patterns are dear."""
    return not words.isdisjoint(_HINTS) or any(word[0].isdigit() for word in words)


def named_dates(text: str, said_on: date | None) -> list[DaySpan]:
    """Return the dates that a text names; relative ones only where the day on which it was said is known."""
    found = list(_absolute(text, said_on))
    if said_on is not None:
        found.extend(_relative(text, said_on))
    return list(dict.fromkeys(found))


def _absolute(text: str, said_on: date | None) -> Iterator[DaySpan]:
    for match in _ISO.finditer(text):
        yield from _spanned(int(match[1]), int(match[2]), int(match[3]) if match[3] else None)
    rest = text
    for pattern, month, day in ((_DAY_MONTH, 2, 1), (_MONTH_DAY, 1, 2)):
        for match in pattern.finditer(rest):
            year = _year_of(match[3], MONTHS[match[month].lower()], said_on)
            yield from _spanned(year, MONTHS[match[month].lower()], int(match[day]))
        rest = pattern.sub(" ", rest)
    for match in _MONTH_YEAR.finditer(rest):
        # "may" and "march" are verbs as well, and short forms other words: alone they count only with a capital.
        if match[1] or match[3] or match[2][0].isupper() or match[2] in _PLAIN_MONTHS:
            number = MONTHS[match[2].lower()]
            yield from _spanned(_year_of(match[3], number, said_on), number, None)
    for match in _YEAR.finditer(_MONTH_YEAR.sub(" ", rest)):
        yield DaySpan(date(int(match[1]), 1, 1).toordinal(), date(int(match[1]), 12, 31).toordinal())


def _year_of(stated: str | None, month: int, said_on: date | None) -> int | None:
    """Return the year that is stated, else the one of the nearest such month before the day on which it was said."""
    if stated:
        return int(stated)
    if said_on is None:
        return None
    return said_on.year - (month > said_on.month + 2)


def _spanned(year: int | None, month: int, day: int | None) -> Iterator[DaySpan]:
    if year is None or not 1 <= year <= 9998 or not 1 <= month <= 12:
        return
    try:
        first = date(year, month, day or 1)
    except ValueError:
        return
    following = date(year + month // 12, month % 12 + 1, 1)
    yield DaySpan(first.toordinal(), first.toordinal() if day else following.toordinal() - 1)


def _relative(text: str, said_on: date) -> Iterator[DaySpan]:
    today = said_on.toordinal()
    for match in _RELATIVE_DAY.finditer(text):
        first, last = _DAY_OFFSETS.get(match[1].lower(), (0, 0))
        yield _shifted(today, first, last)
    for match in _RELATIVE_WEEKDAY.finditer(text):
        back = (said_on.weekday() - _WEEKDAYS[match[2].lower()]) % 7
        ahead = match[1].lower() in ("next", "this")
        offset = (7 - back) % 7 if ahead else -(back or 7)
        yield _shifted(today, offset, offset)
    for match in _RELATIVE_SPAN.finditer(text):
        yield from _relative_span(match[1].lower(), match[2].lower(), said_on)
    for match in _AGO.finditer(text):
        count = int(match[1]) if match[1].isdigit() else _NUMBERS[match[1].lower()]
        unit = _UNIT_DAYS[match[2].lower()]
        slack = 0 if unit == 1 else unit // 2
        yield _shifted(today, -count * unit - slack, -count * unit + slack)


def _relative_span(which: str, unit: str, said_on: date) -> Iterator[DaySpan]:
    step = {"next": 1, "this": 0}.get(which, -1)
    if unit == "year":
        yield from (DaySpan(date(y, 1, 1).toordinal(), date(y, 12, 31).toordinal()) for y in (said_on.year + step,))
    elif unit == "month":
        months = said_on.year * 12 + said_on.month - 1 + step
        yield from _spanned(months // 12, months % 12 + 1, None)
    else:
        monday = (said_on - timedelta(days=said_on.weekday())).toordinal() + 7 * step
        yield DaySpan(monday + (5 if unit == "weekend" else 0), monday + 6)


def _shifted(today: int, first: int, last: int) -> DaySpan:
    lowest = date.min.toordinal()
    return DaySpan(max(lowest, today + first), max(lowest, today + last))
