"""A body for every route that takes one, for tests that go through the whole table of routes."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.catalog.town import inputs, service_body, tool_body

_OPERATION: Final = {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}

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
    "grantApproval": {},
    "denyApproval": {"note": "no"},
    "promoteTool": {},
    "rejectTool": {"reason": "no"},
    "rollBackTool": {"to_version": 1},
    "retireTool": {},
    "quarantineTool": {"reason": "no"},
    "createSecret": {"name": "sample", "type": "api_key", "value": "value-of-a-sample"},
    "rotateSecret": {"value": "another-value-of-it"},
    "changeSecret": {"name": "renamed"},
    "addUser": {"name": "uma"},
    "changeUser": {"active": False},
    "issueKey": {"label": "sample"},
}
