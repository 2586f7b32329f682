"""A real small model, served on loopback, makes a plan and carries plans out: in form, whatever the sense of it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.homes import opened_home
from tests.planning import statuses, steps
from tests.servers.server_process import server_process
from tests.working import FAST, Shop
from twinraven.app import TwinRaven
from twinraven.engine import ended_run
from twinraven.plans import LogEntry, PlanRequest, PlanRun
from twinraven.storage import DEFAULT_TENANT
from twinraven.tenancy import LOCAL

KEY = "loopback"


async def outcome(raven: TwinRaven, wish: PlanRequest) -> PlanRun:
    """What becomes of a plan whose model is real."""
    await raven.vault.create(DEFAULT_TENANT, LOCAL.user_id, name="model-key", type="api_key", value=KEY)
    try:
        async with raven.working():
            run = await raven.plans.start(wish, by=LOCAL)
            await ended_run(raven.runs, DEFAULT_TENANT, run.run_id)
            return await raven.plans.get(DEFAULT_TENANT, run.run_id)
    finally:
        await raven.aclose()


def home_with(model: str, max_tokens: int) -> dict[str, Any]:
    """The settings of a home whose model is real, and slow."""
    asked = {"name": "smollm2", "url": model, "secret": "model-key", "timeout_s": 600, "max_tokens": max_tokens}
    return {"model": asked, "connectors": {"allow_private": ["127.0.0.1"]}, "engine": FAST}


@pytest.mark.soak
async def test_a_small_real_model_makes_a_plan_and_carries_it_through(tmp_path: Path, real_model: str) -> None:
    """A request becomes a plan of steps that exist, bound by its form, and the plan comes to its end."""
    with opened_home(tmp_path, Shop().tools, **home_with(real_model, max_tokens=600)) as raven:
        wish = raven.plans.wish(request="Say what a lamp costs.", tools=["look"], ttl=100)
        found = await outcome(raven, wish)
    assert found.state.plan is not None, found.error
    assert {step.tool or step.agent for step in found.state.plan.steps} <= {"look", "llm"}
    assert found.status == "completed", found.error
    assert set(statuses(found)) <= {"complete", "failed"}
    assert [entry.step_number for entry in found.state.log] == list(range(1, found.state.cycles + 1))


@pytest.mark.soak
async def test_a_small_real_model_carries_a_plan_through(tmp_path: Path, real_model: str) -> None:
    """A plan of a tool and a step of reasoning comes to its end, and what the model said is its result."""
    plan = steps({"tool": "look", "arguments": {"item": "lamp"}}, {"agent": "llm"}, goal="Say what a lamp costs.")
    with opened_home(tmp_path, Shop().tools, **home_with(real_model, max_tokens=64)) as raven:
        found = await outcome(raven, raven.plans.wish(plan=plan, ttl=4))
    assert (found.status, statuses(found)) == ("completed", ["complete", "complete"]), found.error
    assert found.state.results["2"].strip()
    assert found.state.log[-1].llm_output["usage"]["output_tokens"] > 0
    assert [LogEntry.from_json(entry.as_json()) for entry in found.state.log] == list(found.state.log)


@pytest.fixture(scope="module")
def real_model() -> Generator[str]:
    """The address of a real model."""
    with server_process("real_model", KEY) as address:
        yield address
