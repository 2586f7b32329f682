"""Ranks the turns that a question found: some twenty signals, each a number from 0 to about 1, and a weight for each.

The signals are those that people would name: which words match, who speaks, whether a turn answers the question just
before it, whether it holds a time where a time is asked for, how well its whole session fits. `by_rules` combines them
by hand-written rules and is itself a signal; the weights (weights.py) were trained on dialogues that no test uses.
What a signal adds to a hit's score is what the hit gives as its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinraven.knowledge.passages import PassageFit
from twinraven.knowledge.postings import Floats, TermScores
from twinraven.knowledge.questions import Question
from twinraven.knowledge.reading import TurnMarks
from twinraven.knowledge.turn_features import TurnFeatures
from twinraven.knowledge.weights import WEIGHTS

SIGNALS: Final = tuple(WEIGHTS)
SEEDS: Final = 40
"""How many turns the words alone choose, and the dates; their neighbours are looked at as well."""
_SESSION_BEST: Final = 5
_LEADERS: Final = 3
_MUCH: Final = 3.0
"""A turn that says so many times as much as the mean says much."""
_REACH: Final = 2
_ENDS_ASKING: Final = int(TurnMarks.ENDS_ASKING)
_SHOWN: Final = 5e-4
"""What adds less to a score is not told."""

Doubles = NDArray[np.float64]

_WEIGHTS: Final[Doubles] = np.array([WEIGHTS[name] for name in SIGNALS])
_OF_PASSAGES: Final = [SIGNALS.index(name) for name in ("near", "theme", "session_theme")]


@dataclass(frozen=True, slots=True)
class RankedTurn:
    """A turn, its score, and what each signal added to it."""

    seq: int
    score: float
    signals: dict[str, float]


def word_scores(scores: Sequence[TermScores], turns: int) -> Floats:
    """Return the sum of all query terms' scores per turn."""
    total = np.zeros(turns, dtype=np.float32)
    for each in scores:
        total += each.best
    return total


def choose_candidates(
    total: Floats, allowed: NDArray[np.bool_] | None, dated: NDArray[np.int64] | None = None
) -> list[int]:
    """Return the turns with the best words, those of the dates that are asked for, and the turns beside them."""
    eligible = total if allowed is None else np.where(allowed, total, 0)
    chosen = _best(np.flatnonzero(eligible > 0), total)
    if dated is not None:
        chosen = np.concatenate([chosen, _best(dated if allowed is None else dated[allowed[dated]], total)])
    beside = np.unique(np.concatenate([chosen + step for step in range(-_REACH, _REACH + 1)]))
    inside = beside[(beside >= 0) & (beside < len(total))]
    return (inside if allowed is None else inside[allowed[inside]]).tolist()


def _best(places: NDArray[np.int64], total: Floats) -> NDArray[np.int64]:
    return places if len(places) <= SEEDS else places[np.argpartition(total[places], -SEEDS)[-SEEDS:]]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of a search, with a row of signals for each."""

    listed: list[int]
    values: Doubles

    def fit(self, passages: Mapping[int, PassageFit]) -> None:
        """Take in how well the passages of some candidates fit; no other signal depends on it."""
        for place, seq in enumerate(self.listed):
            found = passages.get(seq)
            if found is not None:
                self.values[place, _OF_PASSAGES] = (found.near, found.theme, found.session_theme)

    def leaders(self, limit: int) -> list[int]:
        """Return the best candidates, best first."""
        return [self.listed[place] for place in _order((self.values * _WEIGHTS).sum(axis=1), limit)]

    def best(self, limit: int) -> list[RankedTurn]:
        """Return the same with their scores, and with what each signal added."""
        parts = self.values * _WEIGHTS
        totals = parts.sum(axis=1)
        return [
            RankedTurn(
                self.listed[place],
                float(totals[place]),
                {
                    name: round(part, 4)
                    for name, part in zip(SIGNALS, parts[place].tolist(), strict=True)
                    if abs(part) >= _SHOWN
                },
            )
            for place in _order(totals, limit)
        ]


def _order(totals: Doubles, limit: int) -> list[int]:
    return np.argsort(-totals, kind="stable")[:limit].tolist()


def rank(
    question: Question,
    scores: Sequence[TermScores],
    candidates: Sequence[int],
    turns: Mapping[int, TurnFeatures],
    *,
    cosines: Mapping[int, float] | None = None,
) -> Ranking:
    """Find the signals of the candidates, those of their passages left out; `turns` also holds the one before each."""
    listed = [seq for seq in candidates if seq in turns]
    if not listed:
        return Ranking([], np.zeros((0, len(SIGNALS))))
    at = np.array(listed)
    # A question without a word, such as one of punctuation, leaves the candidates that are near in other ways.
    size = len(scores[0].exact) if scores else listed[-1] + 1
    total = word_scores(scores, size)
    best = float(total[at].max()) or 1.0
    words = (total[at] / best).astype(np.float64)
    facts = [turns[seq] for seq in listed]
    before, after = _beside(total, at, -1) / best, _beside(total, at, 1) / best
    wider = sum((_beside(total, at, step) / best for step in (-4, -3, 3, 4)), np.zeros(len(at)))
    marks = np.array([turn.marks for turn in facts])
    found: dict[str, Doubles] = {
        "words": words,
        "speaker": np.array([float(each.speaker in question.speakers) for each in facts]),
        "other_speaker": np.array(
            [float(bool(question.speakers) and each.speaker not in question.speakers) for each in facts]
        ),
        "asks": _marked(marks, TurnMarks.ASKS),
        "before": before,
        "after": after,
        "before_2": _beside(total, at, -2) / best,
        "around": wider,
        "answers": np.array([_answers(turn, turns) for turn in facts]) * before,
        "time": _marked(marks, TurnMarks.TIMED) * (question.kind == "time"),
        "number": _marked(marks, TurnMarks.NUMBERED) * (question.kind == "number"),
        "place": _marked(marks, TurnMarks.PLACED) * (question.kind == "place"),
        "date": np.array([_date_fit(question, turn) for turn in facts]),
        "personal": _marked(marks, TurnMarks.PERSONAL),
        "length": np.minimum(np.log1p([turn.length for turn in facts]) / 4, 1.0),
        "detail": _detail(facts),
        "named": _names_brought(question, facts),
        "meaning": np.array([cosines.get(seq, 0.0) for seq in listed]) if cosines else np.zeros(len(at)),
    }
    found["session"] = _session_fit(facts, words)
    found["by_rules"] = _by_rules(found)
    found["names"] = _shared_names(facts, found["by_rules"])
    nothing = np.zeros(len(at))
    return Ranking(listed, np.stack([found.get(name, nothing) for name in SIGNALS], axis=1))


def _marked(marks: NDArray[np.int64], mark: TurnMarks) -> Doubles:
    return (marks & int(mark) != 0).astype(np.float64)


def _beside(total: Floats, at: NDArray[np.int64], step: int) -> Doubles:
    places = at + step
    inside = (places >= 0) & (places < len(total))
    return np.where(inside, total[np.clip(places, 0, len(total) - 1)], 0.0).astype(np.float64)


def _answers(turn: TurnFeatures, turns: Mapping[int, TurnFeatures]) -> float:
    """Return whether the turn before asks and another speaks: the answer repeats none of the question's words."""
    before = turns.get(turn.seq - 1)
    if before is None or before.session != turn.session or not before.marks & _ENDS_ASKING:
        return 0.0
    return float(before.speaker is None or before.speaker != turn.speaker)


