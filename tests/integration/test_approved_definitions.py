"""An approval is for what was seen: whoever changes what a tool does after somebody said yes must ask again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, made
from tests.approving import BOB, House, code
from tests.unit.catalog.town import CONNECTION, service_body, tool_body
from twinraven.calls import CallContext, CallFrame, Grant, SkillInvocationRequest
from twinraven.connectors.mcp.model import PinnedTool
from twinraven.connectors.mcp.tools import to_entry
from twinraven.flow import FlowConnector
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import ToolUnavailable
from twinraven.storage import Database

_CALL: Final = {"tool_name": "m_tool", "payload": {"orderId": "7"}, "session_id": "s"}
_RULES: Final = [{"tool": "m_*", "then": "ask", "reason": "ask first"}]
_ORDER: Final = {"order": "$.parameters.order"}
_WIDER: Final = {**CONNECTION, "properties": {**CONNECTION["properties"], "proxy": {"type": "string"}}}
_CHANGES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "operation": ("tools/m_tool/definition", {"operation": {**tool_body()["operation"], "path": "/wipe/{{orderId}}"}}),
    "address": ("tools/m_tool/definition", {"connection_params": {"endpoint": "https://elsewhere.example"}}),
    "secret": ("tools/m_tool/definition", {"secret": "other"}),
    "service": ("services/{service}", {"connection_schema": _WIDER}),
}


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, policy={"rules": _RULES}) as opened:
        yield opened


@pytest.fixture
def house(sqlite_database: Database, tmp_path: Path) -> Generator[House]:
    house = House(sqlite_database, tmp_path)
    yield house
    house.collector.close()


async def _asked(member: Seeds) -> dict[str, Any]:
    reply = await member.door.post("/v1/calls", _CALL, Idempotency_Key="k")
    assert reply.json()["error"]["code"] == "APPROVAL_PENDING", reply.body
    return reply.json()["error"]["details"]


@pytest.mark.parametrize("changed", _CHANGES)
async def test_a_grant_does_not_cover_what_its_owner_made_of_the_tool(home: ApiHome, changed: str) -> None:
    """Another operation, address, secret or service is another request, and the old grant stays unspent."""
    admin = await home.tenant("acme")
    member = await home.user(admin.tenant_id, "mem")
    made(await member.door.post("/v1/secrets", {"name": "other", "type": "api_key", "value": "value-of-other-0451"}))
    service = made(await member.door.post("/v1/services", service_body(name="svc")))["id"]
    made(await member.door.post("/v1/tools", tool_body(key="m_tool", service=service)))
    first = (await _asked(member))["approval_id"]
    before = made(await admin.door.post(f"/v1/approvals/{first}/grant", {}))
    path, body = _CHANGES[changed]
    made(await member.door.patch(f"/v1/{path.format(service=service)}", body, If_Match="*"))
    second = (await _asked(member))["approval_id"]
    after = made(await admin.door.get(f"/v1/approvals/{second}"))
    assert second != first
    assert list(before["definition"]) == list(after["definition"]) == ["m_tool"]
    assert before["definition"] != after["definition"]
    assert made(await admin.door.get(f"/v1/approvals/{first}"))["state"] == "granted"


async def test_words_and_health_are_no_part_of_what_was_approved(home: ApiHome) -> None:
    """A new name or description leaves the request what it was."""
    admin = await home.tenant("acme")
    made(await admin.door.post("/v1/services", service_body(name="svc")))
    made(await admin.door.post("/v1/tools", tool_body(key="m_tool", service="svc")))
    first = (await _asked(admin))["approval_id"]
    change = {"name": "other", "description": "Other words.", "shared": True}
    made(await admin.door.patch("/v1/tools/m_tool/definition", change, If_Match="*"))
    assert (await _asked(admin))["approval_id"] == first


async def test_a_grant_is_not_for_a_composite_that_wires_the_same_tools_otherwise(house: House) -> None:
    """The same steps under the same name with other arguments must be asked for again."""
    house.offer("look_up", "refund", look_up=_ORDER, refund=_ORDER)
    approval = await house.pending("composite", order=7)
    assert set(approval.definition) == {"composite", "look_up", "refund"}
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    house.offer("look_up", "refund", look_up=_ORDER, refund={"order": 666})
    other = await house.pending("composite", order=7)
    assert (other.covers, house.desk.refunded) == (approval.covers, [])
    assert other.definition["refund"] == approval.definition["refund"]
    assert other.definition["composite"] != approval.definition["composite"]


async def test_what_ran_is_answered_from_the_record_whatever_became_of_the_tool(house: House) -> None:
    """Nobody is asked about a call that will not run: its key has its answer."""
    house.offer("look_up", "refund", look_up=_ORDER, refund=_ORDER)
    approval = await house.pending("composite", order=7)
    await house.approvals.grant("default", approval.approval_id, by=BOB)
    first = await house.ask("composite", order=7)
    house.offer("look_up", "refund", look_up=_ORDER, refund={"order": 666})
    again = await house.ask("composite", order=7)
    assert (again.replayed, again.output, house.desk.refunded) == (True, first.output, [7])


async def test_a_grant_that_was_overtaken_is_not_said_to_be_used(house: House) -> None:
    """What ran under the key ran by the later approval, and the earlier one stays unspent."""
    house.offer("look_up", "refund", look_up=_ORDER, refund=_ORDER)
    old = await house.pending("composite", order=7)
    await house.approvals.grant("default", old.approval_id, by=BOB)
    house.offer("look_up", "refund", look_up=_ORDER, refund={"order": 8})
    new = await house.pending("composite", order=7)
    await house.approvals.grant("default", new.approval_id, by=BOB)
    assert (await house.ask("composite", order=7)).status == "success"
    states = {one.approval_id: one.state for one in await house.approvals.list("default")}
    assert states == {old.approval_id: "granted", new.approval_id: "used"}


async def test_a_step_that_changed_while_the_composite_ran_is_refused(house: House) -> None:
    """Inside, a grant is for the tools as they were when it was asked for."""
    grant = Grant("a" * 32, "outer", frozenset({"refund"}), "ada", granted_by="bob", definitions={"refund": "other"})
    request = SkillInvocationRequest("refund", {"order": 7}, idempotency_key="outer:0")
    response = await house.calls.invoke(request, CallContext("s", caller="ada", is_inner=True, grant=grant))
    assert (code(response), house.desk.refunded) == ("POLICY_VIOLATION", [])


async def test_a_composite_replaced_between_the_grant_and_the_run_does_not_run(house: House) -> None:
    """The definition that runs is the one of the entry that was approved."""
    house.offer("look_up", "look_up", look_up=_ORDER)
    entry = house.catalog.find("default", "composite")
    grant = Grant("a" * 32, "k", frozenset({"composite"}), "ada", granted_by="bob")
    frame = CallFrame("default", "s", uuid4(), key="k", grant=grant)
    connector = FlowConnector(house.calls, house.catalog, house.shelf)
    assert await connector.invoke(entry, {"order": 7}, call=frame)
    house.offer("look_up", "refund", look_up=_ORDER, refund=_ORDER)
    with pytest.raises(ToolUnavailable, match="changed after this call was approved"):
        await connector.invoke(entry, {"order": 7}, call=frame)
    assert house.desk.refunded == []


def test_an_upstream_tool_is_known_by_the_words_it_was_accepted_with() -> None:
    """Other words that somebody accepted make another tool of it, also where its schema stayed the same."""
    tools = [
        PinnedTool("srv", "pay", "srv.pay", {"name": "pay", "description": words, "inputSchema": {}}, utc_now())
        for words in ("Pays.", "Pays twice.")
    ]
    one, other = (to_entry(tool).fingerprint for tool in tools)
    assert one != other
