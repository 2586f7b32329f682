"""A body for every route that takes one, for tests that go through the whole table of routes."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.catalog.town import inputs, service_body, tool_body

_OPERATION: Final = {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}

_KINDS: Final = {"planner": "planner.task", "worker": "worker.result", "judge": "judge.decision"}


def _envelope(role: str, status: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    common = {"tenant_id": "default", "role": role, "type": _KINDS[role], "status": status, "idempotency_key": "k"}
    return {**common, "payload": payload, **more}


BODIES: Final[dict[str, Any]] = {
    "callTool": {"tool_name": "search", "payload": {"query": "x"}, "session_id": "s"},
    "createTool": tool_body(key="sample", service="ada-service"),
    "changeTool": {"description": "another"},
    "makeTool": {
        "key": "sample_copy",
        "service": "ada-service",
        "connection_params": {"endpoint": "https://shop.example"},
    },
    "createService": service_body(name="sample"),
    "changeService": {"enabled": False},
    "makeService": {"name": "sample-copy"},
    "createServiceTemplate": service_body(name="sample"),
    "createToolTemplate": {"name": "sample", "operation": _OPERATION, "input_schema": inputs("orderId")},
    "changeServiceTemplate": {"shared": True},
    "changeToolTemplate": {"shared": True},
    "recordEvents": {"events": [{"session_id": "s", "tool_id": "search", "input_params": {"query": "x"}}]},
    "receiveSpans": {"resourceSpans": []},
    "stateVerdict": {"outcome": "failure"},
    "startLearning": {"with_model": False},
    "saveProcess": {
        "definition": {
            "id": "sampled",
            "description": "Search",
            "steps": [{"id": "a", "tool": "search", "inputs": {"query": "x"}, "output": {"variable": "v"}}],
        }
    },
    "checkProcess": {
        "definition": {
            "id": "checked",
            "description": "Search",
            "steps": [{"id": "a", "tool": "search", "inputs": {"query": "x"}, "output": {"variable": "v"}}],
        }
    },
    "createConversation": {"title": "sample"},
    "changeConversation": {"title": "renamed"},
    "forkConversation": {"title": "fork"},
    "addTurn": {"speaker": "user", "content": "hello"},
    "converse": {"content": "hello", "process_id": "talk_with_ada"},
    "addAlternative": {"content": "hello again"},
    "switchAlternative": {"alternative_id": "another"},
    "runProcess": {"parameters": {"q": "x"}},
    "startPlan": {
        "plan": {"goal": "Search.", "steps": [{"step_id": "1", "description": "Search.", "tool": "search"}]},
        "ttl": 1,
    },
    "forkPlan": {"step": "1", "ttl": 5},
    "savePlan": {"process_id": "saved"},
    "startRun": {"tool_id": "search", "parameters": {"query": "x"}},
    "cancelRun": {},
    "resumeRun": {},
    "retryRun": {},
    "forkRun": {"step": "0"},
    "answerRun": {"place": "0", "answer": True},
    "signalEvent": {"event": "paid", "payload": 1},
    "createCampaign": {"name": "Spring"},
    "changeCampaign": {"name": "Summer", "state_version": 1},
    "createGoal": {"description": "Announce it"},
    "cancelGoal": {"state_version": 1},
    "planGoal": {"tasks": [{"task_type": "trend_research", "description": "Look around"}]},
    "proposePlan": {},
    "createBudget": {"total": "5.00", "currency": "EUR"},
    "changeBudget": {"total": "6.00", "state_version": 1},
    "planTask": _envelope("planner", "pending", {"task_type": "trend_research", "description": "d"}, goal_id="g"),
    "reviseTask": {"payload": {"task_type": "trend_research", "description": "d"}, "state_version": 1},
    "cancelTask": {"state_version": 1},
    "retryTask": {"state_version": 1},
    "claimTask": {},
    "reportResult": _envelope(
        "worker", "complete", {"attempt_number": 1, "outputs": {}}, task_id="t", confidence_score=0.5
    ),
    "evaluateResult": {},
    "decideResult": _envelope(
        "judge",
        "rejected",
        {"result_id": "r", "decision": "reject", "reason_summary": "no", "state_version": 1},
        task_id="t",
    ),
    "resolveDecision": {"decision": "reject", "reason": "no"},
    "grantApproval": {},
    "publish": {"task_id": "t", "channel": "blog", "text": "x", "idempotency_key": "sample-post"},
    "postMessage": {
        "task_id": "t",
        "channel": "mail",
        "recipient": "ann",
        "text": "x",
        "idempotency_key": "sample-mail",
    },
    "pay": {
        "task_id": "t",
        "wallet_id": "w",
        "amount": "1.00",
        "currency": "EUR",
        "counterparty": "p",
        "idempotency_key": "sample-pay",
    },
    "cancelPublication": {},
    "reconcilePublication": {},
    "cancelMessage": {},
    "reconcileMessage": {},
    "cancelTransaction": {},
    "reconcileTransaction": {},
    "reverseTransaction": {"note": "n"},
    "openWallet": {"agent_or_campaign_id": "c", "currency": "EUR"},
    "fundWallet": {"amount": "1.00", "idempotency_key": "sample-fund"},
    "changeWallet": {"status": "frozen"},
    "addAsset": {"campaign_id": "c", "kind": "image", "storage_uri": "s3://x"},
    "decideInboxItem": {"choice": "approve", "bound_to": "0" * 12},
    "denyApproval": {"note": "no"},
    "promoteTool": {},
    "rejectTool": {"reason": "no"},
    "rollBackTool": {"to_version": 1},
    "retireTool": {},
    "quarantineTool": {"reason": "no"},
    "addEpisode": {"group_id": "g", "name": "sample", "content": "Ann moved to Lisbon."},
    "searchKnowledge": {"query": "Lisbon"},
    "extractAnew": {"group_id": "ada-talk"},
    "createEntity": {"name": "Sample", "summary": "a sample"},
    "stateFact": {"relation": "lives_in", "value": "Lisbon"},
    "mergeEntities": {"other_id": "another"},
    "proposeMerges": {},
    "placeEntity": {"group_id": "g"},
    "compressEpisodes": {"group_id": "g", "episode_ids": ["e"]},
    "writeSummary": {"group_id": "g", "episode_ids": ["e"], "content": "Ann moved."},
    "repairSummary": {"content": "Ann moved."},
    "stateCoverage": {"covers_up_to_turn": "t"},
    "deleteSummary": {},
    "addIntrospection": {"content": "Prefers short answers."},
    "correctIntrospection": {"content": "Prefers long answers."},
    "defineMetric": {"name": "sample", "scope": "tool", "aggregation": "sum", "data_type": "integer"},
    "changeMetric": {"description": "d"},
    "deleteMetric": {},
    "reportMetric": {"entity_id": "search", "value": 1.5},
    "createSecret": {"name": "sample", "type": "api_key", "value": "value-of-a-sample"},
    "rotateSecret": {"value": "another-value-of-it"},
    "changeSecret": {"name": "renamed"},
    "addUser": {"name": "uma"},
    "signIn": {"label": "sample"},
    "changeUser": {"active": False},
    "issueKey": {"label": "sample"},
    "acceptUpstreams": {"tools": ["shop.order"]},
    "classifyUpstreams": {"tools": ["shop.order"], "effect": "read"},
}
