"""States the JSON Schemas of the three envelopes of governed work: planner.task, worker.result and judge.decision.

They are checked, exported by `twinraven schemas export` and part of the OpenAPI document. They forbid no other fields,
because contracts grow by addition. `task_id` is optional in a planner's payload, since the house can mint one; `run`,
`currency` and `check` are additions of ours, and so are `mandatory` and `override` of a decision.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from twinraven.governance.model import (
    PRIORITIES,
    TASK_TYPES,
    VERDICTS,
    ActionWord,
    ArtifactKind,
    BackoffWord,
    CheckResult,
    WorkKind,
)

JsonSchema = dict[str, Any]

ID: Final[JsonSchema] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{22,128}$",
    "description": "opaque, with at least 128 random bits: 32 hexadecimal digits, say",
}
_NAME: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[^\\u0000-\\u001f]*$"}
_TEXT: Final[JsonSchema] = {"type": "string", "minLength": 1, "maxLength": 10_000, "pattern": "^[^\\u0000]*$"}
_WORDS: Final[JsonSchema] = {"type": "string", "maxLength": 10_000, "pattern": "^[^\\u0000]*$"}
_TIME: Final[JsonSchema] = {"type": ["string", "null"], "format": "date-time"}
_NAMES: Final[JsonSchema] = {"type": "array", "items": _NAME, "maxItems": 100}
_AMOUNT: Final[JsonSchema] = {
    "type": ["string", "null"],
    "pattern": "^(0|[1-9][0-9]{0,14})(\\.[0-9]{1,18})?$",
    "description": "decimal text; a JSON number could lose its last digit",
}
_CURRENCY: Final[JsonSchema] = {"type": ["string", "null"], "pattern": "^[A-Z]{3}$"}
_OBJECT: Final[JsonSchema] = {"type": "object"}
_SHARE: Final[JsonSchema] = {"type": "number", "minimum": 0, "maximum": 1}


def _of(properties: JsonSchema, *required: str) -> JsonSchema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: JsonSchema, most: int) -> JsonSchema:
    return {"type": "array", "items": items, "maxItems": most}


def _or_null(schema: JsonSchema) -> JsonSchema:
    """Return a schema that also takes null.

    By its type and not as an alternative, so that an error names the inner field.
    """
    return {**schema, "type": [schema["type"], "null"]}


_CONSTRAINTS: Final = _of(
    {
        "channels": _NAMES,
        "persona_ids": _NAMES,
        "safety_policies": _NAMES,
        "max_budget": _AMOUNT,
        "currency": _CURRENCY,
        "time_window": _or_null(_of({"start": _TIME, "end": _TIME})),
    }
)
_CRITERION: Final = _of(
    {
        "id": _NAME,
        "description": _TEXT,
        "mandatory": {"type": "boolean", "default": True},
        "check": {**_TEXT, "description": "a predicate over the output, such as `exists($.output.url)`"},
    },
    "id",
    "description",
)
TASK_PAYLOAD: Final = _of(
    {
        "task_id": ID,
        "task_type": {"enum": list(TASK_TYPES)},
        "description": _TEXT,
        "inputs": _OBJECT,
        "constraints": _CONSTRAINTS,
        "acceptance_criteria": _list(_CRITERION, 100),
        "priority": {"enum": list(PRIORITIES)},
        "dependencies": _list(_NAME, 500),
        "retry_policy": _of(
            {
                "max_attempts": {"type": "integer", "minimum": 1, "maximum": 100},
                "backoff_strategy": {"enum": list(get_args(BackoffWord))},
            }
        ),
        "run": _or_null(
            {
                **_of(dict.fromkeys(get_args(WorkKind), _NAME)),
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": False,
                "description": "what the house's own worker runs; without it, a worker outside takes the task",
            }
        ),
    },
    "task_type",
    "description",
)
_ARTIFACT: Final = _of(
    {
        "artifact_id": _NAME,
        "kind": {"enum": list(get_args(ArtifactKind))},
        "summary": _WORDS,
        "content_ref": {"type": ["string", "null"], "maxLength": 2_000, "description": "media:ID, or a URI"},
        "media_metadata": _or_null(_OBJECT),
    },
    "artifact_id",
    "kind",
)
_COST: Final = _of(
    {"tokens": {"type": "integer", "minimum": 0}, "currency": _CURRENCY, "amount": _AMOUNT},
)
_INVOCATION: Final = _of(
    {
        "skill_id": {"type": ["string", "null"]},
        "tool_name": _NAME,
        "call_id": _NAME,
        "status": {"enum": ["success", "failed"]},
        "cost_estimate": _COST,
    },
    "tool_name",
    "call_id",
    "status",
)
RESULT_PAYLOAD: Final = _of(
    {
        "attempt_number": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        "outputs": _of(
            {
                "artifacts": _list(_ARTIFACT, 200),
                "analysis": _of(
                    {"trend_signals": _list(_WORDS, 200), "rationale": _WORDS, "safety_considerations": _WORDS}
                ),
            }
        ),
        "acceptance_evidence": _list(
            _of(
                {"criterion_id": _NAME, "satisfied": {"type": "boolean"}, "notes": _WORDS}, "criterion_id", "satisfied"
            ),
            200,
        ),
        "tool_invocations": _list(_INVOCATION, 2_000),
    },
    "attempt_number",
    "outputs",
)
_CHECK: Final = _of(
    {
        "check_id": _NAME,
        "name": _NAME,
        "result": {"enum": list(get_args(CheckResult))},
        "details": _WORDS,
        "mandatory": {"type": "boolean", "default": True},
    },
    "check_id",
    "name",
    "result",
)
REQUIRED_ACTION: Final = _of(
    {
        "action": {"enum": list(get_args(ActionWord))},
        "target_artifact_id": {"type": ["string", "null"]},
        "notes": _WORDS,
    },
    "action",
)
DECISION_PAYLOAD: Final = _of(
    {
        "result_id": _NAME,
        "decision": {"enum": list(VERDICTS)},
        "reason_summary": _TEXT,
        "policy_checks": _list(_CHECK, 200),
        "required_actions": _list(REQUIRED_ACTION, 100),
        "human_review": _or_null(_OBJECT),
        "state_version": {"type": "integer", "minimum": 1, "maximum": 2_147_483_647},
        "override": _or_null(_of({"reason": _TEXT}, "reason")),
    },
    "result_id",
    "decision",
    "reason_summary",
    "state_version",
)
_ERROR: Final = _of(
    {"code": _NAME, "message": _WORDS, "retryable": {"type": "boolean"}, "details": _OBJECT},
    "code",
    "message",
    "retryable",
    "details",
)


def _envelope(role: str, kind: str, statuses: list[str], payload: JsonSchema, *required: str) -> JsonSchema:
    ids = ("campaign_id", "goal_id", "task_id", "correlation_id")
    return _of(
        {
            "id": _NAME,
            "tenant_id": _NAME,
            **{name: _NAME if name in required else _or_null(_NAME) for name in ids},
            "created_at": {"type": "string", "format": "date-time"},
            "role": {"const": role},
            "type": {"const": kind},
            "status": {"enum": statuses},
            "confidence_score": _SHARE if role == "worker" else _or_null(_SHARE),
            "risk_tags": _NAMES,
            "idempotency_key": _NAME,
            "payload": payload,
            "error": _or_null(_ERROR),
        },
        "tenant_id",
        "role",
        "type",
        "status",
        "idempotency_key",
        "payload",
        *required,
    )


ENVELOPE_SCHEMAS: Final[dict[str, JsonSchema]] = {
    "planner.task": _envelope("planner", "planner.task", ["pending"], TASK_PAYLOAD, "goal_id"),
    "worker.result": _envelope(
        "worker", "worker.result", ["complete", "failed"], RESULT_PAYLOAD, "task_id", "confidence_score"
    ),
    "judge.decision": _envelope(
        "judge", "judge.decision", ["approved", "rejected", "escalated"], DECISION_PAYLOAD, "task_id"
    ),
}
"""By the type of the envelope."""

EXPORTED: Final[dict[str, JsonSchema]] = {
    "PlannerTaskEnvelope": ENVELOPE_SCHEMAS["planner.task"],
    "WorkerResultEnvelope": ENVELOPE_SCHEMAS["worker.result"],
    "JudgeDecisionEnvelope": ENVELOPE_SCHEMAS["judge.decision"],
}
