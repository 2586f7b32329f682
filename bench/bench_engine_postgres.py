"""Durable work on Postgres against DBOS and LangGraph's saver on the same server."""

from __future__ import annotations

from bench.bench_engine import ours, peer
from bench.harness import Harness, Row
from tests.postgres import PostgresServer, running_server


def measure(harness: Harness) -> list[Row]:
    with running_server() as server:
        return _measure_on(harness, server)


def _measure_on(harness: Harness, server: PostgresServer) -> list[Row]:
    cpu = harness.sample(
        {
            "TwinRaven": ours("chain", "cpu", server),
            "DBOS on Postgres": peer("dbos", "chain", "cpu", server),
            "LangGraph on Postgres": peer("langgraph", "chain", "cpu", server),
        }
    )
    rows = [
        harness.row("a durable step on Postgres, CPU", cpu, ours="TwinRaven", against=name, aim=aim)
        for name, aim in (("DBOS on Postgres", 0.6), ("LangGraph on Postgres", 1.0))
    ]
    rows.append(
        harness.compare(
            "a job through the queue on Postgres, wall",
            ours("jobs", "wall", server),
            peer("dbos", "jobs", "wall", server),
            against="DBOS on Postgres",
            aim=1.0,
        )
    )
    return rows
