"""What durable work costs where it is hardest: after kill -9, at the disk, and fifty processes deep."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.bench_engine import ours, resumed
from bench.durable_sizes import DEEP, RESUMED
from bench.harness import Harness, Row
from tests.postgres import running_server
from tests.syncs import syncs_per_step

_ALLOWED_S = 10.0
_MARGIN = 0.1
"""Of a synchronised write: what events that are stored beside may add."""


def measure(harness: Harness) -> list[Row]:
    what = f"{RESUMED:,} runs in flight after kill -9, all ended by another worker"
    rows = [harness.compare(what, resumed(), lambda: _ALLOWED_S, against="10 s", aim=1.0)]
    with running_server() as server:
        rows.append(harness.compare(f"{what}, Postgres", resumed(server), lambda: _ALLOWED_S, against="10 s", aim=1.0))
    rows.append(
        harness.compare(
            f"{DEEP} processes deep, CPU", ours("nested", "cpu"), ours("chain", "cpu"), against=f"{DEEP} steps", aim=1.1
        )
    )
    return rows + [
        harness.compare(f"synchronised writes of a {name}", _syncs(tool, **strict), lambda: 1.0, against="one", aim=aim)
        for name, tool, strict, aim in (
            ("durable read", "look", {}, _MARGIN),
            ("durable read that costs money", "look", {"RUN_WORKER_STRICT": "1"}, 1.0 + _MARGIN),
            ("durable write", "pay", {}, 2.5),
        )
    ]


def _syncs(tool_id: str, **variables: str) -> Callable[[], float]:
    def contender() -> float:
        with tempfile.TemporaryDirectory() as folder:
            return syncs_per_step(Path(folder), tool_id, **variables)

    return contender
