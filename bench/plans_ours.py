"""The plan that bench_plans measures, carried out by TwinRaven in a process of its own.

Usage: python -m bench.plans_ours MODEL_URL FOLDER. Prints JSON: processor and wall-clock seconds of the plan alone. A
home is opened, its worker is up, and a first plan has run, before the clock starts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from bench.durable_ours import ENGINE
from bench.plan_sizes import CYCLES
from twinraven.app import TwinRaven, open_home
from twinraven.engine import ended_run
from twinraven.tenancy import LOCAL


async def carry_out(raven: TwinRaven, cycles: int) -> None:
    """A plan of steps that reason, from its start to its end."""
    steps = [{"step_id": str(number), "description": "Think.", "agent": "llm"} for number in range(1, cycles + 1)]
    wish = raven.plans.wish(plan={"goal": "Think.", "steps": steps}, ttl=cycles + 1)
    run = await raven.plans.start(wish, by=LOCAL)
    found = await ended_run(raven.runs, "default", run.run_id)
    assert found.run.state == "succeeded", found.error


async def main(url: str, folder: Path) -> None:
    home = folder / ".twinraven"
    home.mkdir()
    settings = {
        "model": {"name": "scripted", "url": url},
        "connectors": {"allow_private": ["127.0.0.1"]},
        "engine": ENGINE,
    }
    (folder / "twinraven.yaml").write_text(json.dumps(settings))
    with open_home(home) as raven:
        async with raven.working():
            await carry_out(raven, 2)
            cpu, wall = time.process_time(), time.perf_counter()
            await carry_out(raven, CYCLES)
            print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}))
        await raven.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
