"""Durable runs over HTTP: started, worked on, answered, and seen by whom they belong to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api_homes import api_home
from tests.working import FAST, reach, working

FLOW = {
    "tool_id": "ask",
    "description": "Asks, then searches",
    "parameters": {"type": "object"},
    "steps": [
        {"step_index": 0, "tool_id": "person:boss", "input_mapping": {"question": "What?"}},
        {"step_index": 1, "tool_id": "search", "input_mapping": {"query": "$.steps[0].output"}},
    ],
}


@pytest.mark.req("CH-24")
async def test_a_run_is_started_answered_and_seen(tmp_path: Path) -> None:
    """What is shown of a run is what was committed, from its start to its end; its id makes it one run."""
    async with api_home(tmp_path, engine=FAST) as home:
        body = {"definition": FLOW, "run_id": "r1"}
        started = await home.door.post("/v1/runs", body)
        assert (started.status, started.headers["location"]) == (202, "/v1/runs/r1")
        assert (await home.door.post("/v1/runs", body)).json()["run_id"] == "r1"
        other = await home.door.post("/v1/runs", {"tool_id": "search", "parameters": {"query": "x"}, "run_id": "r1"})
        assert (other.status, other.json()["code"]) == (422, "IDEMPOTENCY_CONFLICT")
        async with working(home.raven):
            await reach(home.raven, "r1", "waiting")
            shown = (await home.door.get("/v1/runs/r1")).json()
            assert (shown["state"], shown["waits"][0]["question"]) == ("waiting", {"question": "What?"})
            answer = {"place": "0", "answer": "tea"}
            assert (await home.door.post("/v1/runs/r1/answer", answer)).status == 200
            assert (await home.door.post("/v1/runs/r1/answer", answer)).status == 409
            await reach(home.raven, "r1", "succeeded")
            listed = (await home.door.get("/v1/runs?state=succeeded")).json()["items"]
            assert [run["run_id"] for run in listed] == ["r1"]
            workers = (await home.door.get("/v1/workers")).json()["items"]
            assert {worker["status"] for worker in workers} == {"idle"}
        assert (await home.door.post("/v1/runs/r1/cancel", {})).json()["code"] == "ILLEGAL_TRANSITION"


@pytest.mark.req("CH-24")
async def test_members_see_and_decide_about_their_own(tmp_path: Path) -> None:
    """A member's runs are not there for a colleague; an administrator sees all."""
    async with api_home(tmp_path, needs_key=True) as home:
        admin = await home.tenant("ada")
        bob, eve = [await home.user(admin.tenant_id, name) for name in ("bob", "eve")]
        body = {"tool_id": "search", "parameters": {"query": "x"}}
        run = (await bob.door.post("/v1/runs", body)).json()["run_id"]
        assert (await eve.door.get(f"/v1/runs/{run}")).status == 404
        assert (await eve.door.post(f"/v1/runs/{run}/cancel", {})).status == 404
        assert (await eve.door.get("/v1/runs")).json()["items"] == []
        assert (await admin.door.get(f"/v1/runs/{run}")).status == 200
        assert (await bob.door.post(f"/v1/runs/{run}/cancel", {})).json()["state"] == "cancelled"
