"""The governed work that bench_effects measures, each kind in a process of its own.

Usage: python -m bench.governed_work judged|bare|trace|look FOLDER, or crowd FOLDER URL ADMIN_URL WORKERS MILLISECONDS
for workers on Postgres that are processes of their own, and a tool that takes so long. Prints JSON: processor and
wall-clock seconds of the work alone. A home is opened, and its workers are up, before the clock starts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.durable_sizes import CROWD, GOVERNED, LOOKS, NOISE
from tests.governed import approved_task
from twinraven.app import TwinRaven, open_home
from twinraven.audit import NewAuditEntry
from twinraven.catalog import tool
from twinraven.effects import PaymentRequest
from twinraven.engine import RunRequest
from twinraven.tenancy import LOCAL

ENGINE = {"poll_s": 0.1, "lease_s": 60, "pools": [{"queue": "runs", "slots": 16}, {"queue": "python", "slots": 16}]}


@tool(effect="read")
async def look(number: int, milliseconds: int = 0) -> dict[str, int]:
    """Nothing, read, after a while."""
    if milliseconds:
        await asyncio.sleep(milliseconds / 1_000)
    return {"number": number}


async def _judging(raven: TwinRaven, milliseconds: int = 0) -> Callable[[int, int], Awaitable[None]]:
    """What plans so many tasks and waits until all of them are judged."""
    campaign = await raven.campaigns.create("bench", by=LOCAL)
    goal = await raven.campaigns.add_goal(campaign.campaign_id, "bench", by=LOCAL)
    criterion = {"id": "done", "description": "it answered", "check": "exists($.output)"}

    async def work(first: int, count: int) -> None:
        tasks = [
            {
                "name": f"t{number}",
                "task_type": "other",
                "description": "look",
                "inputs": {"number": number, "milliseconds": milliseconds},
                "run": {"tool": "look"},
                "acceptance_criteria": [criterion],
            }
            for number in range(first, first + count)
        ]
        await raven.planner.plan(goal.goal_id, tasks, by=LOCAL)
        while await raven.tasks.are_moving("default"):  # noqa: ASYNC110 - what it asks sets no event
            await asyncio.sleep(0.05)

    return work


async def judged(raven: TwinRaven) -> dict[str, float]:
    """Tasks that are planned, attempted, judged by the checks of the house and approved."""
    return await _worked(raven, await _judging(raven))


async def crowd(raven: TwinRaven, workers: int, milliseconds: int) -> dict[str, float]:
    """The same by workers in processes of their own, which have all taken something before the clock starts."""
    command = [sys.executable, "-m", "bench.governed_work", "worker", str(raven.home)]
    pipe = asyncio.subprocess.PIPE
    processes = [await asyncio.create_subprocess_exec(*command, stdout=pipe) for _ in range(workers)]
    try:
        for process in processes:
            assert process.stdout is not None
            await process.stdout.readline()
        work = await _judging(raven, milliseconds)
        await work(0, 8 * workers)
        begun = time.perf_counter()
        await work(8 * workers, CROWD)
        return {"wall": time.perf_counter() - begun}
    finally:
        for process in processes:
            process.kill()
            await process.wait()


async def stay_at_work(home: Path) -> None:
    """Work until the process is ended."""
    with open_home(home, functions=[look]) as raven:
        async with raven.working():
            print("up", flush=True)
            await asyncio.Event().wait()


async def bare(raven: TwinRaven) -> dict[str, float]:
    """The same calls as plain durable runs."""

    async def work(first: int, count: int) -> None:
        for number in range(first, first + count):
            await raven.runs.start(RunRequest({"number": number}, tool_id="look"), by=LOCAL)
        while await _is_busy(raven):  # noqa: ASYNC110 - what it asks sets no event
            await asyncio.sleep(0.05)

    return await _worked(raven, work)


async def _is_busy(raven: TwinRaven) -> bool:
    lists = [await raven.runs.list("default", state=state, limit=1) for state in ("queued", "running")]
    return any(lists)


async def _worked(raven: TwinRaven, work: Callable[[int, int], Awaitable[None]]) -> dict[str, float]:
    async with raven.working():
        await work(0, 2)
        cpu, wall = time.process_time(), time.perf_counter()
        await work(2, GOVERNED)
        return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


async def _paid(raven: TwinRaven) -> str:
    """A payment among many audit entries about other things."""
    task = await approved_task(raven)
    opened = await raven.wallets.open("bench", "EUR", by=LOCAL)
    await raven.wallets.fund(opened.wallet.wallet_id, "10.00", key="f", by=LOCAL)
    wish = PaymentRequest(task.task_id, opened.wallet.wallet_id, "1.00", "EUR", "bench", "k")
    made = (await raven.effects.pay(wish, by=LOCAL)).as_json()["transaction_id"]
    async with raven.working():
        while await _status(raven, made) != "executed":  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)

    def noise(tx: Any) -> None:
        for number in range(1_000):
            raven.audit.append(tx, NewAuditEntry("default", "noise", "transaction", f"other-{number % 97}"))

    for _ in range(NOISE // 1_000):
        await raven.database.write("default", noise)
    return made


async def _status(raven: TwinRaven, transaction_id: str) -> str:
    return (await raven.effects.get("transaction", transaction_id, by=LOCAL)).as_json()["status"]


async def trace(raven: TwinRaven) -> dict[str, float]:
    """Traces of one payment, whole."""
    made = await _paid(raven)
    return await _repeated(lambda: raven.tracer.trace("default", f"transaction:{made}"))


async def look_up(raven: TwinRaven) -> dict[str, float]:
    """Look-ups of the same payment by its id."""
    made = await _paid(raven)
    return await _repeated(lambda: raven.effects.get("transaction", made, by=LOCAL))


async def _repeated(ask: Callable[[], Awaitable[object]]) -> dict[str, float]:
    await ask()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(LOOKS):
        await ask()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


KINDS = {"judged": judged, "bare": bare, "trace": trace, "look": look_up}


async def main(kind: str, folder: Path, *store: str) -> None:
    if kind == "worker":
        await stay_at_work(folder)
        return
    home = folder / ".twinraven"
    sections: dict[str, Any] = {"engine": ENGINE}
    home.mkdir()
    if store:
        sections["storage"] = {"url": store[0], "admin_url": store[1]}
    (folder / "twinraven.yaml").write_text(json.dumps(sections))
    with open_home(home, functions=[look]) as raven:
        print(json.dumps(await (crowd(raven, int(store[2]), int(store[3])) if store else KINDS[kind](raven))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
