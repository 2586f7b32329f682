"""The life of a learned tool through the REST door: what a person decides there is what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import ApiHome, api_home, made, make_chain
from tests.registry_kit import make_definition, make_verdict


async def register(home: ApiHome, description: str) -> int:
    """A further version of `search_read` that waits for a decision; gives its number."""
    chain = make_chain()
    await home.raven.chains.add("default", [chain])
    definition = make_definition(chain_id=str(chain.chain_id), description=description)
    draft = await home.raven.registry.draft("default", definition, evidence_hash=description)
    await home.raven.registry.register("default", draft.definition, make_verdict())
    return draft.version


@pytest.mark.req("RG-05", "RG-06", "RG-07", "RG-08")
async def test_a_person_decides_at_the_door(tmp_path: Path) -> None:
    """Approve, reject, roll back, quarantine, release and retire do what they say, on the state that was seen."""
    async with api_home(tmp_path) as home:
        path = "/v1/learned-tools/search_read"

        async def state() -> tuple[int, str, list[str]]:
            found = made(await home.door.get(path))
            return found["current_version"], found["status"], [each["status"] for each in found["versions"]]

        async def act(word: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
            tag = (await home.door.get(path)).tag
            stale = await home.door.post(f"{path}/{word}", body, If_Match='"999"')
            assert (stale.status, stale.json()["code"]) == (412, "OCC_CONFLICT"), stale.body
            return made(await home.door.post(f"{path}/{word}", body, If_Match=tag))

        for description in ("One.", "Two.", "Three."):
            await register(home, description)
        assert await state() == (3, "testing", ["testing"] * 3)
        await act("promote", {"version": 1})
        assert await state() == (1, "promoted", ["promoted", "testing", "testing"])
        await act("reject", {"reason": "the words are worse", "version": 2})
        assert await state() == (1, "promoted", ["promoted", "draft", "testing"])
        await act("promote", {})
        assert await state() == (3, "promoted", ["promoted", "draft", "promoted"])
        versions = made(await home.door.get(path))["versions"]
        assert [each["superseded_at"] is None for each in versions] == [False, True, True]
        for number, description in ((1, "One."), (3, "Three.")):
            shown = made(await home.door.get(f"{path}/versions/{number}"))
            assert (shown["version"], shown["description"]) == (number, description)
        for number in (1, 3, 1):
            await act("rollback", {"to_version": number})
            assert await state() == (number, "promoted", ["promoted", "draft", "promoted"])
        call = {"tool_name": "search_read", "payload": {"q": "x"}, "session_id": "s"}
        assert made(await home.door.post("/v1/calls", call))["status"] == "success"
        held = await act("quarantine", {"reason": "odd answers"})
        assert (held["quarantine"]["reason"], held["quarantine"]["by"]) == ("odd answers", "local")
        assert (await home.door.post("/v1/calls", call)).status == 404
        assert (await act("release"))["quarantine"] is None
        assert made(await home.door.post("/v1/calls", call))["status"] == "success"
        retired = await act("retire", {"note": "nobody asks for it"})
        assert (retired["status"], retired["retirement_reason"]) == ("retired", "manual")
        (entry,) = made(await home.door.get("/v1/audit?event_type=tool.retired"))["items"]
        assert (entry["data_json"]["reason"], entry["data_json"]["note"]) == ("manual", "nobody asks for it")
        assert (await home.door.post("/v1/calls", call)).status == 404
        tag = (await home.door.get(path)).tag
        for word, body in (("promote", {}), ("rollback", {"to_version": 3}), ("retire", {})):
            assert (await home.door.post(f"{path}/{word}", body, If_Match=tag)).status == 409, word


@pytest.mark.req("RG-12", "RG-13")
async def test_maintenance_is_asked_and_run_at_the_door(tmp_path: Path) -> None:
    """GET says what would be done and does nothing, POST does it; both are an administrator's."""
    async with api_home(tmp_path) as home:
        await register(home, "One.")
        path = "/v1/learned-tools/search_read"
        made(await home.door.post(f"{path}/promote", {}, If_Match=(await home.door.get(path)).tag))
        looked = made(await home.door.get("/v1/maintenance"))
        assert (looked["dry_run"], [each["tool_id"] for each in looked["tools"]]) == (True, ["search_read"])
        assert looked["actions"] == []
        failed: dict[str, Any] = {"session_id": "s", "tool_id": "search_read", "input_params": {}, "error": "down"}
        made(await home.door.post("/v1/events", {"events": [failed, failed]}))
        for method, state in (("GET", ("promoted", None)), ("POST", ("retired", "failure_spike"))):
            report = made(await home.door.ask(method, "/v1/maintenance"))
            assert report["dry_run"] is (method == "GET")
            assert [(each["verb"], each["name"]) for each in report["actions"]] == [("retire", "failure_spike")]
            found = made(await home.door.get(path))
            assert (found["status"], found["retirement_reason"]) == state
        member = await home.user("default", "mia")
        assert [(await member.door.ask(method, "/v1/maintenance")).status for method in ("GET", "POST")] == [403, 403]
