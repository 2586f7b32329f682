"""Turns the result of a task's run into a worker.result envelope.

A tool may answer in the terms of the contract (`artifacts`, `analysis`, `acceptance_evidence`, `confidence_score`,
`risk_tags`); what it answers otherwise is kept as `output`. A criterion with a `check` is looked at here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

from twinraven.calls import Envelope
from twinraven.engine import RunEnd
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.correlation import correlation_or_new
from twinraven.foundation.errors import EffectUnknown, InvalidInput, ToolError, error_from_json
from twinraven.foundation.ids import new_id
from twinraven.foundation.json_schema import Schema, compile_schema
from twinraven.foundation.predicates import parse_predicate
from twinraven.governance.model import Task, TaskSpec, WorkerRun
from twinraven.governance.work.contracts import RESULT_PAYLOAD

_TOLD: Final = ("artifacts", "analysis", "acceptance_evidence", "confidence_score", "risk_tags")


def report(task: Task, spec: TaskSpec, run: WorkerRun, end: RunEnd) -> Envelope:
    """Return the envelope in which the house's own worker reports an attempt."""
    said = cast("JsonObject", end.output) if isinstance(end.output, dict) else dict[str, Any]()
    payload = _payload(spec, run, end, said)
    is_success = end.error is None
    return Envelope(
        role="worker",
        type="worker.result",
        status="complete" if is_success else "failed",
        payload=payload,
        tenant_id=task.tenant_id,
        campaign_id=task.campaign_id,
        goal_id=task.goal_id,
        task_id=task.task_id,
        correlation_id=correlation_or_new(),
        confidence_score=_confidence(said, end) if is_success else 0.0,
        risk_tags=_risk_tags(said, end),
        idempotency_key=f"attempt:{run.worker_run_id}",
        error=None if end.error is None else _error(end.error),
    )


@cache
def _schema() -> Schema:
    return compile_schema(RESULT_PAYLOAD)


def _payload(spec: TaskSpec, run: WorkerRun, end: RunEnd, said: JsonObject) -> JsonObject:
    told = {name: said[name] for name in ("artifacts", "analysis") if name in said}
    rest = {name: value for name, value in said.items() if name not in _TOLD} if said else end.output
    outputs: JsonObject = {"artifacts": [], **told, "output": rest}
    payload: JsonObject = {
        "attempt_number": run.attempt_number,
        "outputs": outputs,
        "acceptance_evidence": _evidence(spec, said, end.output),
        "tool_invocations": [_invocation(call) for call in end.calls],
    }
    try:
        _schema().check(payload, field="payload")
    except InvalidInput:  # what looks like the contract's fields is something of the tool's own
        payload["outputs"] = {"artifacts": [], "output": end.output}
        payload["acceptance_evidence"] = _evidence(spec, {}, end.output)
    artifacts = cast("list[JsonObject]", payload["outputs"]["artifacts"])
    if not artifacts and end.error is None:
        artifacts.append({"artifact_id": new_id(), "kind": "metadata_only", "summary": "what the run answered"})
    return payload


def _evidence(spec: TaskSpec, said: JsonObject, output: Any) -> list[JsonObject]:
    """Return evidence for each criterion that can be evaluated."""
    stated: Any = said.get("acceptance_evidence") or []
    found: list[JsonObject] = [*cast("list[JsonObject]", stated)] if isinstance(stated, list) else []
    for each in spec.criteria:
        if each.check is not None:
            holds = parse_predicate(each.check).evaluate({"output": output})
            found = [one for one in found if one.get("criterion_id") != each.criterion_id]
            found.append({"criterion_id": each.criterion_id, "satisfied": holds, "notes": each.check})
    return found


def _invocation(call: JsonObject) -> JsonObject:
    return {
        "skill_id": call["tool_name"],
        "tool_name": call["tool_name"],
        "call_id": call["call_id"],
        "status": call["status"],
        "cost_estimate": call["cost_estimate"],
    }


def _confidence(said: JsonObject, end: RunEnd) -> float:
    """Return what the output says, else the least sure of its calls."""
    stated: Any = said.get("confidence_score")
    if isinstance(stated, int | float) and not isinstance(stated, bool) and 0 <= stated <= 1:
        return float(stated)
    return min([float(call["confidence_score"]) for call in end.calls if call["status"] == "success"], default=1.0)


def _risk_tags(said: JsonObject, end: RunEnd) -> tuple[str, ...]:
    stated: Any = said.get("risk_tags")
    own = [each for each in cast("list[Any]", stated) if isinstance(each, str)] if isinstance(stated, list) else []
    return tuple(dict.fromkeys([*own, *(tag for call in end.calls for tag in call["risk_tags"])]))


def _error(record: JsonObject) -> JsonObject:
    """Return the error of an attempt: another attempt may be made after a tool failed, unless its effect is unknown."""
    error = error_from_json(record)
    may_try = error.retryable or (isinstance(error, ToolError) and not isinstance(error, EffectUnknown))
    return {**error.as_json(), "retryable": may_try}
