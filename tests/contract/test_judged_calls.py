"""Calls of tools that judges hold back, and the request that a caller writes by the contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Reply
from tests.api_homes import api_home, make_chain
from tests.governed import approved_task
from tests.registry_kit import make_definition, make_verdict
from tests.working import reach, working
from twinraven.app import TwinRaven
from twinraven.audit import AuditFilter
from twinraven.catalog import ToolAnswer, tool
from twinraven.flow import StepDefinition
from twinraven.foundation.errors import ToolError
from twinraven.foundation.ids import new_id


def told(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["code"]


@pytest.mark.req("CH-15", "CH-19", "CH-25")
async def test_a_judged_call_names_its_decision(tmp_path: Path) -> None:
    """A call that a judge let pass is recorded with the decision, the campaign and the goal; a call that names another
    campaign than its task's is refused, and so is a process, however it was started, that has the tool inside."""
    rules = [{"tool": "refund", "then": "judge", "reason": "refunds are judged"}]
    async with api_home(tmp_path, policy={"rules": rules}) as home:
        task, other = await approved_task(home.raven), await approved_task(home.raven)
        call = {"tool_name": "refund", "payload": {"order": 7}, "session_id": "s", "task_id": task.task_id}
        ran = await home.door.post("/v1/calls", call, Idempotency_Key="fine")
        assert ran.json()["status"] == "success", ran.body
        (entry,) = await home.raven.audit.entries("default", AuditFilter(event_type="call.intended"))
        assert entry.data["policy"]["decision_id"] == task.decision_id
        assert (entry.data["campaign_id"], entry.data["goal_id"]) == (task.campaign_id, task.goal_id)
        for name in ("campaign_id", "goal_id"):
            foreign = {**call, name: getattr(other, name)}
            refused = await home.door.post("/v1/calls", foreign, Idempotency_Key=f"foreign-{name}")
            assert told(refused) == (403, "POLICY_VIOLATION"), refused.body
        step = {"id": "s1", "tool": "refund", "inputs": {"order": 7}, "output": {"variable": "done"}}
        process = {"id": "wrapped", "description": "Give it back", "initial_context": [], "steps": [step]}
        assert (await home.door.post("/v1/processes", {"definition": process})).status in (200, 201)
        async with working(home.raven):
            assert (await home.door.post("/v1/processes/wrapped/runs", {"run_id": "sly"})).status == 202
            run = await reach(home.raven, "sly", "failed")
            assert (run.error or {})["code"] == "POLICY_VIOLATION"
            wrapped = {**call, "tool_name": "wrapped", "payload": {}}
            for key, named in (("w1", {"task_id": None}), ("w2", {})):
                refused = await home.door.post("/v1/calls", {**wrapped, **named}, Idempotency_Key=key)
                assert told(refused) == (403, "POLICY_VIOLATION"), refused.body


@pytest.mark.req("CH-15")
async def test_a_learned_tool_is_judged_by_what_is_inside(tmp_path: Path) -> None:
    """A learned tool with a judged tool inside begins only under its task's decision, whoever approves the rest."""
    rules = [{"tool": "refund", "then": "judge"}, {"tool": "pay", "then": "ask"}]
    async with api_home(tmp_path, policy={"rules": rules}) as home:
        task = await approved_task(home.raven)
        refund = StepDefinition(1, "refund", {"order": 7})
        await learned(home.raven, "look_and_refund", StepDefinition(0, "search", {"query": "x"}), refund)
        await learned(home.raven, "pay_and_refund", StepDefinition(0, "pay", {"amount": 1}), refund)
        for name in ("look_and_refund", "pay_and_refund"):
            call: dict[str, Any] = {"tool_name": name, "payload": {}, "session_id": name}
            refused = await home.door.post("/v1/calls", call, Idempotency_Key=f"{name}-1")
            assert told(refused) == (403, "POLICY_VIOLATION"), refused.body
            home.raven.collector.flush()
            found = (await home.door.get(f"/v1/events?session_id={name}")).json()["items"]
            assert [each["tool_id"] for each in found] == [name]
        assert (await home.door.get("/v1/approvals")).json()["items"] == []
        call = {"tool_name": "look_and_refund", "payload": {}, "session_id": "s", "task_id": task.task_id}
        ran = await home.door.post("/v1/calls", call, Idempotency_Key="judged")
        assert ran.json()["status"] == "success", ran.body


