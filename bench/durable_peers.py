"""The peers of the benchmark of durable work, run by the Python of their own environment.

Usage: durable_peers.py dbos|langgraph|prefect KIND FOLDER [POSTGRES_URL]. Writes FOLDER/result.json: processor and
wall-clock seconds of the work alone. What a peer needs before it can begin is made before the clock starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

sys.path.insert(0, str(Path(__file__).parent))
from durable_sizes import CHAIN, GOVERNED, IDLE_S, JOBS, RUNS, STEPS  # pyright: ignore[reportImplicitRelativeImport]

QUEUES = 5


class Clock:
    """The seconds since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def told(self) -> dict[str, float]:
        return {"cpu": time.process_time() - self._cpu, "wall": time.perf_counter() - self._wall}


def run_dbos(kind: str, folder: Path, url: str | None) -> dict[str, float]:
    peer: Any = import_module("dbos").DBOS
    config: dict[str, Any] = {"name": "bench", "run_admin_server": False, "log_level": "ERROR"}
    peer(config=config | (_sqlite_of_ours(folder) if url is None else {"system_database_url": url}))

    @peer.step()
    async def look(number: int) -> int:
        return number

    @peer.workflow()
    async def chain(steps: int) -> None:
        for number in range(steps):
            await look(number)

    async def work() -> dict[str, float]:
        queues = [
            await peer.register_queue_async(f"bench-{number}", polling_interval_sec=0.1) for number in range(QUEUES)
        ]
        await (await peer.start_workflow_async(chain, 1)).get_result()
        clock = Clock()
        if kind == "chain":
            await (await peer.start_workflow_async(chain, CHAIN)).get_result()
        elif kind == "many":
            handles = await asyncio.gather(*(peer.start_workflow_async(chain, STEPS) for _ in range(RUNS)))
            await asyncio.gather(*(handle.get_result() for handle in handles))
        elif kind == "jobs":
            handles = await asyncio.gather(*(queues[0].enqueue_async(chain, 1) for _ in range(JOBS)))
            await asyncio.gather(*(handle.get_result(polling_interval_sec=0.1) for handle in handles))
        else:
            await asyncio.sleep(IDLE_S)
        return clock.told()

    peer.launch()
    try:
        return asyncio.run(work())
    finally:
        peer.destroy()


def _sqlite_of_ours(folder: Path) -> dict[str, Any]:
    """The library, journal and synchronisation that TwinRaven has; DBOS as shipped synchronises four times a step."""
    sa: Any = import_module("sqlalchemy")
    url = f"sqlite:///{folder / 'dbos.db'}"
    engine = sa.create_engine(url, module=import_module("pysqlite3.dbapi2"), pool_size=20)

    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")

    sa.event.listen(engine, "connect", prepare)
    return {"system_database_engine": engine, "system_database_url": url}


class State(TypedDict):
    """What LangGraph's nodes pass on."""

    number: int


def _is_over(state: State) -> bool:
    return state["number"] % CHAIN == 0


def _next(state: State) -> State:
    return {"number": state["number"] + 1}


def run_langgraph(kind: str, folder: Path, url: str | None) -> dict[str, float]:
    peer: Any = import_module("langgraph.graph")
    graph: Any = peer.StateGraph(State)
    graph.add_node("look", _next)
    graph.add_edge(peer.START, "look")
    if kind == "interrupt":
        graph.add_node("judge", _judge)
        graph.add_edge("look", "judge")
    else:
        graph.add_conditional_edges("look", _is_over, {True: peer.END, False: "look"})
    saver: Any
    if url is None:
        connection = sqlite3.connect(folder / "saver.db", check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        saver = import_module("langgraph.checkpoint.sqlite").SqliteSaver(connection)
    else:
        psycopg: Any = import_module("psycopg")
        rows: Any = import_module("psycopg.rows")
        link = psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=rows.dict_row)
        saver = import_module("langgraph.checkpoint.postgres").PostgresSaver(link)
    saver.setup()
    flow = graph.compile(checkpointer=saver)

    def once(thread: str) -> None:
        config = {"configurable": {"thread_id": thread}, "recursion_limit": CHAIN + 10}
        flow.invoke({"number": 0}, config, durability="sync")

    if kind == "interrupt":
        return _interrupted(flow)
    once("first")
    clock = Clock()
    once("second")
    return clock.told()


def _judge(state: State) -> State:
    """Wait for somebody's yes."""
    types: Any = import_module("langgraph.types")
    return {"number": state["number"] if types.interrupt("approve?") else 0}


def _interrupted(flow: Any) -> dict[str, float]:
    """Graphs that stop for a yes and are resumed with it."""
    types: Any = import_module("langgraph.types")

    def approved(thread: str) -> None:
        config = {"configurable": {"thread_id": thread}}
        flow.invoke({"number": 0}, config, durability="sync")
        flow.invoke(types.Command(resume=True), config, durability="sync")

    approved("first")
    clock = Clock()
    for number in range(GOVERNED):
        approved(f"t{number}")
    return clock.told()


def run_prefect(kind: str, folder: Path, url: str | None) -> dict[str, float]:
    assert kind == "chain"
    assert url is None
    os.environ |= {
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "DO_NOT_TRACK": "1",
    }
    peer: Any = import_module("prefect")

    @peer.task
    def look(number: int) -> int:
        return number

    @peer.flow
    def chain(steps: int) -> None:
        for number in range(steps):
            look(number)

    chain(1)
    clock = Clock()
    chain(CHAIN)
    return clock.told()


PEERS = {"dbos": run_dbos, "langgraph": run_langgraph, "prefect": run_prefect}


def main(peer: str, kind: str, folder: str, url: str | None = None) -> None:
    measured = PEERS[peer](kind, Path(folder), url)
    (Path(folder) / "result.json").write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # some of them have threads that do not end
