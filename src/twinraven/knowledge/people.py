"""Finds the speakers whom a question names: by a part of their name, its beginning, or a possessive without its mark.

A name may be an ordinary word (Will, Grace, Mark): in a question that uses capitals, such a word counts only with one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from twinraven.knowledge.concepts import is_common
from twinraven.knowledge.stemming import stem
from twinraven.knowledge.words import is_stop_word, tokens

Speakers = frozenset[str]

_SHORTEST: Final = 3
_SHORTEST_INSIDE: Final = 2
"""Of a capitalised word that does not begin the question."""


def named_speakers(words: Sequence[str], speakers: Iterable[str]) -> dict[str, Speakers]:
    """Return the words of a question, in lower case, that name speakers, and whom each names (in lower case)."""
    parts = _parts(speakers)
    has_capitals = any(word[0].isupper() for word in words[1:])
    found: dict[str, Speakers] = {}
    for place, word in enumerate(words):
        lower = word.lower()
        is_plain = not word[0].isupper() and (has_capitals and is_common(stem(lower)))
        if is_plain or (is_stop_word(lower) and (place == 0 or not word[0].isupper())):
            continue
        whom = parts.get(lower) or _shortened(word, parts, is_first=place == 0) or _possessive(lower, parts)
        if whom:
            found[lower] = whom
    certain = frozenset(each for whom in found.values() if len(whom) == 1 for each in whom)
    # "Ann Lee" names Ann, also where Bob is a Lee as well.
    return {word: whom & certain or whom for word, whom in found.items()}


def _parts(speakers: Iterable[str]) -> dict[str, Speakers]:
    found: dict[str, Speakers] = {}
    for speaker in speakers:
        for part in tokens(speaker.lower()):
            found[part] = found.get(part, frozenset()) | {speaker.lower()}
    return found


def _shortened(word: str, parts: Mapping[str, Speakers], *, is_first: bool) -> Speakers | None:
    """People shorten names: "Mel" is Melanie, where no other speaker begins so; in lower case no ordinary word is."""
    lower = word.lower()
    if word[0].isupper():
        least = _SHORTEST if is_first or word.isupper() else _SHORTEST_INSIDE
    else:
        least = len(word) + 1 if is_common(stem(lower)) else _SHORTEST
    begun = [part for part in parts if part.startswith(lower)]
    return parts[begun[0]] if len(word) >= least and len(begun) == 1 else None


def _possessive(lower: str, parts: Mapping[str, Speakers]) -> Speakers | None:
    """Return the speaker of "anns", as people type who leave apostrophes out."""
    return parts.get(lower[:-1]) if lower.endswith("s") and len(lower) > _SHORTEST else None
