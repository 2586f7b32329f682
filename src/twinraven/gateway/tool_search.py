"""Ranks tools by the words of a query (BM25), for clients that are shown a search instead of every definition.

A tool is its name, its description, and the names and descriptions of its parameters; its name counts most. A learned
tool that matches as many words of the query as any other comes first: it does in one call what the others do in
several.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

Definition = Mapping[str, Any]

_K1: Final = 1.2
_B: Final = 0.6
_NAME_WEIGHT: Final = 3
_SHORTEST_PLURAL: Final = 4
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_IDLE: Final = frozenset(
    {"a", "an", "and", "by", "for", "from", "in", "is", "it", "of", "on", "or", "the", "to", "tool", "with"}
)


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a name or a sentence, in lower case and singular, without those that say nothing."""
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word in _IDLE:
            continue
        is_plural = len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss")
        yield word[:-1] if is_plural else word


@dataclass(frozen=True, slots=True)
class Match:
    """One tool that a query found, by its place in the index."""

    place: int
    score: float
    matched: int
    """How many different words of the query it has."""


class ToolIndex:
    """The words of one list of definitions, ready to be searched."""

    def __init__(self, definitions: Sequence[Definition], *, learned: Iterable[int] = ()) -> None:
        """`learned` are the places of learned tools."""
        self._learned = frozenset(learned)
        self._counts = [_counted(definition) for definition in definitions]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        holders = Counter(word for counts in self._counts for word in counts)
        total = len(self._counts)
        self._weights = {word: math.log(1 + (total - n + 0.5) / (n + 0.5)) for word, n in holders.items()}

    def search(self, query: str) -> list[Match]:
        """Return every tool that has a word of the query, the best first; equal ones stay in the order of the list."""
        wanted = set(words_of(query)) & self._weights.keys()
        found = [match for place in range(len(self._counts)) if (match := self._match(place, wanted)).matched]
        most = max((match.matched for match in found), default=0)

        def rank(match: Match) -> tuple[bool, float]:
            covers = match.place in self._learned and match.matched == most
            return not covers, -match.score

        return sorted(found, key=rank)

    def _match(self, place: int, wanted: set[str]) -> Match:
        counts = self._counts[place]
        shared = wanted & counts.keys()
        norm = _K1 * (1 - _B + _B * self._lengths[place] / self._mean)
        score = sum(self._weights[word] * counts[word] * (_K1 + 1) / (counts[word] + norm) for word in shared)
        return Match(place, score, len(shared))


def _counted(definition: Definition) -> Counter[str]:
    counts = Counter(words_of(str(definition.get("description") or "")))
    for word in words_of(str(definition.get("name") or "")):
        counts[word] += _NAME_WEIGHT
    for text in _parameter_texts(definition.get("inputSchema")):
        counts.update(words_of(text))
    return counts


def _parameter_texts(schema: Any) -> Iterator[str]:
    members: Any = cast("Definition", schema).get("properties") if isinstance(schema, dict) else None
    if not isinstance(members, dict):
        return
    for name, member in cast("dict[str, Any]", members).items():
        yield name
        if isinstance(member, dict):
            yield str(cast("Definition", member).get("description") or "")
