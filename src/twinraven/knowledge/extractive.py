"""Summarises texts without a model: chooses the sentences that say most of what the others say, in their order.

A sentence's worth is the weight of its words, by how many other sentences use them, damped by its length; each chosen
sentence lowers the worth of its words, so that the next says something else. Names, numbers and first-person statements
count more, because they are what is asked for later.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from twinraven.knowledge.reading import names_in
from twinraven.knowledge.words import terms

_SENTENCE: Final = re.compile(r"[^.!?…\n]+[.!?…]*[\"')]*")
_PERSONAL: Final = re.compile(r"\b(I|my|we|our|I'm|I've)\b")
_LEAST_WORDS: Final = 3
_USED_UP: Final = 0.35


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text and who said it."""

    text: str
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int
    text: str
    speaker: str | None
    words: frozenset[str]
    extra: float


def summarise(texts: Sequence[SourceText], *, most_characters: int) -> str:
    """Return the most telling sentences, one a line with who said them; never longer than asked for."""
    sentences = list(_sentences(texts))
    if not sentences:
        return "\n".join(each.text for each in texts)[:most_characters].strip()
    uses = Counter(word for each in sentences for word in each.words)
    weights = {word: math.log1p(count) for word, count in uses.items()}
    chosen: list[_Sentence] = []
    left = most_characters
    pool = list(sentences)
    while pool:
        best = max(pool, key=lambda each: (_worth(each, weights), -each.place))
        pool.remove(best)
        size = len(_line(best)) + 1
        if size > left:
            continue
        chosen.append(best)
        left -= size
        for word in best.words:
            weights[word] *= _USED_UP
    return "\n".join(_line(each) for each in sorted(chosen, key=lambda each: each.place))


def _sentences(texts: Sequence[SourceText]) -> list[_Sentence]:
    found: list[_Sentence] = []
    for each in texts:
        for match in _SENTENCE.finditer(each.text):
            text = " ".join(match[0].split())
            words = frozenset(terms(text))
            if len(words) >= _LEAST_WORDS and not text.endswith("?"):
                found.append(_Sentence(len(found), text, each.speaker, words, _extra(text)))
    return found


def _extra(text: str) -> float:
    has_number = any(sign.isdigit() for sign in text)
    return 0.5 * len(set(names_in(text))) + 0.5 * has_number + 0.3 * bool(_PERSONAL.search(text))


def _worth(sentence: _Sentence, weights: dict[str, float]) -> float:
    return (sum(weights[word] for word in sentence.words) + sentence.extra) / math.sqrt(len(sentence.words) + 4)


def _line(sentence: _Sentence) -> str:
    return sentence.text if sentence.speaker is None else f"{sentence.speaker}: {sentence.text}"
