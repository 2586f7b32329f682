"""Calls tools by request envelopes. A failed tool is a successful request: the answer says how the call ended.

What the caller did wrong (arguments that do not fit, a key used twice, a rule that forbids it) is a problem, and
nothing was sent. What the tool did (failed, timed out, left its effect unknown) is an answer with an error in it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from twinraven.api.idempotency_keys import with_key
from twinraven.api.schemas import OBJECT, TEXT, ref
from twinraven.calls import CallContext, CallFailed, SkillInvocationRequest, SkillInvocationResponse
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import (
    ApprovalPending,
    CallInProgress,
    Conflict,
    IdempotencyConflict,
    NotFound,
    PolicyViolation,
    ToolError,
)
from twinraven.foundation.ids import new_id
from twinraven.serving import Request, Response, Route, RouteTable, moment, refuse_secrets

_OF_THE_CONTEXT: Final = frozenset({"session_id", "turn", "outside_input", "tags"})
_OF_THE_ENVELOPE: Final = ("tenant_id", "campaign_id", "goal_id", "task_id", "correlation_id")
_REQUEST, _RESPONSE = "skill.request", "skill.response"
_FAILED_TOOLS: Final = frozenset(
    {ToolError.code, "TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "OUTPUT_INVALID", "EFFECT_UNKNOWN"}
)
_TEXT_OR_NULL: Final = {**TEXT, "type": ["string", "null"]}
_BODY: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "tool_name": {**TEXT, "description": "the tool's id in the catalogue"},
        "payload": {**OBJECT, "description": "the arguments"},
        "session_id": {
            **TEXT,
            "description": "the task of the agent that this call belongs to, which learning needs; "
            "left out, it is task_id, else a session of its own",
        },
        "turn": {"type": "integer", "minimum": 0, "maximum": 1_000_000_000, "description": "the model turn"},
        "outside_input": {
            "type": "string",
            "maxLength": 100_000,
            "description": "what came from outside since the call before, if anything did",
        },
        "tags": {"type": "array", "items": {**TEXT, "maxLength": 200}, "maxItems": 50},
        "idempotency_key": {**_TEXT_OR_NULL, "description": "as the Idempotency-Key header"},
        "id": TEXT,
        "skill_id": TEXT,
        **dict.fromkeys(("campaign_id", "goal_id", "task_id", "correlation_id"), _TEXT_OR_NULL),
        "side_effect": {"enum": ["read", "write", "read_write"]},
        "sensitivity": {"enum": ["low", "medium", "high"]},
        "created_at": {"type": "string", "format": "date-time"},
        "tenant_id": {**TEXT, "description": "one's own; left out, it is"},
        "role": {"enum": ["planner", "worker", "judge", "skill", "system"]},
        "type": {"const": _REQUEST},
        "status": {"const": "pending"},
        "confidence_score": {"type": "number", "minimum": 0, "maximum": 1},
        "risk_tags": {"type": "array", "items": {**TEXT, "maxLength": 200}, "maxItems": 50},
    },
    "required": ["tool_name"],
}
_MESSAGE: Final[dict[str, Any]] = {
    **{name: {"type": ["string", "null"]} for name in _OF_THE_ENVELOPE},
    "role": {"const": "skill"},
    "type": {"const": _RESPONSE},
    "created_at": {"type": "string", "format": "date-time"},
    "output": {"description": "the tool's answer as it was"},
}
_FIELDS: Final = frozenset(SkillInvocationRequest.__slots__) - {"extra"}
_NAMED: Final = _FIELDS | _OF_THE_CONTEXT
ROUTES: Final = RouteTable()


@ROUTES.handles(
    Route(
        "POST",
        "/v1/calls",
        "callTool",
        "Call a tool, and remember the call",
        {
            "allOf": [
                ref("SkillInvocationResponse"),
                {
                    "type": "object",
                    "properties": _MESSAGE,
                    "required": [*_OF_THE_ENVELOPE, "role", "type", "created_at"],
                },
            ]
        },
        body=_BODY,
        errors=(NotFound, PolicyViolation, Conflict, CallInProgress, IdempotencyConflict),
        takes_key=True,
        keeps_key=True,
        also={202: "Somebody must approve it first; Location says where to ask, and the same call again goes on."},
        note=(
            "A write needs an idempotency key, in the header or in the body; one key never causes a second effect. "
            "200 means that the call was made and recorded: whether the tool succeeded stands in `status` and `error`. "
            "Fields that are not listed are kept: they stand in the answer and, for a write, in the audit entry."
        ),
    )
)
async def call(request: Request) -> Response:
    if "id" in request.body:
        await refuse_secrets(request, id=request.body["id"])
    context, envelope = _read(request, await _unlisted(request))
    response = await request.raven.calls.invoke(envelope, context)
    return _answer({**envelope.extra, **await _common(request, envelope)}, response)


def _answer(said: dict[str, Any], response: SkillInvocationResponse) -> Response:
    """Return the answer as a message with the common fields, or the problem that kept the call from being made."""
    error, told = response.error, response.as_json()
    body: dict[str, Any] = {
        **said,
        **told,
        "role": "skill",
        "type": _RESPONSE,
        "created_at": told["audit"]["finished_at"],
        "output": response.output,
    }
    if error is not None and error["code"] == ApprovalPending.code:
        return Response(body, status=202, headers={"Location": f"/v1/approvals/{error['details']['approval_id']}"})
    if error is not None and error["code"] not in _FAILED_TOOLS:
        raise CallFailed(response)
    return Response(body, headers={"Idempotent-Replayed": "true"} if response.replayed else None)


async def _unlisted(request: Request) -> dict[str, Any]:
    """Fields that no request has by name, as they are audited and answered."""
    return await _without_secrets(request, {key: value for key, value in request.body.items() if key not in _NAMED})


async def _common(request: Request, asked: SkillInvocationRequest) -> dict[str, Any]:
    """Return the fields that every message has, as they are answered."""
    common = {name: getattr(asked, name) for name in _OF_THE_ENVELOPE}
    return await _without_secrets(request, common) if request.body.keys() & common.keys() else common


async def _without_secrets(request: Request, stated: dict[str, Any]) -> dict[str, Any]:
    """Return what a caller stated, without the values of secrets."""
    if not stated:
        return stated
    raw = await asyncio.to_thread(request.raven.redactor.redact_known, request.tenant_id, canonical_json(stated))
    return parse_json(raw)


def _read(request: Request, extra: dict[str, Any]) -> tuple[CallContext, SkillInvocationRequest]:
    body: dict[str, Any] = request.body
    context = CallContext(
        session_id=body.get("session_id") or body.get("task_id") or new_id(),
        turn=body.get("turn"),
        outside_input=body.get("outside_input"),
        tags=tuple(body.get("tags", ())),
        caller=request.who.user_id,
        actor=request.who.actor,
    )
    if body.get("tenant_id", request.tenant_id) != request.tenant_id:
        raise NotFound(f"there is no tenant {body['tenant_id']!r}", field="tenant_id")
    # The schema has checked every field that a request has by name and kind.
    stated = with_key(request, {name: value for name, value in body.items() if name in _FIELDS and value is not None})
    if "created_at" in stated:
        stated["created_at"] = moment(stated["created_at"], field="created_at")
    if "correlation_id" not in stated:
        stated["correlation_id"] = request.correlation_id
    if "payload" not in stated:
        stated["payload"] = {}
    stated["tenant_id"] = request.tenant_id
    return context, SkillInvocationRequest(**stated, extra=extra)
