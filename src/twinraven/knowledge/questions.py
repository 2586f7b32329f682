"""Reads a question: the words it is about, whom it names, which kind of answer it wants, and which dates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from twinraven.knowledge.concepts import rarity, related
from twinraven.knowledge.dates import MONTHS, DaySpan, named_dates
from twinraven.knowledge.people import named_speakers
from twinraven.knowledge.stemming import stem
from twinraven.knowledge.words import is_stop_word, tokens

Kind = Literal["time", "number", "place", "other"]

_TIME: Final = re.compile(
    r"\b(when|how long|what (?:date|day|month|year|time)|which (?:day|month|year)|how often)\b", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"\b(how (?:many|much|old|big|far|tall|often)|what (?:number|age|amount))\b", re.IGNORECASE)
_PLACE: Final = re.compile(
    r"\b(where|what (?:place|city|country|state|town)|which (?:place|city|country|state|town))\b", re.IGNORECASE
)
_NAMED: Final = re.compile(
    r"\b(who|whom|whose|where|names?|named|called|titles?|titled|(?:which|what) (?:city|country|town|place|state|book"
    r"|movie|film|band|song|company|brand|author|artist))\b",
    re.IGNORECASE,
)
"""What a name answers: of a person, a place, a book."""
_DATE_WORD: Final = re.compile(rf"{'|'.join(MONTHS)}|\d{{1,2}}(?:st|nd|rd|th)?|(?:19|20)\d\d", re.IGNORECASE)
_PARTICIPANT_TURNS: Final = 5
_PARTICIPANT_SHARE: Final = 0.01
_PARTICIPANT_WEIGHT: Final = 0.3
_ASKING_WORDS: Final = frozenset(
    "time date day long often old number place year month week ago last first".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One stem of a question and those that may stand for it."""

    term: str
    word: str
    """As the question has it."""
    weight: float
    related: Mapping[str, float]
    """How well each stands for it, from 0 to 1."""
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question as the ranking understands it."""

    terms: tuple[QueryTerm, ...]
    speakers: frozenset[str]
    """In lower case, those whom it names."""
    kind: Kind
    dates: tuple[DaySpan, ...]
    wants_name: bool = False
    """Whether a name answers it: who, where, which book."""


def read_question(text: str, speakers: Iterable[str]) -> Question:
    """Read a question about a dialogue of these speakers; their names are taken out of its words."""
    words = tokens(text)
    spoken = named_speakers(words, speakers)
    named = frozenset(whom for each in spoken.values() for whom in each)
    kind = _kind(text)
    weights: dict[str, float] = {}
    spelled: dict[str, str] = {}
    names: set[str] = set()
    for place, word in enumerate(words):
        lower = word.lower()
        if lower in spoken or is_stop_word(lower):
            continue
        term = stem(lower)
        weight = 1.2 if place and word[0].isupper() else rarity(term)
        if kind != "other" and lower in _ASKING_WORDS:
            weight = 0.4
        weights[term] = max(weight, weights.get(term, 0.0))
        spelled.setdefault(term, word)
        if place and word[0].isupper():
            names.add(term)
    found = tuple(
        QueryTerm(term, spelled[term], weight, _stand_ins(term, weights, is_name=term in names), term in names)
        for term, weight in weights.items()
    )
    wants_name = _NAMED.search(text) is not None
    return Question(found or _every_word(words), named, kind, tuple(named_dates(text, None)), wants_name)


def _stand_ins(term: str, asked: Mapping[str, float], *, is_name: bool) -> dict[str, float]:
    """Return what may stand for a stem, without the other stems of the question."""
    return {other: share for other, share in related(term, is_name=is_name).items() if other not in asked}


def play_participants_down(question: Question, holders: Mapping[str, int], turns: int) -> Question:
    """Weigh names less that many turns have, in a dialogue that does not say who speaks.

    Whoever takes part is named by the others: a turn that has the name was most likely said to the person asked about.
    """
    least = max(_PARTICIPANT_TURNS, _PARTICIPANT_SHARE * turns)
    terms = tuple(
        replace(each, weight=_PARTICIPANT_WEIGHT) if each.is_name and holders.get(each.term, 0) >= least else each
        for each in question.terms
    )
    return replace(question, terms=terms)


def without_dates(question: Question) -> Question:
    """Leave the words of dates out, in a dialogue that says when: the days that they mean are compared instead."""
    if not question.dates:
        return question
    others = tuple(each for each in question.terms if not _DATE_WORD.fullmatch(each.word))
    return replace(question, terms=others or question.terms)


def _every_word(words: Iterable[str]) -> tuple[QueryTerm, ...]:
    """Return all words of a question that consists of names and stop words alone."""
    return tuple(QueryTerm(stem(word.lower()), word, 1.0, {}) for word in dict.fromkeys(words))


def _kind(text: str) -> Kind:
    if _NUMBER.search(text):
        return "number"
    if _TIME.search(text):
        return "time"
    return "place" if _PLACE.search(text) else "other"
