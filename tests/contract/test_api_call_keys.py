"""Whose an idempotency key is: a call's is the tenant's, every other one is its user's."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.api_homes import ApiHome, api_home, login_of, made
from twinraven.api import all_routes, openapi_document
from twinraven.serving.metrics import HttpMetrics


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


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


@pytest.mark.req("CH-02")
async def test_a_call_that_can_change_something_needs_a_key(home: ApiHome) -> None:
    """Without one it is refused by its field, and nothing has happened."""
    call = {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "s"}
    refused = await home.door.post("/v1/calls", call)
    assert (refused.status, refused.json()["code"]) == (400, "VALIDATION_FAILED")
    assert "idempotency_key" in str(refused.json())
    assert home.till.payments == []


async def test_other_keys_are_each_users_own(home: ApiHome) -> None:
    """Two users who make something under the same key make two things."""
    ada = await home.tenant("ada")
    mia = await home.user(ada.tenant_id, "mia")
    keys = [made(await each.door.post("/v1/keys", {"label": "x"}, Idempotency_Key="k")) for each in (ada, mia)]
    assert [key["user_id"] for key in keys] == [ada.user_id, mia.user_id]


def test_the_document_says_whose_the_key_of_a_call_is() -> None:
    """Where the header is described, a call's key is called the tenant's, and no other is."""
    paths = openapi_document(all_routes(HttpMetrics()))["paths"]
    said = {
        operation["operationId"]
        for methods in paths.values()
        for operation in methods.values()
        for parameter in operation["parameters"]
        if parameter["name"] == "Idempotency-Key" and "tenant" in parameter["description"]
    }
    assert said == {"callTool"}
