"""Trains the weights of the knowledge ranking on composed dialogues, and tests them on the voice that was left out.

    python -m tools.train_ranker [--seeds 6]

For each question the candidates of the search are rows of signals; the weights maximise the share of probability that
a softmax over the candidates gives to the evidence, held near the weights of the rules by a ridge. Trained on all
voices but one, tested on that one; the last line holds the weights trained on all, for knowledge/weights.py.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.dialogue_sets import VOICES, Dialogue, compose
from bench.recall import fill
from twinraven.knowledge import Knowledge
from twinraven.knowledge.model import EpisodeFilter
from twinraven.knowledge.ranking import SIGNALS, signals_of
from twinraven.knowledge.searching import look_up
from twinraven.knowledge.sql import group_state
from twinraven.storage import Transaction, open_database

Doubles = NDArray[np.float64]
SHARPNESS = 6.0
RIDGE = 0.02
STEPS = 400
RATE = 0.05
PRIOR = {"by_rules": 1.0}


class Sample(NamedTuple):
    """One question: its candidates' signals, which of them are evidence, and how much evidence there is."""

    values: Doubles
    is_evidence: NDArray[np.bool_]
    wanted: int
    kind: str


def samples(tx: Transaction, dialogue: Dialogue) -> Iterator[Sample]:
    state = group_state(tx, "default", dialogue.group_id)
    assert state is not None
    seqs = {turn.name: seq for seq, turn in enumerate(dialogue.turns)}
    for asked in dialogue.questions:
        found = look_up(tx, "default", state, asked.text, EpisodeFilter())
        wanted = {seqs[name] for name in asked.evidence}
        if found.candidates:
            values = signals_of(found.question, found.scores, found.candidates, found.turns)
            marks = np.array([seq in wanted for seq in found.candidates])
        else:
            values, marks = np.zeros((1, len(SIGNALS))), np.array([False])
        yield Sample(values, marks, len(wanted), asked.kind)


def train(learnt: Sequence[Sample]) -> Doubles:
    """Gradient ascent with Adam on the listwise likelihood of the evidence."""
    prior = np.array([PRIOR.get(name, 0.0) for name in SIGNALS]) * SHARPNESS
    usable = [each for each in learnt if each.is_evidence.any()]
    values = np.concatenate([each.values for each in usable])
    marks = np.concatenate([each.is_evidence for each in usable])
    sizes = np.array([len(each.values) for each in usable])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    weights = prior.copy()
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        scores = values @ weights
        chances = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        hits = np.where(marks, chances, 0.0)
        pull = hits / np.repeat(np.add.reduceat(hits, starts), sizes)
        pull -= chances / np.repeat(np.add.reduceat(chances, starts), sizes)
        gradient = values.T @ pull / len(usable) - RIDGE * (weights - prior)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        weights += RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return weights / SHARPNESS


def recall(tested: Sequence[Sample], weights: Doubles) -> tuple[float, float]:
    totals = [0.0, 0.0]
    for each in tested:
        order = np.argsort(-(each.values @ weights), kind="stable")
        for place, size in enumerate((5, 10)):
            totals[place] += each.is_evidence[order[:size]].sum() / each.wanted
    return totals[0] / len(tested), totals[1] / len(tested)


def collect(seeds: int) -> dict[str, list[Sample]]:
    import asyncio

    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'train.db'}")
        database.migrate()
        knowledge = Knowledge(database)
        found: dict[str, list[Sample]] = {}
        for voice in VOICES:
            for seed in range(seeds):
                dialogue = compose(voice, seed)
                asyncio.run(fill(knowledge, dialogue))
                with database.connect().transaction("default", write=False) as tx:
                    found.setdefault(voice, []).extend(samples(tx, dialogue))
        database.close()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    found = collect(parser.parse_args().seeds)
    rules = np.array([PRIOR.get(name, 0.0) for name in SIGNALS])
    for voice in VOICES:
        others = [each for other in VOICES if other != voice for each in found[other]]
        by_rules, trained = recall(found[voice], rules), recall(found[voice], train(others))
        ceiling = sum(each.is_evidence.sum() / each.wanted for each in found[voice]) / len(found[voice])
        print(
            f"{voice:11} rules {by_rules[0]:.3f}/{by_rules[1]:.3f}  trained on the others "
            f"{trained[0]:.3f}/{trained[1]:.3f}  candidates {ceiling:.3f}"
        )
    weights = train([each for some in found.values() for each in some])
    print({name: round(float(weight), 3) for name, weight in zip(SIGNALS, weights, strict=True)})


if __name__ == "__main__":
    main()
