"""Measures evidence recall through the command line: `episodes import`, then `knowledge search --queries`.

    python -m bench.timeline_recall [--dialogues 6] [--embedder auto|off]

The dialogues are those of bench.timeline_dialogues, of five to thirty-five sessions. The command is the one that is
installed beside this interpreter, with the settings that a new home has.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from bench.timeline_dialogues import Timeline, compose_timeline

_COMMAND = Path(sys.executable).parent / "twinraven"
_KINDS = {"t": "temporal", "s": "single-hop", "m": "detail", "b": "multi-hop"}


def measure(dialogues: int, embedder: str) -> None:
    timelines = [compose_timeline(seed, sessions=5 + 30 * seed // max(1, dialogues - 1)) for seed in range(dialogues)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _run(place, "init")
        if embedder != "auto":
            (place / "twinraven.yaml").write_text(json.dumps({"knowledge": {"embedder": embedder}}))
        _write(place / "episodes.jsonl", [each for timeline in timelines for each in timeline.episodes])
        _write(place / "questions.jsonl", [each for timeline in timelines for each in timeline.questions])
        _run(place, "episodes", "import", "episodes.jsonl")
        again = json.loads(_run(place, "episodes", "import", "episodes.jsonl", "--output", "json"))
        assert again["added"] == 0, again
        answers = _run(place, "knowledge", "search", "--queries", "questions.jsonl", "--limit", "10")
    hits = {each["id"]: each["hits"] for each in map(json.loads, answers.splitlines())}
    _show("FTS5 with porter stems", timelines, _bare_hits(timelines))
    _show("knowledge search", timelines, hits)


def _bare_hits(timelines: list[Timeline]) -> dict[str, list[str]]:
    """What a bare full-text index finds by any word of a question."""
    found: dict[str, list[str]] = {}
    for timeline in timelines:
        store = sqlite3.connect(":memory:")
        store.execute("CREATE VIRTUAL TABLE said USING fts5(name UNINDEXED, content, tokenize = 'porter unicode61')")
        rows = [(each["name"], f"{each['speaker']}: {each['content']}") for each in timeline.episodes]
        store.executemany("INSERT INTO said VALUES (?, ?)", rows)
        for each in timeline.questions:
            words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", each["query"]))
            asked = store.execute("SELECT name FROM said WHERE said MATCH ? ORDER BY rank LIMIT 10", [words])
            found[each["id"]] = [name for (name,) in asked]
        store.close()
    return found


def _show(title: str, timelines: list[Timeline], hits: dict[str, list[str]]) -> None:
    print(title)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for timeline in timelines:
        for each in timeline.questions:
            wanted, names = set(each["evidence"]), hits[each["id"]]
            shares = [len(wanted & set(names[:most])) / len(wanted) for most in (5, 10)]
            for kind in ("all", _KINDS[each["kind"]], f"{len(timeline.episodes):4} turns"):
                found[kind].append((shares[0], shares[1]))
    for kind in sorted(found):
        shares = found[kind]
        means = "/".join(f"{sum(each[at] for each in shares) / len(shares):.3f}" for at in (0, 1))
        print(f"  {kind:12} R@5/R@10 {means}  n={len(shares)}")


def _write(file: Path, rows: list[dict[str, object]]) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _run(folder: Path, *arguments: str) -> str:
    done = subprocess.run([_COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialogues", type=int, default=6)
    parser.add_argument("--embedder", choices=("auto", "off"), default="auto")
    options = parser.parse_args()
    measure(options.dialogues, options.embedder)
