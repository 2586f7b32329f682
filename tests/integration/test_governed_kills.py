"""Attempts whose workers are killed: each task is booked once, judged once, and nothing of it is half there."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.homes import make_home
from tests.integration.test_run_kills import LEASE_S, effects
from tests.run_worker import TOOLS, into
from tests.workers import worker_process
from tests.working import working
from twinraven.app import open_home
from twinraven.tenancy import LOCAL


async def test_killed_attempts_happen_once(tmp_path: Path, full_scale: bool) -> None:
    """Workers are killed with -9 at any point; every task ends with one attempt, result, decision and effect."""
    number, kills = (200, 60) if full_scale else (10, 3)
    into(tmp_path)
    engine = {"poll_s": 0.05, "lease_s": LEASE_S, "max_deaths": 1_000}
    with open_home(make_home(tmp_path, engine=engine), functions=TOOLS) as raven:
        campaign = await raven.campaigns.create("c", by=LOCAL)
        goal = await raven.campaigns.add_goal(campaign.campaign_id, "g", by=LOCAL)
        criteria = [{"id": "booked", "description": "is booked", "check": "exists($.output.booked)"}]
        tasks = await raven.planner.plan(
            goal.goal_id,
            [
                {
                    "name": f"t{each}",
                    "task_type": "commerce",
                    "description": "Book it",
                    "inputs": {"item": f"i{each}"},
                    "run": {"tool": "book"},
                    "acceptance_criteria": criteria,
                    "dependencies": [f"t{each - 1}"] if each % 2 else [],
                }
                for each in range(number)
            ],
            by=LOCAL,
        )
        for _ in range(kills):
            with worker_process(raven, RUN_WORKER_PAUSE="0.1") as child:
                await asyncio.sleep(random.uniform(0.05, 0.6))
                child.kill()
        async with working(raven), asyncio.timeout(240):
            while await raven.tasks.are_moving("default"):  # noqa: ASYNC110 - what it asks sets no event
                await asyncio.sleep(0.05)
        for task in tasks:
            found = await raven.tasks.get("default", task.task_id)
            assert (found.task.status, len(found.runs), len(found.results), len(found.decisions)) == (
                "complete",
                1,
                1,
                1,
            )
        assert effects(raven) == {f"book i{each}": 1 for each in range(number)}
        assert (await raven.campaigns.goal("default", goal.goal_id)).status == "complete"
        assert (await raven.audit.verify("default")).ok
