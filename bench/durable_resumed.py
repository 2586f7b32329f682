"""A thousand runs whose worker is killed, taken up by another: what bench_engine_faults measures, in its own process.

Usage: python -m bench.durable_resumed FOLDER [POSTGRES_URL ADMIN_URL]. Writes FOLDER/result.json: wall-clock and
processor seconds from the moment at which the dead worker's lease has run out until every run has ended.
`python -m bench.durable_resumed hang HOME` is the worker that is killed: it takes every run and ends none.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.durable_ours import flow_of
from bench.durable_sizes import RESUMED
from twinraven.app import TwinRaven, open_home
from twinraven.catalog import tool
from twinraven.engine import RunRequest
from twinraven.tenancy import LOCAL

_POOL = {"slots": RESUMED}
ENGINE = {"poll_s": 0.1, "lease_s": 2, "pools": [{"queue": "runs", **_POOL}, {"queue": "python", **_POOL}]}
_HANGS = "DURABLE_RESUMED_HANGS"


@tool(effect="read")
async def look(number: int) -> int:
    """Nothing, read; for ever in the worker that is to be killed."""
    if _HANGS in os.environ:
        await asyncio.Event().wait()
    return number


async def hang(home: Path) -> None:
    """Take runs until killed."""
    with open_home(home, functions=[look]) as raven:
        async with raven.working():
            await asyncio.Event().wait()


async def count(raven: TwinRaven, sql: str) -> int:
    row = await raven.database.read("default", lambda tx: tx.fetch_one(sql))
    return 0 if row is None else int(row["found"])


async def measure(home: Path) -> dict[str, float]:
    with open_home(home, functions=[look]) as raven:
        wish = RunRequest({}, definition=flow_of("look", 2))
        await asyncio.gather(*(raven.runs.start(wish, by=LOCAL) for _ in range(RESUMED)))
        command = [sys.executable, "-m", "bench.durable_resumed", "hang", str(home)]
        with subprocess.Popen(  # noqa: ASYNC220 - the clock does not run yet
            command, env={**os.environ, _HANGS: "1"}
        ) as child:
            taken = "SELECT COUNT(*) AS found FROM run_dispatch WHERE worker IS NOT NULL"
            while await count(raven, taken) < RESUMED:
                assert child.poll() is None
                await asyncio.sleep(0.05)
            child.kill()
        while any(worker.status != "offline" for worker in await raven.runs.workers()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        cpu, wall = time.process_time(), time.perf_counter()
        async with raven.working():
            while await count(raven, "SELECT COUNT(*) AS found FROM runs WHERE state = 'active'"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            told = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        assert await count(raven, "SELECT COUNT(*) AS found FROM runs WHERE state = 'succeeded'") == RESUMED
        return told


def main(folder: str, *store: str) -> None:
    home = Path(folder) / ".twinraven"
    home.mkdir(parents=True)
    settings: dict[str, object] = {"engine": ENGINE}
    if store:
        settings["storage"] = {"url": store[0], "admin_url": store[1]}
    (Path(folder) / "twinraven.yaml").write_text(json.dumps(settings))
    (Path(folder) / "result.json").write_text(json.dumps(asyncio.run(measure(home))), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "hang":
        asyncio.run(hang(Path(sys.argv[2])))
    else:
        main(*sys.argv[1:])
