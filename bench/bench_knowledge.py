"""What memory costs: a search beside a bare FTS5 query on as many turns, and storing a turn beside one durable insert.

Both contenders of the search answer the same questions over the same 100,000 turns of one group; the peer is asked for
the questions' words without stop words, as ours asks. The turns are made of the words of bench/dialogues.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median

from bench.dialogue_sets import VOICES, compose, exchanges
from bench.harness import Contender, Harness, Row
from twinraven.knowledge import Knowledge, NewEpisode
from twinraven.knowledge.words import terms
from twinraven.storage import open_database
from twinraven.storage.sqlite import library

TURNS = 100_000
QUESTIONS = 40
STORED = 20


def measure(harness: Harness) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'knowledge.db'}")
        database.migrate()
        knowledge = Knowledge(database)
        texts = list(_texts(TURNS))
        turns = [
            NewEpisode("g", f"t{place}", text, speaker=("Ann", "Bob")[place % 2]) for place, text in enumerate(texts)
        ]
        asyncio.run(knowledge.remember_all("default", turns))
        asked = [each.text for voice in VOICES for each in compose(voice, 0).questions][:QUESTIONS]
        searched = harness.sample(
            {"search": _searching(knowledge, asked), "FTS5": _matching(Path(folder) / "peer.db", texts, asked)}
        )
        stored = harness.sample(
            {"turn": _storing(knowledge, texts), "insert": _inserting(Path(folder) / "rows.db", texts)}
        )
        database.close()
    return [
        harness.row(f"search among {TURNS:,} turns, p50", searched, ours="search", against="FTS5", aim=3.0),
        harness.row("a turn stored, with extraction by rules", stored, ours="turn", against="insert", aim=5.0),
    ]


def _texts(size: int) -> Iterator[str]:
    words = [
        word for voice in VOICES for each in exchanges(voice)[0] for _, text in each.turns for word in text.split()
    ]
    chance = random.Random(7)
    for _ in range(size):
        yield " ".join(chance.choices(words, k=chance.randint(5, 30)))


def _searching(knowledge: Knowledge, asked: list[str]) -> Contender:
    async def each() -> float:
        costs: list[float] = []
        for text in asked:
            begun = time.perf_counter()
            await knowledge.search("default", text, group_id="g")
            costs.append(time.perf_counter() - begun)
        return median(costs)

    return lambda: asyncio.run(each())


def _matching(path: Path, texts: list[str], asked: list[str]) -> Contender:
    peer = library.connect(str(path))
    peer.execute("CREATE VIRTUAL TABLE turns USING fts5(content, tokenize='porter')")
    peer.executemany("INSERT INTO turns VALUES (?)", [(text,) for text in texts])
    peer.commit()
    queries = [" OR ".join(f'"{term}"' for term in dict.fromkeys(terms(text))) for text in asked]

    def work() -> float:
        costs: list[float] = []
        for query in queries:
            begun = time.perf_counter()
            sql = "SELECT rowid, content FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT 10"
            peer.execute(sql, (query,)).fetchall()
            costs.append(time.perf_counter() - begun)
        return median(costs)

    return work


def _storing(knowledge: Knowledge, texts: list[str]) -> Contender:
    numbers = count()

    async def each() -> float:
        begun = time.perf_counter()
        for _ in range(STORED):
            number = next(numbers)
            await knowledge.remember_all("default", [NewEpisode("g", f"new{number}", texts[number], speaker="Ann")])
        return time.perf_counter() - begun

    return lambda: asyncio.run(each())


def _inserting(path: Path, texts: list[str]) -> Contender:
    """One durable row for each turn, in a file with the same pragmas, without the house's port."""
    peer = library.connect(str(path), isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        peer.execute(f"PRAGMA {pragma}")
    peer.execute("CREATE TABLE turns (id INTEGER PRIMARY KEY, content TEXT)")
    numbers = count()

    def work() -> float:
        begun = time.perf_counter()
        for _ in range(STORED):
            peer.execute("INSERT INTO turns (content) VALUES (?)", (texts[next(numbers)],))
        return time.perf_counter() - begun

    return work
