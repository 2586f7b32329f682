"""The audit entries of calls at the REST door, field by field: whoever reads the log alone can tell what happened."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, made
from twinraven.catalog import tool
from twinraven.foundation.errors import EffectUnknown, ToolUnavailable

_LINEAGE = {"campaign_id": "c-1", "goal_id": "g-1", "task_id": "t-1"}
_RULES = [
    {"tool": "wire", "then": "deny", "reason": "no wires"},
    {"tool": "refund", "then": "ask", "reason": "refunds need a person"},
    {"tool": "publish", "then": "judge", "reason": "a judge decides"},
    {"tool": "order", "then": "allow", "reason": "orders are fine"},
]
_ALLOWED = {"verdict": "allow", "rule": None}


@tool(effect="read", sensitivity="high")
def read_file(person: str) -> dict[str, str]:
    """Read a person's file."""
    return {"file": person}


@tool(effect="read")
def look(at: str) -> dict[str, str]:
    """Look at something that is not there."""
    raise ValueError(f"no {at} here")


@tool(effect="write")
def order(item: str) -> dict[str, str]:
    """Order something."""
    if item == "nothing":
        raise ValueError("nothing cannot be ordered")
    if item == "rain":
        raise ToolUnavailable("the shop is closed", tool_id="order")
    if item == "fog":
        raise EffectUnknown("the line went dead", tool_id="order")
    return {"ordered": item}


@tool(effect="write")
def wire(to: str) -> str:
    """Send money away."""
    return to


@tool(effect="write")
def publish(text: str) -> str:
    """Tell everybody."""
    return text


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[ApiHome]:
    functions = [read_file, look, order, wire, publish]
    async with api_home(tmp_path, functions=functions, policy={"rules": _RULES}) as opened:
        yield opened


@pytest.fixture
async def ada(home: ApiHome) -> Seeds:
    return await home.tenant("ada")


async def call(who: Seeds, name: str, key: str | None, **payload: Any) -> dict[str, Any]:
    """Make a call with every id that a call can name; the answer, with its correlation id."""
    body = {"tool_name": name, "payload": payload, "session_id": "s-1", **_LINEAGE}
    headers = {} if key is None else {"Idempotency_Key": key}
    reply = await who.door.post("/v1/calls", body, X_Correlation_Id=f"cor-{key or name}", **headers)
    return reply.json()


async def entries(ada: Seeds, correlation: str) -> list[dict[str, Any]]:
    """All entries of a request with their bodies, oldest first."""
    listed = made(await ada.door.get(f"/v1/audit?correlation_id={correlation}"))["items"]
    return [made(await ada.door.get(f"/v1/audit/{each['id']}")) for each in listed]


def told(entry: dict[str, Any]) -> dict[str, Any]:
    """What an entry says, without what differs each time."""
    left_out = {"id", "sequence", "timestamp", "body_hash", "previous_hash", "entry_hash", "subject_id"}
    data = {name: value for name, value in entry["data_json"].items() if name != "event_id"}
    return {**{name: value for name, value in entry.items() if name not in left_out}, "data_json": data}


def expected(ada: Seeds, kind: str, tool_id: str, key: str | None, **more: Any) -> dict[str, Any]:
    """An entry of a call by `ada`; `data` is added to what every entry of a call holds."""
    of_call = {
        "tool_id": tool_id,
        "effect": "read" if key is None else "write",
        "sensitivity": "low",
        "session_id": "s-1",
        **_LINEAGE,
        **({} if key is None else {"idempotency_key": key}),
        **more.pop("data", {}),
    }
    return {
        "tenant_id": ada.tenant_id,
        "subject_type": "call",
        "event_type": kind,
        "actor_type": "person",
        "actor_id": ada.user_id,
        "correlation_id": f"cor-{key or tool_id}",
        "code": None,
        "message": None,
        "body": None,
        **more,
        "data_json": of_call,
    }


async def decide(home: ApiHome, ada: Seeds, key: str, word: str, **payload: Any) -> Seeds:
    """Ask for a refund, and let an approver grant or deny it; gives the approver."""
    assert (await call(ada, "refund", key, **payload))["error"]["code"] == "APPROVAL_PENDING"
    (waiting,) = made(await ada.door.get("/v1/approvals?state=pending"))["items"]
    vera = await home.user(ada.tenant_id, "vera", role="approver")
    made(await vera.door.post(f"/v1/approvals/{waiting['approval_id']}/{word}", {"note": "too much"}))
    return vera


