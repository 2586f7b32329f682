"""Whose an idempotency key is: a call's is the tenant's, every other one is its user's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import ApiHome, api_home, login_of, made
from twinraven.api import all_routes, openapi_document
from twinraven.catalog import tool
from twinraven.serving.metrics import HttpMetrics


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@pytest.mark.req("CH-16")
async def test_a_task_that_is_handed_on_runs_once(home: ApiHome) -> None:
    """Under the key of a call, a colleague gets its answer and can make no other call; a stranger's key is another."""
    ada = await home.tenant("ada")
    mia = await home.user(ada.tenant_id, "mia")
    eve = await home.tenant("eve")
    call = {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "s"}
    first, again, strange = [
        made(await each.door.post("/v1/calls", call, Idempotency_Key="task-7")) for each in (ada, mia, eve)
    ]
    assert (first["output"], again["output"], again["replayed"]) == ({"payments": 1}, {"payments": 1}, True)
    assert (strange["output"], strange["replayed"]) == ({"payments": 2}, False)
    other = await mia.door.post("/v1/calls", {**call, "payload": {"amount": 6}}, Idempotency_Key="task-7")
    assert (other.status, other.json()["code"]) == (422, "IDEMPOTENCY_CONFLICT")
    assert home.till.payments == [5, 5]


@pytest.mark.req("CH-16")
async def test_a_lost_answer_is_asked_for_again_where_the_tool_takes_keys(tmp_path: Path) -> None:
    """The same call under its key finds out what happened; a tool that takes no keys is not called again."""
    seen: list[str] = []

    @tool(effect="write", takes_key=True, timeout_ms=200)
    async def ship(idempotency_key: str) -> dict[str, int]:
        """Ship once for each key, and be slow about it."""
        seen.append(idempotency_key)
        if len(seen) == 1:
            await asyncio.sleep(30)
        return {"shipped": len(set(seen))}

    @tool(effect="write", timeout_ms=200)
    async def send() -> dict[str, int]:
        """Send each time."""
        seen.append("sent")
        await asyncio.sleep(30)
        return {}

    async with api_home(tmp_path, functions=[ship, send]) as home:
        for name, key, wanted in (("ship", "k", "success"), ("send", "other", "failed")):
            call: dict[str, Any] = {"tool_name": name, "payload": {}, "session_id": "s"}
            lost = (await home.door.post("/v1/calls", call, Idempotency_Key=key)).json()
            assert lost["error"]["code"] == "EFFECT_UNKNOWN"
            again = (await home.door.post("/v1/calls", call, Idempotency_Key=key)).json()
            assert again["status"] == wanted
        assert seen == ["k", "k", "sent"]


@pytest.mark.req("CH-02")
async def test_a_call_that_can_change_something_needs_a_key(home: ApiHome) -> None:
    """Without one it is refused by its field, and nothing has happened."""
    call = {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "s"}
    refused = await home.door.post("/v1/calls", call)
    assert (refused.status, refused.json()["code"]) == (400, "VALIDATION_FAILED")
    assert "idempotency_key" in str(refused.json())
    assert home.till.payments == []


@pytest.mark.req("CH-16")
async def test_other_keys_are_each_users_own(home: ApiHome) -> None:
    """Two users who make something under the same key make two things."""
    ada = await home.tenant("ada")
    mia = await home.user(ada.tenant_id, "mia")
    keys = [made(await each.door.post("/v1/keys", {"label": "x"}, Idempotency_Key="k")) for each in (ada, mia)]
    assert [key["user_id"] for key in keys] == [ada.user_id, mia.user_id]


def test_the_document_says_whose_the_key_of_a_call_is() -> None:
    """Where the header is described, the key of a call or an effect is called the tenant's, and no other is."""
    paths = openapi_document(all_routes(HttpMetrics()))["paths"]
    said = {
        operation["operationId"]
        for methods in paths.values()
        for operation in methods.values()
        for parameter in operation["parameters"]
        if parameter["name"] == "Idempotency-Key" and "tenant" in parameter["description"]
    }
    assert said == {"callTool", "publish", "postMessage", "pay", "fundWallet"}


