"""Measures evidence recall of the knowledge search on composed dialogues: R@5 and R@10, by kind of question.

    python -m bench.recall [--seeds 6] [--vectors]

`--vectors` also compares vectors, which needs the extra `embeddings`.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import defaultdict
from pathlib import Path

from bench.annotated_dialogues import ANNOTATED, TWO_PEOPLE, read_annotated, read_dated, read_mixed
from bench.dialogue_sets import HELD_OUT, VOICES, Dialogue, compose
from twinraven.knowledge import Knowledge, NewEpisode, installed_embedder
from twinraven.storage import open_database

Recalls = dict[str, list[tuple[float, float]]]


async def fill(knowledge: Knowledge, dialogue: Dialogue) -> None:
    """Store a dialogue's turns as episodes."""
    episodes = [
        NewEpisode(dialogue.group_id, turn.name, turn.content, speaker=turn.speaker, valid_at=turn.at)
        for turn in dialogue.turns
    ]
    await knowledge.remember_all("default", episodes)


async def recalls(knowledge: Knowledge, dialogue: Dialogue) -> Recalls:
    """R@5 and R@10 of each question."""
    asked = [(dialogue.group_id, each.text) for each in dialogue.questions]
    answers = await knowledge.search_all("default", asked, limit=10)
    found: Recalls = defaultdict(list)
    for question, names in zip(dialogue.questions, answers, strict=True):
        wanted = set(question.evidence)
        shares = tuple(len(wanted & set(names[:k])) / len(wanted) for k in (5, 10))
        found[question.kind].append((shares[0], shares[1]))
    return found


async def measure(seeds: int, *, with_vectors: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'recall.db'}")
        database.migrate()
        knowledge = Knowledge(database, embedder=installed_embedder() if with_vectors else None)
        for name, dialogues in _sets(seeds).items():
            total: Recalls = defaultdict(list)
            for dialogue in dialogues:
                await fill(knowledge, dialogue)
                for kind, shares in (await recalls(knowledge, dialogue)).items():
                    total[kind].extend(shares)
            show(name, total, sum(len(each.turns) for each in dialogues) // len(dialogues))
        database.close()


def _sets(seeds: int) -> dict[str, list[Dialogue]]:
    """The composed voices, and dialogues in other forms: whole, dated, among others, and bare."""
    found = {voice: [compose(voice, seed) for seed in range(seeds)] for voice in (*VOICES, HELD_OUT)}
    found |= {name: [read_annotated(name)] for name in ANNOTATED}
    for name, among in (("couple", 90), ("team", 60)):
        found[f"{name}+{among}"] = [read_annotated(name, distractors=among, seed=seed) for seed in range(seeds)]
    found |= {f"{name} mixed": [read_mixed(name)] for name in TWO_PEOPLE}
    found |= {f"{name} dated": [read_dated(name)] for name in TWO_PEOPLE}
    bare = read_annotated("couple", distractors=90, is_bare=True)
    return {**found, "couple bare": [bare]}


def show(voice: str, total: Recalls, turns: int) -> None:
    every = [share for shares in total.values() for share in shares]
    print(f"{voice:12} {turns} turns  all {_mean(every)}  ", end="")
    print("  ".join(f"{kind} {_mean(shares)} n={len(shares)}" for kind, shares in sorted(total.items())))


def _mean(shares: list[tuple[float, float]]) -> str:
    return "/".join(f"{sum(share[at] for share in shares) / len(shares):.3f}" for at in (0, 1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--vectors", action="store_true")
    given = parser.parse_args()
    asyncio.run(measure(given.seeds, with_vectors=given.vectors))