@pytest.mark.req("CH-10", "CH-22", "CH-23", "CH-25")
async def test_a_write_can_be_told_from_its_entries_alone(ada: Seeds) -> None:
    """Who, what, with which arguments, why it was allowed, and what came of it; both entries are of one request."""
    answer = await call(ada, "order", "k-1", item="tea")
    intent, result = await entries(ada, "cor-k-1")
    policy = {"verdict": "allow", "rule": "rules[4]", "reason": "'order': orders are fine"}
    wanted = expected(ada, "call.intended", "order", "k-1", data={"policy": policy}, body={"params": {"item": "tea"}})
    assert told(intent) == wanted
    assert told(result) == expected(ada, "call.succeeded", "order", "k-1", body={"output": {"ordered": "tea"}})
    assert {each["subject_id"] for each in (intent, result)} == {answer["request_id"]}
    assert {each["data_json"]["event_id"] for each in (intent, result)} == {answer["event_id"]}
    event = made(await ada.door.get(f"/v1/events/{answer['event_id']}"))
    assert (event["correlation_id"], event["tool_id"], event["task_id"]) == ("cor-k-1", "order", "t-1")


@pytest.mark.req("CH-10")
async def test_a_sensitive_read_can_be_told_from_its_entry(ada: Seeds) -> None:
    """The entry is there before anything is read, with the arguments and what policy said."""
    await call(ada, "read_file", None, person="eve")
    (entry,) = await entries(ada, "cor-read_file")
    data = {"sensitivity": "high", "policy": _ALLOWED}
    assert told(entry) == expected(ada, "call.read", "read_file", None, data=data, body={"params": {"person": "eve"}})


@pytest.mark.req("CH-10", "CH-22")
async def test_failures_are_audited_whole(ada: Seeds) -> None:
    """A read that failed, a write that failed for good, one that was not sent, and one of which nobody knows."""
    await call(ada, "look", None, at="moon")
    (failed,) = await entries(ada, "cor-look")
    problem = {"code": "TOOL_FAILED", "message": "ValueError: no moon here", "data": {"retryable": False}}
    assert told(failed) == expected(ada, "call.failed", "look", None, **problem)
    await call(ada, "order", "k-2", item="nothing")
    _, broken = await entries(ada, "cor-k-2")
    problem = {"code": "TOOL_FAILED", "message": "ValueError: nothing cannot be ordered"}
    assert told(broken) == expected(ada, "call.failed", "order", "k-2", **problem)
    await call(ada, "order", "k-3", item="rain")
    _, unsent = await entries(ada, "cor-k-3")
    problem = {"code": "TOOL_UNAVAILABLE", "message": "the shop is closed", "data": {"retryable": True}}
    assert told(unsent) == expected(ada, "call.failed", "order", "k-3", **problem)
    await call(ada, "order", "k-8", item="fog")
    _, lost = await entries(ada, "cor-k-8")
    problem = {"code": "EFFECT_UNKNOWN", "message": "the line went dead"}
    assert told(lost) == expected(ada, "call.unknown", "order", "k-8", **problem)


@pytest.mark.req("CH-15", "CH-22")
async def test_refusals_of_calls_are_audited_whole(home: ApiHome, ada: Seeds) -> None:
    """What a rule denies, what no judge approved and what a person denied: ids, code, message and rule."""
    denied = await call(ada, "wire", "k-4", to="bob")
    (entry,) = await entries(ada, "cor-k-4")
    data = {"policy": {"verdict": "deny", "rule": "rules[1]"}}
    words = {"code": "POLICY_VIOLATION", "message": "'wire': no wires"}
    assert denied["code"] == "POLICY_VIOLATION"
    assert told(entry) == expected(ada, "policy.refused", "wire", "k-4", data=data, **words)
    await call(ada, "publish", "k-5", text="hello")
    (entry,) = await entries(ada, "cor-k-5")
    assert (entry["event_type"], entry["code"]) == ("policy.refused", "POLICY_VIOLATION")
    assert entry["data_json"]["policy"] == {"verdict": "judge", "rule": "rules[3]"}
    assert entry["message"].startswith("'publish': a judge decides; ")
    await decide(home, ada, "k-6", "deny", order=7)
    await call(ada, "refund", "k-6", order=7)
    refusals = [each for each in await entries(ada, "cor-k-6") if each["code"] == "APPROVAL_DENIED"]
    assert [each["event_type"] for each in refusals] == ["policy.refused"]
    assert "too much" in refusals[0]["message"]


@pytest.mark.req("CH-10", "CH-23")
async def test_an_approved_write_says_who_approved_it(home: ApiHome, ada: Seeds) -> None:
    """Intent and result of a call that somebody granted name the grant and who gave it."""
    vera = await decide(home, ada, "k-7", "grant", order=8)
    assert (await call(ada, "refund", "k-7", order=8))["status"] == "success"
    whole = await entries(ada, "cor-k-7")
    kinds = ["approval.requested", "approval.granted", "call.intended", "call.succeeded"]
    assert [each["event_type"] for each in whole] == kinds
    done = whole[2:]
    assert [each["data_json"]["approval"]["granted_by"] for each in done] == [vera.user_id] * 2
    assert done[0]["data_json"]["policy"]["rule"] == "rules[2]"
