"""Searches one group inside one read transaction: postings, candidates, ranking, content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twinraven.knowledge.dates import day_terms
from twinraven.knowledge.embedding import Vectors
from twinraven.knowledge.model import Episode, EpisodeFilter, Hit
from twinraven.knowledge.passages import PASSAGE, PassageFit, best_passages, fit_passages, similar_words
from twinraven.knowledge.postings import ENOUGH, Postings, TermScores, score_term, weigh_terms
from twinraven.knowledge.questions import QueryTerm, Question, play_participants_down, read_question, without_dates
from twinraven.knowledge.ranking import RankedTurn, Ranking, choose_candidates, rank, word_scores
from twinraven.knowledge.sql import (
    GroupState,
    allowed_parts,
    group_state,
    moment,
    read_parts,
    read_postings,
    read_turns,
    read_words,
    to_episode,
)
from twinraven.knowledge.turn_features import TurnFeatures, TurnWords
from twinraven.knowledge.vectors import VectorIndex, nearest, scaled, shared_with_neighbours
from twinraven.storage import Row, Transaction

EVERYTHING = EpisodeFilter()
_NAMING: Final = frozenset({"speaker", "other_speaker"})
"""Signals that every hit has where the question names a speaker of its group."""
_OTHER_GROUP: Final = -0.5
_WHOLE_PARTS: Final = 1_000
_WHOLE_WORDS: Final = 20_000
"""Groups of up to so many parts and words are compared whole."""
_COMPARED: Final = 10
"""Of a larger group, so many passages are compared: those that the other signals rank first."""
_LONGEST_ASKED: Final = 31
"""Days of a date that turns are looked up by: a question about a whole year is left to its words."""


class QueryVector(NamedTuple):
    """The query vector, and the index of episode vectors it is compared with."""

    held: VectorIndex
    vector: Vectors


@dataclass(frozen=True, slots=True)
class SearchCandidates:
    """The candidates of a search in a group, before ranking."""

    question: Question
    scores: list[TermScores]
    turns: dict[int, TurnFeatures]
    postings: Mapping[str, Postings]
    similarities: Mapping[int, float]
    words: Mapping[int, TurnWords]
    """Of those turns whose passages were compared."""
    ranking: Ranking


def look_up(
    tx: Transaction,
    tenant_id: str,
    state: GroupState,
    text: str,
    wanted: EpisodeFilter,
    *,
    meaning: QueryVector | None = None,
) -> SearchCandidates:
    """Score every part that has a word of the question, and read what the ranking needs of the best."""
    question = read_question(text, state.speakers)
    if state.last_at is not None:
        question = without_dates(question)
    postings = read_postings(tx, tenant_id, state.group_id, [each.term for each in question.terms])
    if not state.speakers:
        holders = {term: len(held) for term, held in postings.items()}
        question = play_participants_down(question, holders, state.parts)
    rare = [each for each in question.terms if each.term not in postings or len(postings[each.term]) < ENOUGH]
    others = {other for each in rare for other in each.related}
    postings |= read_postings(tx, tenant_id, state.group_id, others)
    scores = [score_term(term, postings, turns=state.parts, mean_length=state.mean_length) for term in question.terms]
    allowed = _allowed(tx, tenant_id, state, wanted)
    similarities: Mapping[int, float] = {}
    if meaning is not None:
        similarities = meaning.held.cosines(tx, tenant_id, state.group_id, meaning.vector, parts=state.parts)
    dated = _dated(tx, tenant_id, state.group_id, question)
    chosen = choose_candidates(word_scores(scores, state.parts), allowed, dated)
    meant = shared_with_neighbours(similarities)
    candidates = sorted({*chosen, *nearest(meant, allowed)})
    is_whole = state.parts <= _WHOLE_PARTS and state.words <= _WHOLE_WORDS
    words: dict[int, TurnWords] = {}
    passages: dict[int, PassageFit] = {}
    weights = weigh_terms(question.terms, postings, turns=state.parts)
    if candidates and is_whole:
        words = read_words(tx, tenant_id, state.group_id, range(state.parts))
        passages = fit_passages(question, weights, words)
        candidates = sorted({*candidates, *best_passages(passages, allowed)})
    beside = {seq - 1 for seq in candidates if seq}
    turns = read_turns(tx, tenant_id, state.group_id, sorted({*candidates, *beside}))
    cosines = scaled(meant, candidates)
    ranking = rank(question, scores, candidates, turns, cosines=cosines or None)
    if not is_whole:
        leaders = ranking.leaders(_COMPARED)
        around = {seq + step for seq in leaders for step in PASSAGE}
        words = read_words(tx, tenant_id, state.group_id, sorted(seq for seq in around if 0 <= seq < state.parts))
        fits = fit_passages(question, weights, words)
        passages = {seq: fits[seq] for seq in leaders if seq in fits}
    ranking.fit(passages)
    return SearchCandidates(question, scores, turns, postings, similarities, words, ranking)


def _dated(tx: Transaction, tenant_id: str, group_id: str, question: Question) -> NDArray[np.int64] | None:
    """Return the parts that were said on a day of the question's dates, or name one."""
    days = day_terms(question.dates, longest=_LONGEST_ASKED)
    held = read_postings(tx, tenant_id, group_id, days) if days else {}
    return np.unique(np.concatenate([each["seq"] for each in held.values()])).astype(np.int64) if held else None


