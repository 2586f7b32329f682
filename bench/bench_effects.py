"""What governance costs: a judged task beside the same run ungoverned and beside LangGraph with an interrupt and its
saver; and what a trace costs beside one look-up, among many audit entries.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from bench.bench_engine import peer
from bench.durable_sizes import NOISE
from bench.harness import HERE, Contender, Harness, Row


def measure(harness: Harness) -> list[Row]:
    cpu = harness.sample(
        {"TwinRaven": ours("judged"), "ungoverned": ours("bare"), "LangGraph": peer("langgraph", "interrupt", "cpu")}
    )
    return [
        harness.row("a judged task, CPU", cpu, ours="TwinRaven", against="ungoverned", aim=3.0),
        harness.row("a judged task, CPU", cpu, ours="TwinRaven", against="LangGraph", aim=3.0),
        harness.compare(
            f"a trace among {NOISE} entries, CPU", ours("trace"), ours("look"), against="one look-up", aim=10.0
        ),
    ]


def ours(kind: str) -> Contender:
    """Processor seconds of one kind of work, in a process of its own."""

    def contender() -> float:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "bench.governed_work", kind, folder]
            done = subprocess.run(command, cwd=HERE.parent, check=True, capture_output=True, text=True)
        return float(json.loads(done.stdout.splitlines()[-1])["cpu"])

    return contender
