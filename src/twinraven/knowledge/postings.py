"""Packs postings into blocks and scores them with BM25.

A posting is eight bytes: the turn's number in its group, how often the term stands in it, how many terms the turn has.
With the length inside, a score needs nothing but the term's own blocks, on either store, and the frequencies are those
of the group: what is rare in one dialogue may be common in another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twinraven.knowledge.questions import QueryTerm

BLOCK: Final = 256
"""Turns in one block: adding a turn rewrites at most 2 KB, less than a page, for each of its terms."""
CHAPTER: Final = 16
"""Blocks that become one when all are full: a search reads fewer rows, and no turn rewrites them any more."""
K1: Final = 0.9
B: Final = 0.4
ENOUGH: Final = 300
"""A word that stands in so many turns needs no other to stand for it."""
_MOST: Final = 65_535
_POSTING: Final = np.dtype([("seq", "<u4"), ("count", "<u2"), ("length", "<u2")])

Floats = NDArray[np.float32]
Postings = NDArray[Any]


def pack(seq: int, count: int, length: int) -> bytes:
    """Return one posting as bytes."""
    return (
        seq.to_bytes(4, "little") + min(count, _MOST).to_bytes(2, "little") + min(length, _MOST).to_bytes(2, "little")
    )


def unpack(blocks: Sequence[bytes]) -> Postings:
    """Return the postings of one term, from its blocks."""
    return np.frombuffer(b"".join(blocks), dtype=_POSTING)


@dataclass(frozen=True, slots=True)
class TermScores:
    """The BM25 scores of one query term per turn: by itself, and with its stand-ins."""

    exact: Floats
    best: Floats


def score_term(term: QueryTerm, found: Mapping[str, Postings], *, turns: int, mean_length: float) -> TermScores:
    """BM25 of a term, and of the best of those that may stand for it."""
    exact = np.zeros(turns, dtype=np.float32)
    own = found.get(term.term)
    if own is not None:
        exact[own["seq"]] = term.weight * _idf(len(own), turns) * _saturated(own, mean_length)
    others = [(found[each], share) for each, share in term.related.items() if each in found]
    if not others:
        return TermScores(exact, exact)
    best = exact.copy()
    # A rare word is no better a stand-in than the word itself.
    most = math.inf if own is None else _idf(len(own), turns)
    for held, share in others:
        idf = min(most, _idf(len(held), turns))
        np.maximum.at(best, held["seq"], share * term.weight * idf * _saturated(held, mean_length))
    return TermScores(exact, best)


def weigh_terms(terms: Sequence[QueryTerm], found: Mapping[str, Postings], *, turns: int) -> list[float]:
    """Return how much each term counts: its own weight, and the more the fewer turns have it."""
    return [each.weight * _idf(len(found.get(each.term, ())), turns) for each in terms]


def _idf(holders: int, turns: int) -> float:
    return math.log(1 + (turns - holders + 0.5) / (holders + 0.5))


def _saturated(postings: Postings, mean_length: float) -> Floats:
    count = postings["count"].astype(np.float32)
    damping = K1 * (1 - B + B * postings["length"].astype(np.float32) / max(mean_length, 1.0))
    return (count * (K1 + 1) / (count + damping)).astype(np.float32)