def search_group(
    tx: Transaction,
    tenant_id: str,
    group_id: str,
    text: str,
    *,
    limit: int,
    wanted: EpisodeFilter = EVERYTHING,
    neighbours: int = 0,
    meaning: QueryVector | None = None,
) -> list[Hit]:
    """Return the best hits of one group."""
    state = group_state(tx, tenant_id, group_id)
    if state is None:
        return []
    found = look_up(tx, tenant_id, state, text, wanted, meaning=meaning)
    # A long episode may be found by several of its parts: some more are read so that `limit` names remain.
    best = found.ranking.best(limit * 2)
    rows = read_parts(tx, tenant_id, group_id, [each.seq for each in best])
    hits: dict[str, Hit] = {}
    for each in best:
        row = rows[each.seq]
        if row["name"] not in hits and len(hits) < limit:
            beside = _neighbours(tx, tenant_id, state, each.seq, neighbours)
            hits[row["name"]] = _to_hit(row, each, found, beside)
    return list(hits.values())


def best_of_groups(found: Sequence[Hit], *, limit: int) -> list[Hit]:
    """Return the best hits of several groups: where a question names who speaks in one, the other groups step back."""
    named = {hit.group_id for hit in found if not _NAMING.isdisjoint(hit.why["signals"])}
    weighed = [hit if not named or hit.group_id in named else _stepped_back(hit) for hit in found]
    return sorted(weighed, key=lambda hit: -hit.score)[:limit]


def _stepped_back(hit: Hit) -> Hit:
    signals = {**hit.why["signals"], "other_group": _OTHER_GROUP}
    return replace(hit, score=hit.score + _OTHER_GROUP, why={**hit.why, "signals": signals})


def search_names(tx: Transaction, tenant_id: str, group_id: str, text: str, *, limit: int) -> list[str]:
    """Return the names of the best hits of one group."""
    return [hit.name for hit in search_group(tx, tenant_id, group_id, text, limit=limit)]


def _allowed(tx: Transaction, tenant_id: str, state: GroupState, wanted: EpisodeFilter) -> NDArray[np.bool_] | None:
    if wanted.is_open:
        return None
    mask = np.zeros(state.parts, dtype=np.bool_)
    mask[allowed_parts(tx, tenant_id, state.group_id, wanted)] = True
    return mask


def _neighbours(tx: Transaction, tenant_id: str, state: GroupState, seq: int, reach: int) -> tuple[Episode, ...]:
    beside = [each for each in range(max(0, seq - reach), min(state.parts, seq + reach + 1)) if each != seq]
    if not beside:
        return ()
    rows = read_parts(tx, tenant_id, state.group_id, beside)
    return tuple(to_episode(rows[each]) for each in beside if each in rows)


def _to_hit(row: Row, ranked: RankedTurn, found: SearchCandidates, neighbours: tuple[Episode, ...]) -> Hit:
    return Hit(
        name=row["name"],
        group_id=row["group_id"],
        content=row["content"],
        score=ranked.score,
        why=_why(ranked, found),
        speaker=row["speaker"],
        valid_at=moment(row["valid_at"]),
        neighbours=neighbours,
    )


def _why(ranked: RankedTurn, found: SearchCandidates) -> dict[str, Any]:
    """Return the words that matched, which stood for others, and what each signal added."""
    words: list[str] = []
    stood_for: dict[str, list[str]] = {}
    others: list[QueryTerm] = []
    for term, score in zip(found.question.terms, found.scores, strict=True):
        if score.exact[ranked.seq] > 0:
            words.append(term.word)
        elif score.best[ranked.seq] > 0:
            stood_for[term.word] = [each for each in sorted(term.related) if _has(found, each, ranked.seq)]
        else:
            others.append(term)
    similar = similar_words(others, _passage(found, ranked.seq)) if others else {}
    turn = found.turns[ranked.seq]
    names: Sequence[str] = _linking_names(turn, found.turns) if "names" in ranked.signals else ()
    near = {"similarity": round(found.similarities[ranked.seq], 4)} if ranked.seq in found.similarities else {}
    found_by = {"words": words, "related": stood_for, "similar": similar, "names": names}
    return {**found_by, **near, "signals": ranked.signals}


def _passage(found: SearchCandidates, seq: int) -> list[str]:
    """Return the words of a turn and of those beside it."""
    own = found.words.get(seq)
    if own is None:
        return []
    beside = [each for step in PASSAGE if (each := found.words.get(seq + step)) is not None]
    return [stem for each in beside if each.session == own.session for stem in each.stems]


def _has(found: SearchCandidates, term: str, seq: int) -> bool:
    held = found.postings.get(term)
    return held is not None and bool(np.any(held["seq"] == seq))


def _linking_names(turn: TurnFeatures, turns: Mapping[int, TurnFeatures]) -> Sequence[str]:
    others = [each.names for each in turns.values() if each.seq != turn.seq]
    return sorted(name for name in turn.names if any(name in names for names in others))
