"""Trains the weights of the knowledge ranking on dialogues of several kinds, and tests them on the kind left out.

    python -m tools.train_ranker [--seeds 3]

For each question the candidates of the search are rows of signals; the weights maximise the share of probability that
a softmax over the candidates gives to the evidence, held near the weights of the rules by a ridge. Trained on all kinds
but one, of which each counts alike, tested on that one; the last line holds the weights trained on all, for
knowledge/weights.py.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.annotated_dialogues import EVERYDAY, TWO_PEOPLE, read_annotated, read_mixed
from bench.dialogue_sets import HELD_OUT, VOICES, Asked, Dialogue, Said, compose
from bench.recall import fill
from bench.timeline_dialogues import compose_timeline
from twinraven.knowledge import Knowledge
from twinraven.knowledge.model import EpisodeFilter
from twinraven.knowledge.moments import parse_moment
from twinraven.knowledge.ranking import SIGNALS
from twinraven.knowledge.searching import look_up
from twinraven.knowledge.sql import group_state
from twinraven.knowledge.weights import WEIGHTS
from twinraven.storage import Transaction, open_database

Doubles = NDArray[np.float64]
SHARPNESS = 6.0
RIDGE = 0.02
STEPS = 200
RATE = 0.08
MOST = 60
"""Candidates of one question that are learned from besides its evidence, and half the questions of one kind."""
PRIOR = {"by_rules": 1.0}
AGAINST = ("other_speaker", "asks")
"""Signals that speak against a turn; all others speak for it, so that what a hit gives as its reason can be read."""


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
        if found.ranking.listed:
            values = found.ranking.values
            marks = np.array([seq in wanted for seq in found.ranking.listed])
        else:
            values, marks = np.zeros((1, len(SIGNALS))), np.array([False])
        yield Sample(values, marks, len(wanted), asked.kind)


def _narrowed(sample: Sample) -> Sample:
    """The candidates that the rules rank first, and the evidence."""
    order = np.argsort(-sample.values[:, SIGNALS.index("by_rules")], kind="stable")
    kept = np.union1d(order[:MOST], np.flatnonzero(sample.is_evidence))
    return sample._replace(values=sample.values[kept], is_evidence=sample.is_evidence[kept])


def train(learnt: Sequence[Sample]) -> Doubles:
    """Gradient ascent with Adam on the listwise likelihood of the evidence."""
    prior = np.array([PRIOR.get(name, 0.0) for name in SIGNALS]) * SHARPNESS
    usable = [_narrowed(each) for each in learnt if each.is_evidence.any()]
    values = np.concatenate([each.values for each in usable])
    marks = np.concatenate([each.is_evidence for each in usable])
    sizes = np.array([len(each.values) for each in usable])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    weights = prior.copy()
    is_against = np.array([name in AGAINST for name in SIGNALS])
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
        weights = np.where(is_against, np.minimum(weights, 0.0), np.maximum(weights, 0.0))
    return weights / SHARPNESS


def recall(tested: Sequence[Sample], weights: Doubles) -> tuple[float, float]:
    totals = [0.0, 0.0]
    for each in tested:
        order = np.argsort(-(each.values @ weights), kind="stable")
        for place, size in enumerate((5, 10)):
            totals[place] += each.is_evidence[order[:size]].sum() / each.wanted
    return totals[0] / len(tested), totals[1] / len(tested)


def kinds_of_dialogues(seeds: int) -> dict[str, list[Dialogue]]:
    """Dialogues by their kind: what one hand or one generator made is left out together."""
    found = {voice: [compose(voice, seed) for seed in range(seeds)] for voice in (*VOICES, HELD_OUT)}
    found["couple"] = [read_annotated("couple", distractors=90)]
    found["team"] = [read_annotated("team", distractors=60), read_annotated("notes")]
    found["timelines"] = [_timeline(seed) for seed in range(seeds)]
    found["whole"] = [each for name in TWO_PEOPLE[1:] for each in (read_annotated(name), read_mixed(name))]
    found["everyday"] = [each for name in EVERYDAY for each in (read_annotated(name), read_mixed(name))]
    return found


def _timeline(seed: int) -> Dialogue:
    made = compose_timeline(seed, sessions=10 + 5 * seed)
    found = Dialogue(f"timeline-{seed}")
    for each in made.episodes:
        at = parse_moment(each["valid_at"], field="valid_at")
        found.turns.append(Said(each["name"], each["speaker"], each["content"] or "Mm.", at))
    found.questions.extend(Asked(each["kind"], each["query"], tuple(each["evidence"])) for each in made.questions)
    return found


def collect(seeds: int) -> dict[str, list[Sample]]:
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'train.db'}")
        database.migrate()
        knowledge = Knowledge(database)
        found: dict[str, list[Sample]] = {}
        for kind, dialogues in kinds_of_dialogues(seeds).items():
            for dialogue in dialogues:
                asyncio.run(fill(knowledge, dialogue))
                with database.connect().transaction("default", write=False) as tx:
                    found.setdefault(kind, []).extend(samples(tx, dialogue))
        database.close()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    found = collect(parser.parse_args().seeds)
    chance = random.Random(0)
    learnt = {kind: chance.sample(every, min(len(every), 2 * MOST)) for kind, every in found.items()}
    rules = np.array([PRIOR.get(name, 0.0) for name in SIGNALS])
    shipped = np.array([WEIGHTS[name] for name in SIGNALS])
    for kind, every in found.items():
        others = [each for other in found if other != kind for each in learnt[other]]
        columns = {"rules": rules, "shipped": shipped, "trained on the others": train(others)}
        ceiling = sum(each.is_evidence.sum() / each.wanted for each in every) / len(every)
        shown = "  ".join("{} {:.3f}/{:.3f}".format(name, *recall(every, each)) for name, each in columns.items())
        print(f"{kind:11} {shown}  candidates {ceiling:.3f}", flush=True)
    weights = train([each for some in learnt.values() for each in some])
    print({name: round(float(weight), 3) for name, weight in zip(SIGNALS, weights, strict=True)})


if __name__ == "__main__":
    main()
