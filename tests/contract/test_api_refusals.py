"""What was refused or failed at the REST door stands in the audit log, whoever refused it and whatever it would do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, login_of, made
from tests.unit.catalog.town import service_body, tool_body

_LINEAGE = {"campaign_id": "c-1", "goal_id": "g-1", "task_id": "t-1"}


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    policy = {"rules": [{"tool": "pay", "then": "deny", "reason": "no money leaves"}]}
    async with api_home(tmp_path, postgres=login_of(request), policy=policy) as opened:
        yield opened


@pytest.fixture
async def ada(home: ApiHome) -> Seeds:
    return await home.tenant("ada")


async def audited(ada: Seeds, correlation: str) -> list[dict[str, Any]]:
    return made(await ada.door.get(f"/v1/audit?correlation_id={correlation}"))["items"]


@pytest.mark.req("CH-22")
async def test_a_violation_at_the_door_is_audited(home: ApiHome, ada: Seeds) -> None:
    """A member who asks for what is an administrator's, or changes a colleague's service, leaves an entry each."""
    service = made(await ada.door.post("/v1/services", {**service_body(), "shared": True}))
    mia = await home.user(ada.tenant_id, "mia")
    refused = [
        (await mia.door.get("/v1/users", X_Correlation_Id="no-1"), "GET /v1/users"),
        (
            await mia.door.patch(
                f"/v1/services/{service['id']}", {"shared": False}, If_Match="*", X_Correlation_Id="no-2"
            ),
            "PATCH /v1/services/{service_id}",
        ),
    ]
    for number, (reply, subject) in enumerate(refused, 1):
        assert (reply.status, reply.json()["code"]) == (403, "POLICY_VIOLATION")
        (entry,) = await audited(ada, f"no-{number}")
        assert (entry["event_type"], entry["subject_id"], entry["code"]) == (
            "policy.refused",
            subject,
            "POLICY_VIOLATION",
        )
        assert (entry["actor_id"], entry["message"]) == (mia.user_id, reply.json()["detail"])


@pytest.mark.req("CH-22")
async def test_a_call_that_policy_or_a_secret_forbids_is_audited_with_its_lineage(home: ApiHome, ada: Seeds) -> None:
    """A tool that runs with its owner's secret alone, and one that a rule denies: ids, code and message are kept."""
    made(await ada.door.post("/v1/secrets", {"name": "shop-key", "type": "api_key", "value": "long-enough-4711"}))
    made(await ada.door.post("/v1/services", {**service_body(name="shop"), "shared": True}))
    body = {**tool_body(key="get_order", service="shop"), "secret": "shop-key", "shared": True}
    made(await ada.door.post("/v1/tools", body))
    mia = await home.user(ada.tenant_id, "mia")
    calls = (("get_order", {"orderId": "7"}, "owner's secret"), ("pay", {"amount": 3}, "no money leaves"))
    for name, payload, reason in calls:
        call = {"tool_name": name, "payload": payload, "session_id": "s", **_LINEAGE}
        reply = await mia.door.post("/v1/calls", call, Idempotency_Key=name, X_Correlation_Id=f"call-{name}")
        assert (reply.status, reply.json()["code"]) == (403, "POLICY_VIOLATION"), reply.body
        refusal = next(entry for entry in await audited(ada, f"call-{name}") if entry["code"] is not None)
        assert refusal["code"] == "POLICY_VIOLATION"
        assert reason in refusal["message"]
        assert _LINEAGE.items() <= refusal["data_json"].items()
        assert refusal["data_json"]["session_id"] == "s"


@pytest.mark.req("CH-22")
async def test_a_failed_read_is_audited_and_a_refused_one_is_not(ada: Seeds) -> None:
    """A read that was sent and failed leaves its code and message; arguments that do not fit were never sent."""
    made(await ada.door.post("/v1/services", service_body(name="shop")))
    made(await ada.door.post("/v1/tools", tool_body(key="get_order", service="shop")))
    sent = {"tool_name": "get_order", "payload": {"orderId": "7"}, "session_id": "s", **_LINEAGE}
    answer = await ada.door.post("/v1/calls", sent, X_Correlation_Id="sent")
    # The service was never checked, so what the check found of it belongs to the request, too.
    (entry,) = [each for each in await audited(ada, "sent") if each["subject_type"] == "call"]
    error = answer.json().get("error") or answer.json()
    assert (entry["event_type"], entry["code"]) == ("call.failed", error["code"])
    assert entry["message"]
    assert _LINEAGE.items() <= entry["data_json"].items()
    await ada.door.post("/v1/calls", {**sent, "payload": {"orderId": []}}, X_Correlation_Id="unsent")
    assert await audited(ada, "unsent") == []