async def learned(raven: TwinRaven, tool_id: str, *steps: StepDefinition) -> None:
    """Put a learned tool of these steps into service."""
    chain = make_chain()
    await raven.chains.add("default", [chain])
    plain = make_definition(tool_id, chain_id=str(chain.chain_id))
    definition = replace(plain, parameters={"type": "object", "properties": {}}, steps=steps)
    draft = await raven.registry.draft("default", definition, evidence_hash=tool_id)
    await raven.registry.register("default", draft.definition, make_verdict())
    await raven.registry.promote("default", tool_id, by="local")


@tool(effect="write", sensitivity="high")
def guess(topic: str) -> Any:
    """Guess, and say how sure it is."""
    if topic == "nothing":
        raise ToolError("there is nothing to guess")
    return ToolAnswer([topic], tokens=3, confidence_score=0.4, risk_tags=("rumour",), is_partial=True)


@pytest.mark.req("CH-09")
async def test_an_answer_says_what_its_tool_says_of_it(tmp_path: Path) -> None:
    """A partial answer, its doubts and its risks arrive at the door, and are the same when the key is sent again;
    what the call may do is what the catalogue says, whatever the caller states."""
    async with api_home(tmp_path, functions=[guess]) as home:
        asked = {"tool_name": "guess", "payload": {"topic": "rain"}, "sensitivity": "low", "idempotency_key": "k1"}
        first, again = [(await home.door.post("/v1/calls", {**asked, "id": each})).json() for each in ("a", "b")]
        for answer, said in ((first, ("a", False)), (again, ("b", True))):
            assert (answer["request_id"], answer["replayed"]) == said
            assert (answer["status"], answer["payload"]) == ("partial", {"result": ["rain"]})
            assert (answer["side_effect"], answer["sensitivity"]) == ("write", "high")
            assert answer["audit"]["started_at"] <= answer["audit"]["finished_at"] == answer["created_at"]
        assert (first["confidence_score"], first["risk_tags"]) == (0.4, ["rumour"])
        assert first["audit"]["cost_estimate"] == {"tokens": 3, "currency": None, "amount": None}
        assert first["id"] != again["id"]
        other = {**asked, "payload": {"topic": "nothing"}, "idempotency_key": "k2"}
        failed = (await home.door.post("/v1/calls", other)).json()
        assert (failed["status"], failed["confidence_score"]) == ("failed", 0.0)
        called = {**other, "side_effect": "read", "idempotency_key": "k3"}
        refused = await home.door.post("/v1/calls", called)
        assert (*told(refused), refused.json()["details"]["field"]) == (400, "VALIDATION_FAILED", "side_effect")


@pytest.mark.req("CH-02", "CH-09")
async def test_a_skill_request_as_the_contract_writes_it_is_taken(tmp_path: Path) -> None:
    """The fields of SkillInvocationRequest are enough, those that may be null may be; the session is then the task."""
    async with api_home(tmp_path) as home:
        request = {
            "id": new_id(),
            "tenant_id": "default",
            "campaign_id": None,
            "task_id": None,
            "skill_id": "town",
            "tool_name": "pay",
            "idempotency_key": "k1",
            "side_effect": "write",
            "sensitivity": "low",
            "payload": {"amount": 5},
        }
        answer = await home.door.post("/v1/calls", request)
        assert (answer.status, answer.json()["status"], answer.json()["task_id"]) == (200, "success", None)
        named = {**request, "task_id": "t" * 32, "idempotency_key": "k2", "correlation_id": None, "goal_id": None}
        assert (await home.door.post("/v1/calls", named)).json()["task_id"] == "t" * 32
        keyless = await home.door.post("/v1/calls", {**request, "idempotency_key": None})
        assert (*told(keyless), keyless.json()["details"]["field"]) == (400, "VALIDATION_FAILED", "idempotency_key")
        home.raven.collector.flush()
        sessions = {each["session_id"] for each in (await home.door.get("/v1/sessions")).json()["items"]}
        assert "t" * 32 in sessions
