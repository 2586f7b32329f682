"""Reads what a search needs from one turn: stems, names, whether it asks, and the times and numbers in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import IntFlag
from functools import lru_cache
from typing import Final

from twinraven.knowledge.dates import DaySpan, may_name_date, named_dates
from twinraven.knowledge.stemming import stem
from twinraven.knowledge.words import is_stop_word, stems_of, tokens

_SENTENCE: Final = re.compile(r"[^.!?…\n]+[.!?…]*")
_SPOKEN: Final = re.compile(
    r"\A\s*(?:[\[(][^\[\]()\n]*\d[^\[\]()\n]*[\])]\s*)?"
    r"\*{0,2}([^\W\d_][\w.'-]{0,30}(?: [^\W\d_][\w.'-]{0,30}){0,2}(?: \d{1,2})?)\*{0,2}\s*:\*{0,2}\s+(?=\S)"
)
"""A name and a colon, perhaps behind a time in brackets, perhaps bold."""
_ROLES: Final = frozenset("user assistant agent speaker person participant".split())  # noqa: SIM905
_HEADINGS: Final = frozenset(
    "http https note notes re ps todo update question answer warning tip fyi spoiler edit summary result "  # noqa: SIM905
    "reminder photo image picture caption subject date time conclusion example plan fact news breaking verdict "
    "status quote day part chapter step week confession disclaimer topic agenda".split()
)
"""Words before a colon that name no speaker."""
_CAPTION: Final = re.compile(
    r"\[[^\]\n]*\]|\((?:photo|image|picture|shares?|sends?|attached)\b[^)\n]*\)|^\s*(?:photo|image|picture|caption)[^\n:]{0,20}:.*$",
    re.IGNORECASE | re.MULTILINE,
)
_NAME: Final = re.compile(r"\b[^\W\d_a-z][\w'’]*(?:[ -][^\W\d_a-z][\w'’]*|-\d[\w.]*\w|-\d)*")
_TIME_WORDS: Final = frozenset(
    "yesterday today tonight tomorrow ago last next since recently weekend week month year years months weeks days "  # noqa: SIM905
    "morning evening night monday tuesday wednesday thursday friday saturday sunday january february march april may "
    "june july august september october november december spring summer autumn winter birthday anniversary".split()
)
_TIME: Final = re.compile(r"\b(\d+(?:st|nd|rd|th)|(?:19|20)\d\d|\d+ ?(?:am|pm|o'clock))\b", re.IGNORECASE)
_NUMBER_WORDS: Final = frozenset(
    "two three four five six seven eight nine ten eleven twelve dozen hundred thousand million once twice thrice "  # noqa: SIM905
    "first second third both couple half several".split()
)
_DIGIT: Final = re.compile(r"\d")
_PLACE: Final = re.compile(
    r"\b(?:in|at|to|from|near|around|across|through|visit(?:ed|ing)?)\s+(?:the\s+)?[A-Z]|\b(home|beach|park|downtown"
    r"|museum|school|gym|mountains|city|country|store|restaurant|lake|studio|center|hospital|church|abroad)\b"
)
_PERSONAL: Final = re.compile(r"\b(I|I'm|I've|I'd|my|me|we|our|we're|we've|mine|myself)\b")
_TITLE: Final = re.compile(r"\b(Mrs?|Ms|Dr|Prof|St|Mt)\.\s")
_OPENERS: Final = frozenset(("last", "next", "yesterday", "today", "tomorrow", "luckily", "every", "each", "guess"))
_LONGEST_ACRONYM: Final = 5
_ASKING_SHARE: Final = 0.6
_MOST_NAMES: Final = 24
_MOST_DATES: Final = 8


class TurnMarks(IntFlag):
    """Flags of a turn, as one number in its row."""

    ASKS = 1
    TIMED = 2
    NUMBERED = 4
    PLACED = 8
    PERSONAL = 16
    ENDS_ASKING = 32


@dataclass(frozen=True, slots=True)
class TurnReading:
    """The stored features of a turn besides its words."""

    counts: Counter[str]
    length: int
    marks: TurnMarks
    dates: tuple[DaySpan, ...]
    names: tuple[str, ...]
    """In lower case, in order of their first mention."""


def split_speaker(content: str) -> tuple[str | None, str]:
    """Return a speaker written before the words ("Ann: hello"), and the words."""
    match = _SPOKEN.match(content[:160])
    if match is None:
        return None, content
    first, *others = match[1].split()
    is_role = first.lower() in _ROLES
    if first.lower() in _HEADINGS or not (is_role or all(word[0].isupper() for word in (first, *others))):
        return None, content
    return match[1], content[match.end() :]


def read_turn(text: str, said_on: date | None) -> TurnReading:
    """Read one turn's words, without its speaker."""
    words = [token.lower() for token in tokens(text)]
    different = frozenset(words)
    found = stems_of(words)
    return TurnReading(
        Counter(found),
        len(found),
        _marks(text, different),
        tuple(named_dates(text, said_on)[:_MOST_DATES]) if may_name_date(different) else (),
        tuple(dict.fromkeys(name.lower() for name in names_in(text)))[:_MOST_NAMES],
    )


