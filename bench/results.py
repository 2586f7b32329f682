"""Where results go: bench/results.json for programs, a table in docs/benchmarks.md for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.harness import HERE, Row

RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- results -->", "<!-- end of results -->"


def read_rows(path: Path = RESULTS) -> list[Row]:
    if not path.exists():
        return []
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def merge(old: Iterable[Row], new: Sequence[Row], *, measured: Iterable[str], known: Iterable[str]) -> list[Row]:
    """New rows take the place of all old rows of their modules; rows of modules that are gone go too."""
    replaced, still_there = set(measured), set(known)
    kept = [row for row in old if (module := module_of(row)) in still_there and module not in replaced]
    return sorted([*kept, *new], key=lambda row: row.name)


def module_of(row: Row) -> str:
    return row.name.partition(":")[0]


def write_rows(rows: Sequence[Row], path: Path = RESULTS) -> None:
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_page(rows: Sequence[Row], path: Path = PAGE) -> None:
    """Put the table between its markers and leave every other word alone."""
    text = path.read_text(encoding="utf-8")
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{path} has lost its markers {_BEGIN} and {_END}")
    path.write_text(f"{head}{begin}\n{as_markdown(rows)}\n{end}{tail}", encoding="utf-8")


def as_markdown(rows: Sequence[Row]) -> str:
    lines = ["| what | against | ratio | spread | aim | met |", "|---|---|---:|---:|---:|---|"]
    lines += [
        f"| {row.name} | {row.against} | {row.ratio:.2f} | {row.low:.2f}–{row.high:.2f} | ≤ {row.aim:g} "
        f"| {'yes' if row.is_met else '**no**'} |"
        for row in rows
    ]
    return "\n".join([*lines, "", f"Python {platform.python_version()}, {os.cpu_count()} processors."])


def as_text(rows: Sequence[Row]) -> str:
    width = max((len(row.name) for row in rows), default=0)
    return "\n".join(
        f"{'ok  ' if row.is_met else 'MISS'} {row.name:<{width}}  {row.ratio:6.2f}  "
        f"[{row.low:.2f} – {row.high:.2f}]  aim ≤ {row.aim:g}  against {row.against}"
        for row in rows
    )
