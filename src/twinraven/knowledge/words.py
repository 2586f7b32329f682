"""Reads the words of a text: tokens, stems, and the stop words that say nothing about a subject."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from twinraven.knowledge.stemming import stem

_TOKEN: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_LONGEST: Final = 64
_STOPPED: Final = """
a about above after again against all also although am an and any anything are aren as at away back be because
been before being below between both but by can cannot could couldn d did didn do does doesn doing don done down
during each else ever every everything few for from further get gets getting got had hadn has hasn have haven
having he hence her here hers herself hey hi hello him himself his how however i if in into is isn it its itself
just let lets ll m may maybe me might more most much must my myself no nor not now of off oh ok okay on once one
only or other our ours ourselves out over own quite rather re really s same shall she should shouldn so some
something still such sure t than thanks thank that the their theirs them themselves then there these they thing
things this those though through thus to too under until up upon us ve very was wasn way we well were weren what
whatever when whenever where which while who whom whose why will with within without won would wouldn wow yeah
yep yes yet you your yours yourself yourselves according mention mentioned say says said tell told talk talked
discuss discussed describe described express expressed share shared conversation chat currently recently kind
type sort lot lots many like likes
"""
_STOP_WORDS: Final = frozenset(_STOPPED.split())


def tokens(text: str) -> list[str]:
    """Return the words as they stand, possessive endings and contractions cut."""
    return [match[0].replace("’", "'").partition("'")[0][:_LONGEST] for match in _TOKEN.finditer(text)]


def terms(text: str) -> list[str]:
    """Return the stems that a text is found by, in order."""
    return stems_of(token.lower() for token in tokens(text))


def stems_of(words: Iterable[str]) -> list[str]:
    """Return the stems of words in lower case that are no stop words, in order."""
    return [stem(word) for word in words if word not in _STOP_WORDS]


def is_stop_word(word: str) -> bool:
    return word in _STOP_WORDS