@lru_cache(8)
def names_in(text: str) -> tuple[str, ...]:
    """Return capitalised words that are names: not the ordinary word that begins a sentence.

    Cached, because one turn is read for its words and then for its entities.
    """
    return tuple(_names(text))


def _names(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.finditer(_TITLE.sub(r"\1 ", text)):
        begin = len(sentence[0]) - len(sentence[0].lstrip(" \"'([*-"))
        for match in _NAME.finditer(sentence[0]):
            name = _trimmed(match[0], is_first=match.start() == begin)
            if name:
                yield name


def _trimmed(name: str, *, is_first: bool) -> str:
    words = name.replace("’", "'").removesuffix("'s").split(" ")
    while words and is_stop_word(words[-1].partition("'")[0].lower()):
        words = words[:-1]
    while words and _opens(words[0], is_alone=len(words) == 1, is_first=is_first):
        words = words[1:]
        is_first = False
    return " ".join(words)


def _opens(word: str, *, is_alone: bool, is_first: bool) -> bool:
    """Return whether a capitalised word is no name: a stop word, or an ordinary one at the sentence's start."""
    lower = word.partition("'")[0].lower()
    if is_stop_word(lower) or lower in _OPENERS or (word.isupper() and word.isalpha() and len(word) > _LONGEST_ACRONYM):
        return True
    return is_first and is_alone and not _looks_like_name(word)


def _looks_like_name(word: str) -> bool:
    """Return whether a word looks like a name wherever it stands: it has a digit or a second capital."""
    return any(sign.isdigit() or sign.isupper() for sign in word[1:]) and "'" not in word


def _marks(text: str, words: frozenset[str]) -> TurnMarks:
    marks = TurnMarks(0)
    said = _CAPTION.sub(" ", text)
    sentences = [match[0].strip() for match in _SENTENCE.finditer(said) if match[0].strip()]
    asking = sum(len(tokens(each)) for each in sentences if each.rstrip("\"') ").endswith("?"))
    if asking and asking / sum(len(tokens(each)) for each in sentences) >= _ASKING_SHARE:
        marks |= TurnMarks.ASKS
    if sentences and sentences[-1].rstrip("\"') ").endswith("?"):
        marks |= TurnMarks.ENDS_ASKING
    has_digits = _DIGIT.search(text) is not None
    if not words.isdisjoint(_TIME_WORDS) or (has_digits and _TIME.search(text)):
        marks |= TurnMarks.TIMED
    if has_digits or not words.isdisjoint(_NUMBER_WORDS):
        marks |= TurnMarks.NUMBERED
    if _PLACE.search(text):
        marks |= TurnMarks.PLACED
    if _PERSONAL.search(text):
        marks |= TurnMarks.PERSONAL
    return marks


def name_stems(name: str) -> set[str]:
    """Return the stems of a name's words."""
    return {stem(word.lower()) for word in tokens(name)}
