"""Calling tools. Whatever the tool answered, the door did its work: the envelope says what came of it.

What the caller did wrong (arguments that do not fit, a key used twice, a rule that forbids it) is a problem, and
nothing was sent. What the tool did (failed, timed out, left its effect unknown) is an answer with an error in it.
"""

from __future__ import annotations

from typing import Any, Final

from twinraven.api.schemas import OBJECT, TEXT, ref
from twinraven.calls import CallContext, CallFailed, SkillInvocationRequest, SkillInvocationResponse
from twinraven.foundation.errors import (
    ApprovalPending,
    CallInProgress,
    Conflict,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    PolicyViolation,
    ToolError,
)
from twinraven.serving import Request, Response, Route, RouteTable, moment, refuse_secrets

_OF_THE_CONTEXT: Final = frozenset({"session_id", "turn", "outside_input", "tags"})
_FAILED_TOOLS: Final = frozenset(
    {ToolError.code, "TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "OUTPUT_INVALID", "EFFECT_UNKNOWN"}
)
_BODY: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "tool_name": {**TEXT, "description": "the tool's id in the catalogue"},
        "payload": {**OBJECT, "description": "the arguments"},
        "session_id": {**TEXT, "description": "the task of the agent that this call belongs to; learning needs it"},
        "turn": {"type": "integer", "minimum": 0, "maximum": 1_000_000_000, "description": "the model turn"},
        "outside_input": {
            "type": "string",
            "maxLength": 100_000,
            "description": "what came from outside since the call before, if anything did",
        },
        "tags": {"type": "array", "items": {**TEXT, "maxLength": 200}, "maxItems": 50},
        "idempotency_key": {**TEXT, "description": "as the Idempotency-Key header"},
        "id": TEXT,
        "skill_id": TEXT,
        "campaign_id": TEXT,
        "goal_id": TEXT,
        "task_id": TEXT,
        "correlation_id": TEXT,
        "side_effect": {"enum": ["read", "write", "read_write"]},
        "sensitivity": {"enum": ["low", "medium", "high"]},
        "created_at": {"type": "string", "format": "date-time"},
    },
    "required": ["tool_name", "session_id"],
    "additionalProperties": False,
}
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
                {"type": "object", "properties": {"output": {"description": "the tool's answer as it was"}}},
            ]
        },
        body=_BODY,
        errors=(NotFound, PolicyViolation, Conflict, CallInProgress, IdempotencyConflict),
        takes_key=True,
        keeps_key=True,
        also={202: "Somebody must approve it first; Location says where to ask, and the same call again goes on."},
        note=(
            "A write needs an idempotency key, in the header or in the body; one key never causes a second effect. "
            "200 means that the call was made and recorded: whether the tool succeeded stands in `status` and `error`."
        ),
    )
)
async def call(request: Request) -> Response:
    if "id" in request.body:
        await refuse_secrets(request, id=request.body["id"])
    context, envelope = _read(request)
    response = await request.raven.calls.invoke(envelope, context)
    return answer_of(response)


def answer_of(response: SkillInvocationResponse) -> Response:
    """An envelope, or the problem that kept the call from being made."""
    error = response.error
    body = response.as_json()
    body["output"] = response.output
    if error is not None and error["code"] == ApprovalPending.code:
        return Response(body, status=202, headers={"Location": f"/v1/approvals/{error['details']['approval_id']}"})
    if error is not None and error["code"] not in _FAILED_TOOLS:
        raise CallFailed(response)
    return Response(body, headers={"Idempotent-Replayed": "true"} if response.replayed else None)


def _read(request: Request) -> tuple[CallContext, SkillInvocationRequest]:
    body: dict[str, Any] = request.body
    context = CallContext(
        session_id=body["session_id"],
        turn=body.get("turn"),
        outside_input=body.get("outside_input"),
        tags=tuple(body.get("tags", ())),
        caller=request.who.user_id,
        actor=request.who.actor,
    )
    # The schema has checked every field by name and kind.
    stated = {name: value for name, value in body.items() if name not in _OF_THE_CONTEXT}
    key = request.idempotency_key
    if key is not None and stated.setdefault("idempotency_key", key) != key:
        raise InvalidInput("idempotency_key and the Idempotency-Key header differ", field="idempotency_key")
    if "created_at" in stated:
        stated["created_at"] = moment(stated["created_at"], field="created_at")
    if "correlation_id" not in stated:
        stated["correlation_id"] = request.correlation_id
    if "payload" not in stated:
        stated["payload"] = {}
    return context, SkillInvocationRequest(tenant_id=request.who.tenant_id, **stated)