@pytest.mark.req("CH-02", "CH-03", "CH-25")
async def test_a_call_is_a_message_in_the_common_envelope(home: ApiHome) -> None:
    """A request may be a whole envelope; fields nobody knows are kept, and answer and event name where it belongs."""
    ada, eve = await home.tenant("ada"), await home.tenant("eve")
    lineage = {"campaign_id": "c-1", "goal_id": "g-1", "task_id": "t-1", "correlation_id": "r-1"}
    sent = {
        "tool_name": "pay",
        "payload": {"amount": 5},
        "session_id": "s",
        "idempotency_key": "k-1",
        "role": "skill",
        "type": "skill.request",
        "status": "pending",
        "confidence_score": 0.5,
        "risk_tags": ["money"],
        "tenant_id": ada.tenant_id,
        **lineage,
        "moon": {"phase": "full"},
    }
    answer = made(await ada.door.post("/v1/calls", sent))
    assert {name: answer[name] for name in lineage} == lineage
    assert (answer["tenant_id"], answer["role"], answer["type"]) == (ada.tenant_id, "skill", "skill.response")
    assert (answer["moon"], answer["status"], answer["output"]) == ({"phase": "full"}, "success", {"payments": 1})
    event = made(await ada.door.get(f"/v1/events/{answer['event_id']}"))
    assert {"campaign:c-1", "goal:g-1"} <= set(event["tags"])
    assert (event["task_id"], event["correlation_id"]) == ("t-1", "r-1")
    entries = await home.raven.audit.entries(ada.tenant_id)
    (intended,) = [entry for entry in entries if entry.event_type == "call.intended"]
    body = (await home.raven.audit.entry(ada.tenant_id, intended.id)).body
    assert body is not None
    assert body["extra"] == {"moon": {"phase": "full"}, **{name: sent[name] for name in _SAID}}
    strange = await eve.door.post("/v1/calls", {**sent, "tenant_id": ada.tenant_id})
    assert (strange.status, strange.json()["code"]) == (404, "NOT_FOUND")
    for name, value in (("type", "judge.decision"), ("role", "king"), ("confidence_score", 2)):
        assert (await ada.door.post("/v1/calls", {**sent, name: value})).status == 400
    assert home.till.payments == [5]


_SAID = ("role", "type", "status", "confidence_score", "risk_tags")


async def test_a_key_tells_its_history(home: ApiHome) -> None:
    """Under a key stand the call that took it, who got its answer again and who was refused."""
    ada = await home.tenant("ada")
    mia = await home.user(ada.tenant_id, "mia")
    eve = await home.tenant("eve")
    call = {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "first"}
    assert made(await ada.door.post("/v1/calls", call, Idempotency_Key="task-7"))["replayed"] is False
    for _ in range(2):
        again = await mia.door.post("/v1/calls", {**call, "session_id": "again"}, Idempotency_Key="task-7")
        assert made(again)["replayed"] is True
    other = {**call, "payload": {"amount": 6}, "session_id": "other"}
    assert (await ada.door.post("/v1/calls", other, Idempotency_Key="task-7")).status == 422
    await asyncio.to_thread(home.raven.collector.flush)
    found = (await ada.door.get("/v1/idempotency-keys/task-7")).json()
    assert (found["tool_id"], found["state"]) == ("pay", "success")
    first = (await ada.door.get(f"/v1/events/{found['event_id']}")).json()
    assert (first["session_id"], first["output"], first["idempotency_key"]) == ("first", {"payments": 1}, "task-7")
    repeats = {each["kind"]: each for each in found["repeats"]}
    assert {kind: (each["session_id"], each["times"], each["caller"]) for kind, each in repeats.items()} == {
        "replayed": ("again", 2, mia.user_id),
        "conflict": ("other", 1, ada.user_id),
    }
    replayed = (await ada.door.get(f"/v1/events/{repeats['replayed']['event_id']}")).json()
    assert (replayed["session_id"], replayed["tags"], replayed["idempotency_key"]) == ("again", ["cached-result"], None)
    seen = {
        each["kind"]: each["caller"] for each in (await mia.door.get("/v1/idempotency-keys/task-7")).json()["repeats"]
    }
    assert seen == {"replayed": mia.user_id, "conflict": None}
    assert (await eve.door.get("/v1/idempotency-keys/task-7")).status == 404
