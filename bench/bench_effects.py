"""What governance costs: a judged task beside the same run ungoverned and beside LangGraph with an interrupt and its
saver; what several workers make of judged tasks on Postgres; and what a trace costs beside one look-up, among many
audit entries.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from bench.bench_engine import peer
from bench.durable_sizes import CROWD, NOISE, TOOL_MS
from bench.harness import HERE, Contender, Harness, Row
from tests.postgres import PostgresServer, running_server


def measure(harness: Harness) -> list[Row]:
    with running_server() as server:
        crowds = [_crowd_row(harness, server, 0), _crowd_row(harness, server, TOOL_MS)]
        return [*_measure(harness), *crowds]


def _crowd_row(harness: Harness, server: PostgresServer, milliseconds: int) -> Row:
    """Seconds until a crowd of judged tasks is done; the figure behind it is tasks per second."""
    workers = (("four", 4), ("one", 1))
    samples = harness.sample({name: crowd(server, count, milliseconds) for name, count in workers})
    what = f"tools of {milliseconds} ms" if milliseconds else "no-op tools"
    for name, seconds in samples.items():
        rates = sorted(CROWD / each for each in seconds)
        told = f"{rates[0]:.0f} to {rates[-1]:.0f} judged tasks a second"
        print(f"bench: {name} on Postgres, {what}: {told}", file=sys.stderr)
    return harness.row(
        f"{CROWD} judged tasks with {what} by four workers on Postgres, wall",
        {"TwinRaven": samples["four"], "one worker": samples["one"]},
        ours="TwinRaven",
        against="one worker",
        aim=1.0,
    )


def _measure(harness: Harness) -> list[Row]:
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
    return lambda: _done(kind, "cpu")


def crowd(server: PostgresServer, workers: int, milliseconds: int) -> Contender:
    """Seconds until so many workers, each a process of its own, have done a crowd of tasks."""

    def contender() -> float:
        with server.fresh_database() as login:
            return _done("crowd", "wall", login.url, login.admin_url, str(workers), str(milliseconds))

    return contender


def _done(kind: str, what: str, *more: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.governed_work", kind, folder, *more]
        done = subprocess.run(command, cwd=HERE.parent, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1])[what])
