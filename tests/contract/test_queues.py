"""What goes through queues and what does not, seen through the REST door of a home."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import ApiHome, api_home, made
from tests.unit.catalog.town import inputs, service_body, tool_body
from tests.working import FAST, reach, until, working
from twinraven.catalog import tool


class Desk:
    """A desk that is read from and written to, and says what was done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.gate = asyncio.Event()

    @tool(effect="read")
    async def glance(self, item: str) -> str:
        """Look at something."""
        self.done.append(f"glance {item}")
        return item

    @tool(effect="write")
    async def file(self, item: str) -> str:
        """Put something away."""
        self.done.append(f"file {item}")
        await self.gate.wait()
        if item == "lost":
            raise ValueError(item)
        return item


PROCESS: dict[str, Any] = {
    "id": "tidy",
    "description": "Put an item away",
    "initial_context": ["item"],
    "steps": [{"id": "put", "tool": "file", "inputs": {"item": "{step.item}"}, "output": {"variable": "put"}}],
}


@pytest.mark.req("AD-15")
async def test_reads_bypass_the_queue_and_mutating_steps_do_not(tmp_path: Path) -> None:
    """A read is answered at once, whoever works; a mutating step of a process waits on the queue of its type."""
    desk = Desk()
    async with api_home(tmp_path, functions=[desk.glance, desk.file], engine=FAST) as home:
        await home.door.post("/v1/processes", {"definition": PROCESS})
        glance = {"tool_name": "glance", "payload": {"item": "a"}, "session_id": "s"}
        assert (await home.door.post("/v1/calls", glance)).json()["output"] == "a"
        started = await home.door.post("/v1/processes/tidy/runs", {"parameters": {"item": "b"}, "run_id": "r"})
        assert (started.status, started.json()["state"]) == (202, "queued")
        async with working(home.raven, types=["rest_api"]):
            await reach(home.raven, "r", "waiting")
            shown = (await home.door.get("/v1/runs/r")).json()
            assert [(job["queue"], job["state"]) for job in shown["jobs"] if job["place"]] == [("python", "queued")]
            assert (await home.door.post("/v1/calls", glance)).json()["output"] == "a"
            assert desk.done == ["glance a", "glance a"]
            desk.gate.set()
            async with working(home.raven, types=["python"]):
                await reach(home.raven, "r", "succeeded")
        assert desk.done[2:] == ["file b"]
        assert [run["target"] for run in (await home.door.get("/v1/runs")).json()["items"]] == ["tidy"]


@pytest.mark.req("AD-15", "AD-14")
async def test_each_step_of_a_run_waits_on_the_queue_of_its_own_type(tmp_path: Path) -> None:
    """Where nobody serves its type a step waits, a read as well: a look through a function, then a service."""
    desk = Desk()
    look = {"id": "look", "tool": "glance", "inputs": {"item": "c"}, "output": {"variable": "seen"}}
    send = {"id": "send", "tool": "send", "inputs": {"item": "c"}, "output": {"variable": "sent"}}
    operation = {"type": "rest_call", "method": "POST", "path": "/parcels/{{item}}"}
    async with api_home(tmp_path, functions=[desk.glance], engine=FAST) as home:
        made(await home.door.post("/v1/services", service_body()))
        made(await home.door.post("/v1/tools", tool_body(key="send", operation=operation, inputSchema=inputs("item"))))
        body = {"id": "parcel", "description": "Look, then send", "initial_context": [], "steps": [look, send]}
        made(await home.door.post("/v1/processes", {"definition": body}))
        await home.door.post("/v1/processes/parcel/runs", {"run_id": "r"})
        for types, queue, done in ((["mcp"], "python", []), (["python"], "rest_api", ["glance c"])):
            async with working(home.raven, types=types):
                async with asyncio.timeout(20):
                    while not (waiting := await _waiting(home, queue)):  # noqa: ASYNC110 - no event tells of a row
                        await asyncio.sleep(0.02)
            assert (waiting, desk.done) == (["queued"], done)


