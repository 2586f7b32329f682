"""A durable step against one of Prefect, whose client alone is counted: its server runs in another process."""

from __future__ import annotations

from bench.bench_engine import ours, peer
from bench.durable_sizes import CHAIN
from bench.harness import Harness, Row


def measure(harness: Harness) -> list[Row]:
    what = f"a durable step, CPU, {CHAIN} in order"
    return [
        harness.compare(
            what, ours("chain", "cpu"), peer("prefect", "chain", "cpu"), against="Prefect's client alone", aim=0.2
        )
    ]
