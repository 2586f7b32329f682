"""Plans over HTTP and as a tool: started, looked at, logged, forked and saved, by those they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import api_home
from tests.planning import PLAN_ASKED, REASONING_ASKED, planning, steps
from tests.scripted import scripted_model
from tests.working import FAST, reach, working
from twinraven.calls import CallContext
from twinraven.storage import DEFAULT_TENANT

SEARCH: dict[str, Any] = {"tool": "search", "arguments": {"query": "x9"}}


@pytest.mark.req("AE-01", "AE-02", "AE-06", "AE-11")
async def test_a_plan_over_http(tmp_path: Path) -> None:
    """Its id makes it one plan; state, log, fork and process are there when it has ended; bad input names the field."""
    async with (
        scripted_model({**REASONING_ASKED, "say": "Found."}) as model,
        api_home(tmp_path, engine=FAST, **model.settings()) as home,
    ):
        door = home.door
        body = {"plan": steps(SEARCH, {"agent": "llm"}, goal="Find x9."), "run_id": "p1", "ttl": 3}
        started = await door.post("/v1/plans", body)
        assert (started.status, started.headers["location"]) == (202, "/v1/plans/p1")
        async with working(home.raven):
            await reach(home.raven, "p1", "succeeded")
            shown = (await door.get("/v1/plans/p1")).json()
            log = (await door.get("/v1/plans/p1/log")).json()["items"]
            fork = (await door.post("/v1/plans/p1/fork", {"step": "2", "ttl": 5})).json()
            await reach(home.raven, fork["run_id"], "succeeded")
        saved = (await door.post("/v1/plans/p1/process", {"process_id": "find"})).json()
        listed = (await door.get("/v1/plans")).json()["items"]
        refused = [
            await door.post("/v1/plans", {"plan": {"goal": "", "steps": []}}),
            await door.post("/v1/plans", {"request": "x", "ttl": 0}),
            await door.post("/v1/plans", {}),
            await door.get("/v1/plans/nobody"),
        ]
    assert (shown["status"], shown["results"]["2"], shown["state"]["ttl_remaining"]) == ("completed", "Found.", 2)
    assert [entry["step_number"] for entry in log] == [1, 2]
    assert saved["initial_context"] == ["query"]
    assert {run["run_id"] for run in listed} == {"p1", fork["run_id"]}
    assert len(model.exchanges) == 2
    assert [answer.status for answer in refused] == [400, 400, 400, 404]


async def test_run_plan_is_a_tool(tmp_path: Path) -> None:
    """Agents are offered run_plan where a model is configured; a call gives what each step gave, under its key once."""
    plan = steps({"tool": "reserve", "arguments": {"item": "lamp"}})
    async with planning(tmp_path, {**PLAN_ASKED, "json": plan}, works=False) as home:
        calls = home.raven.calls
        asked = {"request": "Sell the lamp."}
        first = await calls.call("run_plan", asked, CallContext("s"), idempotency_key="k1")
        again = await calls.call("run_plan", asked, CallContext("s"), idempotency_key="k1")
        offered = {entry.tool_id for entry in home.raven.catalog.offered(DEFAULT_TENANT, None)}
    assert first == again
    assert first["results"] == {"1": {"reserved": "lamp"}}
    assert home.shop.calls == ["reserve lamp"]
    assert "run_plan" in offered
    assert offered.isdisjoint({"memory_set", "twinraven.ask_model"})