async def _waiting(home: ApiHome, queue: str) -> list[str]:
    """The states of the jobs that run `r` has on a queue of steps."""
    jobs = (await home.door.get("/v1/runs/r")).json()["jobs"]
    return [job["state"] for job in jobs if job["place"] and job["queue"] == queue]


@pytest.mark.req("AD-14")
async def test_workers_say_what_they_do_and_have_done(tmp_path: Path) -> None:
    """Each slot is a worker with a type, a state, its job and its counts; one that stops is offline."""
    desk = Desk()
    pools = [{"queue": "runs", "slots": 2}, {"queue": "python", "slots": 1}]
    engine = {**FAST, "lease_s": 60, "pools": pools}
    async with api_home(tmp_path, functions=[desk.glance, desk.file], engine=engine) as home:
        await home.door.post("/v1/processes", {"definition": PROCESS})

        async def seen() -> list[dict[str, Any]]:
            return (await home.door.get("/v1/workers?limit=200")).json()["items"]

        async def states() -> list[str]:
            shown = [(await home.door.get(f"/v1/runs/{name}")).json()["jobs"] for name in ("r1", "r2")]
            return [job["state"] for jobs in shown for job in jobs]

        async with working(home.raven, types=["python"]):
            async with asyncio.timeout(20):
                while not (idle := await seen()):  # noqa: ASYNC110 - the worker's first heartbeat sets no event
                    await asyncio.sleep(0.02)
            assert Counter(worker["type"] for worker in idle) == {"runs": 2, "python": 1}
            assert {(worker["status"], worker["currentJobId"]) for worker in idle} == {("idle", None)}
            for name, item in (("r1", "kept"), ("r2", "lost"), ("r3", "later")):
                await home.door.post("/v1/processes/tidy/runs", {"parameters": {"item": item}, "run_id": name})
            await until(lambda: len(desk.done) == 1)
            async with asyncio.timeout(20):
                while sum(each["status"] == "busy" for each in await seen()) < 2:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.02)
            assert {each["currentJobId"] for each in await seen()} == {"r1", "r2", None}
            async with asyncio.timeout(20):
                while sorted(await states()) != ["assigned", "executing"]:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.02)
            assert len(desk.done) == 1, "one slot makes one call at a time"
            third = (await home.door.get("/v1/runs/r3")).json()["jobs"]
            assert [job["state"] for job in third] == ["queued"], "two slots take two runs"
            desk.gate.set()
            await reach(home.raven, "r1", "succeeded")
            await reach(home.raven, "r2", "failed")
            await reach(home.raven, "r3", "succeeded")
        assert await states() == ["completed", "failed"]
        gone = await seen()
    assert {(worker["status"], worker["currentJobId"]) for worker in gone} == {("offline", None)}
    for kind in ("runs", "python"):
        mine = [worker for worker in gone if worker["type"] == kind]
        assert sum(worker["processedCount"] for worker in mine) == 3
        assert sum(worker["errorCount"] for worker in mine) == 1


@pytest.mark.req("AD-14")
async def test_a_worker_beats_as_long_as_it_lives(tmp_path: Path) -> None:
    """Beats go on while a tool is at work, and with them the worker's right to its job."""
    desk = Desk()
    async with api_home(tmp_path, functions=[desk.file], engine={**FAST, "lease_s": 1}) as home:
        await home.door.post("/v1/processes", {"definition": PROCESS})

        async def beats() -> set[str]:
            return {each["lastHeartbeat"] for each in (await home.door.get("/v1/workers?limit=200")).json()["items"]}

        async with working(home.raven):
            await home.door.post("/v1/processes/tidy/runs", {"parameters": {"item": "b"}, "run_id": "r"})
            await until(lambda: len(desk.done) == 1)
            heard = await beats()
            async with asyncio.timeout(60):
                while len(heard) < 5:
                    await asyncio.sleep(0.1)
                    heard |= await beats()
            desk.gate.set()
            await reach(home.raven, "r", "succeeded")
    assert desk.done == ["file b"]
