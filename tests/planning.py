"""Homes in which plans run: tools whose effects can be counted, a scripted model, and what became of a plan."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.homes import opened_home
from tests.postgres import PostgresLogin
from tests.scripted import RunningModel, scripted_model
from tests.working import FAST, Shop
from twinraven.app import TwinRaven
from twinraven.engine import ended_run
from twinraven.plans import PlanRun
from twinraven.storage import DEFAULT_TENANT
from twinraven.tenancy import LOCAL, Principal

PLAN_ASKED = {"when": {"system": "turn a request into a plan"}}
ARGUMENTS_ASKED = {"when": {"system": "fill in the arguments"}}
REASONING_ASKED = {"when": {"system": "carry out one step"}}
CHOICE_ASKED = {"when": {"system": "names no tool"}}


@dataclass
class Planning:
    """A home with a shop, a model and a worker."""

    raven: TwinRaven
    shop: Shop
    model: RunningModel

    @staticmethod
    def shop_tools() -> list[Any]:
        """The tools of a shop that nobody looks at."""
        return Shop().tools

    async def run(self, *, by: Principal = LOCAL, run_id: str | None = None, **wish: Any) -> PlanRun:
        """Start a plan and give what it came to."""
        run = await self.raven.plans.start(self.raven.plans.wish(**wish), by=by, run_id=run_id)
        await ended_run(self.raven.runs, DEFAULT_TENANT, run.run_id)
        return await self.raven.plans.get(DEFAULT_TENANT, run.run_id)


def steps(*stated: dict[str, Any], goal: str = "Sell a lamp.") -> dict[str, Any]:
    """A plan whose steps are numbered."""
    return {
        "goal": goal,
        "steps": [
            {"step_id": str(number), "description": f"Step {number}.", **step}
            for number, step in enumerate(stated, start=1)
        ],
    }


def statuses(found: PlanRun) -> list[str]:
    assert found.state.plan is not None
    return [step.status for step in found.state.plan.steps]


@asynccontextmanager
async def planning(
    folder: Path, *answers: Any, postgres: PostgresLogin | None = None, works: bool = True, **sections: Any
) -> AsyncGenerator[Planning]:
    """A home whose model gives these answers; a worker runs as long as the block lasts."""
    shop = Shop()
    async with scripted_model(*(answers or ("Nothing.",))) as model:
        settings = {**model.settings(**sections.pop("model", {})), "engine": FAST, **sections}
        given = [*shop.tools, *sections.pop("functions", ())]
        settings.pop("functions", None)
        with opened_home(folder, given, postgres=postgres, **settings) as raven:
            try:
                if works:
                    async with raven.working():
                        yield Planning(raven, shop, model)
                else:
                    yield Planning(raven, shop, model)
            finally:
                await raven.aclose()
