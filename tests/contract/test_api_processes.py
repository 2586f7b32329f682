"""Processes over HTTP: saved, compared, run, and called by agents like any tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import api_home, search
from tests.working import FAST, reach, working
from twinraven.app import open_home
from twinraven.foundation.clock import parse_iso
from twinraven.processes import Process
from twinraven.tenancy import LOCAL


def definition(template: str, **more: Any) -> dict[str, Any]:
    look = {"id": "look", "tool": "search", "inputs": {"query": "{step.q}"}, "output": {"variable": "found"}}
    body = {"id": "find", "description": "Search", "initialContext": ["q"], "steps": [look], "outputTemplate": template}
    return {"definition": {**body, **more}}


@pytest.mark.req("AD-09", "AD-11")
async def test_a_process_is_saved_compared_run_and_called(tmp_path: Path) -> None:
    """What is saved is a version; a run of it ends as a call of it does; what is wrong is a problem with its place."""
    async with api_home(tmp_path, engine=FAST) as home:
        door = home.door
        saved = await door.post("/v1/processes", definition("one {{q}}"))
        assert (saved.status, saved.json()["version"]) == (200, 1)
        refused = await door.post("/v1/process-checks", definition("{{query}}"))
        assert (refused.status, refused.json()["code"]) == (400, "DEFINITION_INVALID")
        assert refused.json()["details"]["variable"] == "query"
        assert (await door.post("/v1/processes", {**definition("two {{q}}"), "expected_version": 0})).status == 409
        assert (await door.post("/v1/processes", definition("two {{q}}"))).json()["version"] == 2
        (change,) = (await door.get("/v1/processes/find/diff")).json()["items"]
        assert change == {"place": "output_template", "before": "one {{q}}", "after": "two {{q}}"}
        first = (await door.get("/v1/processes/find?version=1")).json()
        assert first["output_template"] == "one {{q}}"
        wish = {"parameters": {"q": "tea"}, "run_id": "r1", "timeout_s": 600}
        started = await door.post("/v1/processes/find/runs", wish)
        assert (started.status, started.headers["location"]) == (202, "/v1/runs/r1")
        created, deadline = (parse_iso(started.json()[name], field=name) for name in ("created_at", "deadline_at"))
        assert (deadline - created).total_seconds() == 600
        async with working(home.raven):
            assert (await reach(home.raven, "r1", "succeeded", "failed")).output == "two tea"
            called = await door.post("/v1/calls", {"tool_name": "find", "payload": {"q": "tea"}, "session_id": "s"})
            assert "two tea" in called.json()["payload"].values(), called.body
            with open_home(home.raven.home, functions=[search]) as other:
                await other.processes.save(Process.from_json(definition("3 {{q}}")["definition"]), by=LOCAL)
            await door.post("/v1/processes/find/runs", {"parameters": {"q": "tea"}, "run_id": "r2"})
            assert (await reach(home.raven, "r2", "succeeded", "failed")).output == "3 tea"
        assert (await door.delete("/v1/processes/find")).status == 204
        assert (await door.get("/v1/processes/find")).status == 404
