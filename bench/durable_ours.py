"""The durable work that bench_engine measures, done by TwinRaven in a process of its own.

Usage: python -m bench.durable_ours KIND FOLDER [POSTGRES_URL ADMIN_URL]. Writes FOLDER/result.json:
processor and wall-clock seconds of the work alone. A home is opened, and its worker is up, before the clock starts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.durable_sizes import CHAIN, DEEP, IDLE_S, JOBS, RUNS, STEPS, WIDE
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext, SkillInvocationRequest
from twinraven.catalog import tool
from twinraven.engine import RunRequest, ended_run
from twinraven.flow import FlowDefinition
from twinraven.foundation.ids import new_id
from twinraven.processes import Process
from twinraven.tenancy import LOCAL

ENGINE = {"poll_s": 0.1, "lease_s": 60, "pools": [{"queue": "runs", "slots": 64}, {"queue": "python", "slots": 64}]}


@tool(effect="read")
async def look(number: int) -> int:
    """Nothing, read."""
    return number


@tool(effect="write")
async def put(number: int) -> int:
    """Nothing, written."""
    return number


def flow_of(tool_id: str, steps: int, *, wide: bool = False) -> FlowDefinition:
    body: list[dict[str, Any]] = [
        {
            "step_index": number,
            "tool_id": tool_id,
            "input_mapping": {"number": number},
            **({"id": f"s{number}", "after": []} if wide else {}),
        }
        for number in range(steps)
    ]
    return FlowDefinition.from_json(
        {"tool_id": "bench", "description": "Steps.", "parameters": {"type": "object"}, "steps": body}
    )


async def run_all(raven: TwinRaven, definition: FlowDefinition, runs: int) -> None:
    """So many runs of a flow, all started first, until the last has ended."""
    started = await asyncio.gather(
        *(raven.runs.start(RunRequest({}, definition=definition), by=LOCAL) for _ in range(runs))
    )
    if runs == 1:  # waited for as the product waits, which looks ever more rarely
        await ended_run(raven.runs, "default", started[0].run_id)
    while await _left(raven):  # noqa: ASYNC110 - runs are ended by a worker that may be another process
        await asyncio.sleep(0.02)
    assert (await raven.runs.get("default", started[-1].run_id)).run.state == "succeeded"


async def _left(raven: TwinRaven) -> int:
    row = await raven.database.read(
        "default", lambda tx: tx.fetch_one("SELECT COUNT(*) AS runs FROM runs WHERE state = 'active'")
    )
    return 0 if row is None else row["runs"]


async def save_levels(raven: TwinRaven) -> None:
    """Processes of one step each, every one of which calls the next."""
    for number in reversed(range(DEEP)):
        steps: list[dict[str, Any]] = [
            {"id": "look", "tool": "look", "inputs": {"number": number}, "output": {"variable": "seen"}}
        ]
        if number < DEEP - 1:
            steps.append({"id": "down", "process": f"level{number + 1}", "output": {"variable": "below"}})
        body = {"id": f"level{number}", "description": "One level", "steps": steps, "max_recursion_depth": DEEP}
        await raven.processes.save(Process.from_json(body), by=LOCAL)


async def run_levels(raven: TwinRaven) -> None:
    """A run that goes through all of them."""
    run = await raven.processes.run("level0", {}, by=LOCAL)
    while (state := (await raven.runs.get("default", run.run_id)).run.state) != "succeeded":
        assert state != "failed"
        await asyncio.sleep(0.02)


async def call_alone(raven: TwinRaven, calls: int) -> None:
    """The same writes without anything durable around them."""
    context = CallContext("bench", durable=False)
    for number in range(calls):
        request = SkillInvocationRequest("put", {"number": number}, idempotency_key=new_id())
        assert (await raven.calls.invoke(request, context)).error is None


KINDS: dict[str, Callable[[TwinRaven], Awaitable[None]]] = {
    "chain": lambda raven: run_all(raven, flow_of("look", CHAIN), 1),
    "writes": lambda raven: run_all(raven, flow_of("put", CHAIN), 1),
    "calls": lambda raven: call_alone(raven, CHAIN),
    "many": lambda raven: run_all(raven, flow_of("look", STEPS), RUNS),
    "jobs": lambda raven: run_all(raven, flow_of("look", 1), JOBS),
    "idle": lambda _: asyncio.sleep(IDLE_S),
    "wide": lambda raven: run_all(raven, flow_of("look", WIDE, wide=True), 1),
    "nested": run_levels,
    "deep": lambda raven: run_all(raven, flow_of("look", WIDE), 1),
}


async def measure(kind: str, home: Path) -> dict[str, float]:
    with open_home(home, functions=[look, put]) as raven:
        async with raven.working(["python", "rest_api", "llm_call", "graph_query", "mcp"]):
            await run_all(raven, flow_of("look", 1), 1)
            if kind == "nested":
                await save_levels(raven)
                await run_levels(raven)
            cpu, wall = time.process_time(), time.perf_counter()
            await KINDS[kind](raven)
            await asyncio.to_thread(raven.collector.flush)
            return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def main(kind: str, folder: str, *store: str) -> None:
    home = Path(folder) / ".twinraven"
    home.mkdir(parents=True)
    settings: dict[str, object] = {"engine": ENGINE}
    if store:
        settings["storage"] = {"url": store[0], "admin_url": store[1]}
    (Path(folder) / "twinraven.yaml").write_text(json.dumps(settings))
    (Path(folder) / "result.json").write_text(json.dumps(asyncio.run(measure(kind, home))), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
