"""Compares passages with a question by what their words mean: a turn, those beside it, and its whole session.

An answer often repeats none of the question's words, and the turn before it does: a dog is a greyhound here and "he"
there. So a passage is a turn with the two before and the one after. `near` says how much of the question a passage has,
in the same words or in similar ones; `theme` and `session_theme` how similar the sums of their words are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinraven.knowledge.concepts import rarity
from twinraven.knowledge.questions import QueryTerm, Question
from twinraven.knowledge.turn_features import TurnWords
from twinraven.knowledge.word_vectors import WIDTH, Vectors, has_vector, word_vectors

PASSAGE: Final = (-2, -1, 0, 1)
"""The turns of a passage, beside its own."""
_SHARE_BESIDE: Final = 0.5
_LEAST_ALIKE: Final = 0.25
"""Words below this similarity have nothing in common."""

_BEST: Final = 80

Doubles = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PassageFit:
    """How well the passage of a turn fits a question; each from 0 to 1."""

    near: float
    theme: float
    session_theme: float


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of all turns, one after the other."""

    known: dict[str, int]
    flat: Places
    """The numbers of `known`."""
    starts: Places
    filled: NDArray[np.bool_]


def fit_passages(question: Question, weights: Sequence[float], turns: Mapping[int, TurnWords]) -> dict[int, PassageFit]:
    """Return how well the passage of each turn fits; a weight for each of the question's terms."""
    seqs = sorted(turns)
    words = _words([turns[seq].stems for seq in seqs])
    if not words.known:
        return {}
    vectors = word_vectors(list(words.known))
    asked = word_vectors(["" if term.is_name else term.term for term in question.terms])
    sessions = np.array([turns[seq].session for seq in seqs])
    beside = [_beside(np.array(seqs), sessions, step) for step in PASSAGE]
    near = _near(question.terms, weights, words, vectors @ asked.T, beside)
    theme: Doubles = np.array([term.weight for term in question.terms]) @ asked.astype(np.float64)
    sums = _turn_sums(words, vectors, len(seqs))
    passages = np.zeros_like(sums)
    for step, (at, inside) in zip(PASSAGE, beside, strict=True):
        passages += np.where(inside[:, None], sums[at], 0.0) * (_SHARE_BESIDE if step else 1.0)
    _, session_of = np.unique(sessions, return_inverse=True)
    whole = np.zeros((session_of.max() + 1, WIDTH))
    np.add.at(whole, session_of, sums)
    themes = _scaled(_cosines(passages, theme))
    session_themes = _scaled(_cosines(whole, theme)[session_of])
    return {
        seq: PassageFit(*fit)
        for seq, fit in zip(
            seqs, zip(near.tolist(), themes.tolist(), session_themes.tolist(), strict=True), strict=True
        )
    }


def best_passages(fits: Mapping[int, PassageFit], allowed: NDArray[np.bool_] | None) -> list[int]:
    """Return the turns whose passages fit best."""
    eligible = [seq for seq in fits if allowed is None or allowed[seq]]
    return sorted(eligible, key=lambda seq: -(fits[seq].near + fits[seq].theme))[:_BEST]


def similar_words(terms: Sequence[QueryTerm], stems: Sequence[str]) -> dict[str, str]:
    """Return the word of a passage that comes nearest to each term, where any has something in common with it."""
    asked = [term for term in terms if not term.is_name and has_vector(term.term)]
    if not asked or not stems:
        return {}
    alike = word_vectors(stems) @ word_vectors([term.term for term in asked]).T
    best: list[int] = alike.argmax(axis=0).tolist()
    return {
        term.word: stems[place]
        for at, (term, place) in enumerate(zip(asked, best, strict=True))
        if alike[place, at] > _LEAST_ALIKE
    }


def _words(listed: Sequence[Sequence[str]]) -> _Words:
    places: dict[str, int] = {}
    flat = [places.setdefault(each, len(places)) for stems in listed for each in stems]
    sizes = np.array([len(stems) for stems in listed], dtype=np.int64)
    ends = np.cumsum(sizes)
    return _Words(places, np.array(flat, dtype=np.int64), (ends - sizes)[sizes > 0], sizes > 0)


def _beside(seqs: Places, sessions: Places, step: int) -> tuple[Places, NDArray[np.bool_]]:
    """Return where the turn so many steps away is, and whether it was read and is of the same session."""
    at = np.clip(np.searchsorted(seqs, seqs + step), 0, len(seqs) - 1)
    return at, (seqs[at] == seqs + step) & (sessions[at] == sessions)


def _near(
    terms: Sequence[QueryTerm],
    weights: Sequence[float],
    words: _Words,
    alike: Vectors,
    beside: Sequence[tuple[Places, NDArray[np.bool_]]],
) -> Doubles:
    """Return the share of the question's words that each passage has or comes near, beside the best passage."""
    total = np.zeros(len(words.filled))
    for term, weight, each in zip(terms, weights, alike.T, strict=True):
        shared = np.maximum(0.0, (each - _LEAST_ALIKE) / (1 - _LEAST_ALIKE))
        if term.term in words.known:
            shared[words.known[term.term]] = 1.0
        best = np.zeros(len(words.filled))
        best[words.filled] = np.maximum.reduceat(shared[words.flat], words.starts)
        total += weight * np.maximum.reduce([np.where(inside, best[at], 0.0) for at, inside in beside])
    return total / (total.max() or 1.0)


def _turn_sums(words: _Words, vectors: Vectors, turns: int) -> Doubles:
    """Return the sum of each turn's words; common ones count less."""
    weighed = vectors * np.array([rarity(each) for each in words.known], dtype=np.float32)[:, None]
    sums = np.zeros((turns, WIDTH))
    sums[words.filled] = np.add.reduceat(weighed[words.flat], words.starts, axis=0)
    return sums


def _cosines(rows: Doubles, asked: Doubles) -> Doubles:
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked)
    return (rows @ asked) / np.where(sizes > 0, sizes, 1.0)


def _scaled(cosines: Doubles) -> Doubles:
    """Return the similarities from 0 to 1, where 0 is what half of them have."""
    middle = float(np.median(cosines))
    width = float(cosines.max()) - middle
    return np.clip((cosines - middle) / width, 0.0, 1.0) if width > 0 else np.zeros(len(cosines))
