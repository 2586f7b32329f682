"""Plans whose workers are killed: no effect is doubled, no recorded answer asked for again, and logs are whole."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.homes import make_home
from tests.planning import ARGUMENTS_ASKED, steps
from tests.postgres import PostgresLogin
from tests.run_worker import TOOLS, effects_in, into
from tests.scripted import RunningModel, scripted_model
from tests.workers import worker_process
from tests.working import working
from twinraven.app import TwinRaven, open_home
from twinraven.plans import PlanRun
from twinraven.tenancy import LOCAL

MOST = 600
"""More plans than any number of kills needs."""


def plan_of(item: str) -> dict[str, Any]:
    """A plan that reasons, asks for arguments, and has four effects of two kinds."""
    return steps(
        {"agent": "llm"},
        {"tool": "book", "arguments": {"item": f"{item}.a"}},
        {"tool": "pay", "arguments": {"item": f"{item}.b"}},
        {"tool": "book"},
        {"tool": "pay", "arguments": {"item": f"{item}.d"}},
        {"agent": "llm"},
        goal=f"<{item}>",
    )


def answers() -> list[Any]:
    given = [
        {"when": {**ARGUMENTS_ASKED["when"], "mentions": f"<i{number}>"}, "json": {"item": f"i{number}.c"}}
        for number in range(MOST)
    ]
    return [*given, {"say": "Hm.", "delay_s": 0.05}]


@dataclass
class Desk:
    """A home, its model, and what was seen when workers were dead."""

    raven: TwinRaven
    model: RunningModel

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Every question that reached the model: of which plan, for which step."""
        lines = [exchange.asked.all.splitlines() for exchange in self.model.exchanges]
        return [(said[0].removeprefix("Goal: "), said[1].partition(":")[0]) for said in lines]

    async def answered(self, ids: list[str]) -> set[tuple[str, str]]:
        """The questions whose answers are in the journal."""
        found: set[tuple[str, str]] = set()
        for run_id in ids:
            for step in (await self.raven.runs.get("default", run_id)).steps:
                if step.place.startswith("cycle:") and step.place.endswith(":llm") and step.error_code is None:
                    found.add((f"<{run_id}>", f"Step {step.place.split(':')[1]}"))
        return found

    async def unfinished(self, ids: list[str]) -> list[str]:
        """The plans that have not come to their end; one that ended otherwise than well is a failure."""
        states = {each: (await self.raven.runs.get("default", each)).run.state for each in ids}
        assert set(states.values()) <= {"queued", "running", "waiting", "succeeded"}
        return [each for each, state in states.items() if state != "succeeded"]

    def effects(self) -> Counter[str]:
        return effects_in(self.raven.home.parent)

    async def tell_the_truth(self, run_id: str) -> None:
        """Answer every unknown effect of a plan by looking whether it happened."""
        for wait in (await self.raven.runs.get("default", run_id)).waits:
            if wait.kind == "effect" and wait.answered_at is None:
                item = wait.question["params"]["item"]
                happened = self.effects()[f"pay {item}"] > 0
                said = {"effect": "happened", "output": {"paid": item}} if happened else {"effect": "did_not_happen"}
                await self.raven.runs.answer(run_id, wait.place, said, by=LOCAL)


@pytest.fixture(params=["sqlite", "postgres"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Desk]:
    login: PostgresLogin | None = None
    if request.param == "postgres":
        login = request.getfixturevalue("postgres_login")
    engine = {"poll_s": 0.05, "lease_s": 1.0, "max_deaths": 1_000, "pools": [{"queue": "runs", "slots": 4}]}
    into(tmp_path)
    async with scripted_model(*answers()) as model:
        home = make_home(tmp_path, postgres=login, engine=engine, **model.settings())
        with open_home(home, functions=TOOLS) as raven:
            yield Desk(raven, model)
            await raven.aclose()


@pytest.mark.req("AE-11")
async def test_killed_workers_ask_and_do_nothing_twice(desk: Desk, full_scale: bool) -> None:
    """However often workers are killed, plans complete; effects, recorded answers and log lines are there once."""
    kills, at_once = (100, 8) if full_scale else (2, 4)
    raven = desk.raven
    ids: list[str] = []
    snapshots: list[tuple[int, set[tuple[str, str]]]] = []
    interrupted = 0
    while interrupted < kills:  # a worker that was killed while it did nothing counts for nothing
        open_ones = await desk.unfinished(ids)
        for _ in range(at_once - len(open_ones)):
            ids.append(f"i{len(ids)}")
            await raven.plans.start(raven.plans.wish(plan=plan_of(ids[-1]), ttl=5), by=LOCAL, run_id=ids[-1])
        with worker_process(raven) as child:
            await asyncio.sleep(random.uniform(0.1, 0.6))
            child.kill()
            await asyncio.to_thread(child.wait)
        snapshots.append((len(desk.asked), await desk.answered(ids[-2 * at_once :])))
        interrupted += "running" in {(await raven.runs.get("default", each)).run.state for each in ids[-2 * at_once :]}
        for each in open_ones:
            await desk.tell_the_truth(each)
    async with working(raven), asyncio.timeout(1_800):
        while open_ones := await desk.unfinished(ids):
            for each in open_ones:
                await desk.tell_the_truth(each)
            await asyncio.sleep(0.1)
    kinds = ("book {}.a", "pay {}.b", "book {}.c", "pay {}.d")
    assert desk.effects() == Counter(kind.format(each) for each in ids for kind in kinds)
    for count, known in snapshots:
        assert not known & set(desk.asked[count:]), "a recorded answer was asked for again"
    for each in ids:
        check_log(await raven.plans.get("default", each))
    assert (await raven.audit.verify("default")).ok


def check_log(found: PlanRun) -> None:
    """A whole log: numbered without gaps, every line JSON, cycles counted down one by one."""
    lines = [json.loads(json.dumps(entry.as_json())) for entry in found.state.log]
    assert [line["step_number"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["ttl_remaining"] for line in lines] == [4, 4, 4, 3, 3, 2]
    assert found.status == "completed"
