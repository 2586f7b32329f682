"""Durable work against DBOS, LangGraph's savers and Prefect, each in a process and an environment of its own.

Processor time is the figure, because neighbours cannot change it; wall-clock time stands where waiting is what matters.
A peer stores each step at once. A run of ours stores what a read answered with the next intent or with its end, since
nothing that happened depends on it until then: that is the difference most of these rows measure.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from bench.durable_sizes import CHAIN
from bench.harness import HERE, Contender, Harness, Row, peer_python
from tests.postgres import EMPTY, MIGRATED, PostgresServer

_PATIENCE_S = 600


def measure(harness: Harness) -> list[Row]:
    """What a durable step costs in order, in many runs, through a queue, and what waiting for one costs."""
    cpu = harness.sample(
        {
            "TwinRaven": ours("chain", "cpu"),
            "DBOS": peer("dbos", "chain", "cpu"),
            "LangGraph": peer("langgraph", "chain", "cpu"),
        }
    )
    rows = [
        harness.row(f"a durable step, CPU, {CHAIN} in order", cpu, ours="TwinRaven", against=name, aim=aim)
        for name, aim in (("DBOS", 0.5), ("LangGraph", 1.0))
    ]
    for name, kind, what, aim in (
        ("20 runs at once, wall", "many", "wall", 0.3),
        ("a job through the queue, wall", "jobs", "wall", 0.2),
        ("an idle worker of five queues, CPU", "idle", "cpu", 0.3),
    ):
        rows.append(harness.compare(name, ours(kind, what), peer("dbos", kind, what), against="DBOS", aim=aim))
    return rows


def ours(kind: str, what: str, server: PostgresServer | None = None) -> Contender:
    """Seconds of one kind of work by TwinRaven."""
    command = [sys.executable, "-m", "bench.durable_ours", kind]
    return _in_a_process(command, what, server, is_ours=True)


def resumed(server: PostgresServer | None = None) -> Contender:
    """Seconds until all runs of a killed worker have ended with another."""
    return _in_a_process([sys.executable, "-m", "bench.durable_resumed"], "wall", server, is_ours=True)


def peer(name: str, kind: str, what: str, server: PostgresServer | None = None) -> Contender:
    """Seconds of the same work by a peer."""
    command = [str(peer_python(name)), str(HERE / "durable_peers.py"), name, kind]
    return _in_a_process(command, what, server, is_ours=False)


def _in_a_process(command: list[str], what: str, server: PostgresServer | None, *, is_ours: bool) -> Contender:
    def once(*store: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            full = [*command, folder, *store]
            # A session of its own, because Prefect leaves the server behind that it started.
            with subprocess.Popen(
                full, cwd=HERE.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            ) as process:
                code = process.wait(_PATIENCE_S)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            if code != 0:
                raise RuntimeError(f"{' '.join(full)} ended with {code}")
            return float(json.loads((Path(folder) / "result.json").read_text(encoding="utf-8"))[what])

    def contender() -> float:
        if server is None:
            return once()
        with server.fresh_database(template=MIGRATED if is_ours else EMPTY) as login:
            return once(login.url, login.admin_url) if is_ours else once(login.admin_url)

    return contender