def _date_fit(question: Question, turn: TurnFeatures) -> float:
    if not question.dates:
        return 0.0
    if any(asked.meets(named) for asked in question.dates for named in turn.dates):
        return 1.0
    said = turn.day
    return 0.5 if said is not None and any(asked.first <= said <= asked.last for asked in question.dates) else 0.0


def _detail(facts: Sequence[TurnFeatures]) -> Doubles:
    """Return how much each turn says beside the others, whatever is usual in the dialogue."""
    lengths = np.array([turn.length for turn in facts], dtype=np.float64)
    return np.minimum(lengths / (_MUCH * max(lengths.mean(), 1.0)), 1.0)


def _names_brought(question: Question, facts: Sequence[TurnFeatures]) -> Doubles:
    """Return which turns have a name that the question does not, where one is asked for; speakers name each other."""
    if not question.wants_name:
        return np.zeros(len(facts))
    known = {term.word.lower() for term in question.terms}
    known.update(part for turn in facts if turn.speaker for part in turn.speaker.split())
    return np.array([float(any(known.isdisjoint(name.split()) for name in turn.names)) for turn in facts])


def _session_fit(facts: Sequence[TurnFeatures], words: Doubles) -> Doubles:
    """Return the sum of a session's five best turns, beside that of the best session."""
    by_session: dict[int, list[float]] = {}
    for turn, score in zip(facts, words.tolist(), strict=True):
        by_session.setdefault(turn.session, []).append(score)
    sums = {session: sum(sorted(found)[-_SESSION_BEST:]) for session, found in by_session.items()}
    best = max(sums.values()) or 1.0
    return np.array([sums[turn.session] / best for turn in facts])


def _by_rules(found: Mapping[str, Doubles]) -> Doubles:
    """Return the rules by hand: words, times who speaks, what is asked for and how the session fits."""
    score = found["words"] + 0.1 * (found["before"] + found["after"]) + 0.3 * found["answers"]
    score = score * (1 + 0.5 * found["speaker"]) * (1 - 0.5 * found["asks"]) * (1 + 0.3 * found["session"])
    score = score * (1 + 0.3 * found["time"]) * (1 + 0.3 * found["number"]) * (1 + 0.5 * found["date"])
    score = score + 0.3 * found["meaning"]
    return score / (score.max() or 1.0)


def _shared_names(facts: Sequence[TurnFeatures], score: Doubles) -> Doubles:
    """Return the names that a turn shares with the best ones, which often hold the other half of an answer."""
    leaders: list[int] = np.argsort(-score, kind="stable")[:_LEADERS].tolist()
    leading = Counter(name for place in leaders for name in facts[place].names)
    shares = np.zeros(len(facts))
    if not leading:
        return shares
    holders = Counter(name for turn in facts for name in turn.names if name in leading)
    for place, turn in enumerate(facts):
        if leading.keys().isdisjoint(turn.names):
            continue
        own = 1 if place in leaders else 0
        shared = [name for name in turn.names if leading[name] > own]
        shares[place] = min(1.0, sum(2 / holders[name] for name in shared))
    return shares
