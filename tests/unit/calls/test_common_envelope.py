"""The common envelope: what each message must carry, and that it keeps what it does not know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.calls import CallAudit, Envelope, EnvelopeImpact, SkillInvocationRequest, SkillInvocationResponse
from twinraven.foundation.errors import InvalidInput, PolicyViolation

ERROR = {"code": "TOOL_FAILED", "message": "no", "retryable": False, "details": {"tool_id": "x"}}
SOUND: dict[str, Any] = {
    "id": "e-1",
    "tenant_id": "acme",
    "campaign_id": "c-1",
    "goal_id": "g-1",
    "task_id": "t-1",
    "correlation_id": None,
    "created_at": "2026-11-15T12:00:00.000000Z",
    "role": "worker",
    "type": "worker.result",
    "status": "complete",
    "confidence_score": 0.75,
    "risk_tags": ["brand"],
    "idempotency_key": "k-1",
    "payload": {"attempt_number": 1},
}
MESSAGES = ("planner.task", "worker.result", "judge.decision", "skill.request", "invented.later")


def refusal(**change: Any) -> str:
    """The field for which an envelope is refused."""
    with pytest.raises(InvalidInput) as caught:
        Envelope.from_json({**SOUND, **change})
    return caught.value.details["field"]


@pytest.mark.req("CH-03")
@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name not in SOUND and name != "error"), st.integers()))
def test_what_is_unknown_is_kept(unknown: dict[str, int]) -> None:
    """Reading and writing a message loses nothing, not even fields that were invented later."""
    body = {**SOUND, **unknown}
    assert Envelope.from_json(body).as_json() == body


@pytest.mark.req("CH-02")
@pytest.mark.parametrize("type_name", MESSAGES)
def test_what_can_cause_an_effect_needs_a_tenant_and_a_key(type_name: str) -> None:
    """No message of the contract, and none of a type nobody has classified, is read without them."""
    assert Envelope.from_json({**SOUND, "type": type_name}).reach is EnvelopeImpact.EFFECT
    for tenant_id in (None, "", "x" * 129, "a\0b"):
        assert refusal(type=type_name, tenant_id=tenant_id) == "tenant_id"
    for key in (None, "", "\n"):
        assert refusal(type=type_name, idempotency_key=key) == "idempotency_key"


@pytest.mark.req("CH-02")
def test_what_changes_state_alone_needs_a_tenant_but_no_key() -> None:
    """An answer is recorded for a tenant and does nothing when it comes twice; a notice belongs to nobody."""
    answer = {**SOUND, "role": "skill", "type": "skill.response", "idempotency_key": None}
    assert Envelope.from_json(answer).reach is EnvelopeImpact.STATE
    assert refusal(role="skill", type="skill.response", tenant_id=None) == "tenant_id"
    notice = {"role": "system", "type": "system.notice", "status": "complete"}
    assert Envelope.from_json(notice).tenant_id is None


@pytest.mark.req("CH-02")
def test_a_read_needs_no_key_and_anything_else_does() -> None:
    """A request's own word decides: only what says that it reads is taken for harmless."""
    asked: dict[str, Any] = {**SOUND, "role": "skill", "type": "skill.request", "idempotency_key": None}
    Envelope.from_json({**asked, "payload": {"tool_name": "f", "side_effect": "read"}})
    for word in ("write", "read_write", None, "READ"):
        with pytest.raises(InvalidInput, match="idempotency_key"):
            Envelope.from_json({**asked, "payload": {"tool_name": "f", "side_effect": word}})


@pytest.mark.req("CH-03")
@pytest.mark.parametrize("score", [None, -0.1, 1.1, True, "high", float("nan"), [1]])
def test_a_worker_says_how_sure_it_is(score: Any) -> None:
    """A worker's envelope has a confidence from 0 to 1; other roles may leave it out but not state nonsense."""
    assert refusal(confidence_score=score) == "confidence_score"
    if score is None:
        assert Envelope.from_json({**SOUND, "role": "judge", "confidence_score": None}).confidence_score is None
    else:
        assert refusal(role="judge", confidence_score=score) == "confidence_score"


@pytest.mark.req("CH-02")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"role": "king"}, "role"),
        ({"role": None}, "role"),
        ({"status": "done"}, "status"),
        ({"status": None}, "status"),
        ({"type": None}, "type"),
        ({"type": ""}, "type"),
        ({"payload": []}, "payload"),
        ({"risk_tags": "brand"}, "risk_tags"),
        ({"risk_tags": [1]}, "risk_tags"),
        ({"created_at": "yesterday"}, "created_at"),
        ({"task_id": 7}, "task_id"),
        ({"id": ""}, "id"),
    ],
)
def test_a_message_that_cannot_be_understood_is_refused_by_field(change: dict[str, Any], field: str) -> None:
    """What is missing or of the wrong kind is named."""
    assert refusal(**change) == field


@pytest.mark.req("CH-02", "CH-21")
def test_an_error_stands_on_failures_alone() -> None:
    """An error has code, message, whether it may be retried and details, and only where something failed."""
    for status in ("failed", "rejected"):
        body = {**SOUND, "status": status, "error": ERROR}
        assert Envelope.from_json(body).as_json() == body
    for status in ("pending", "in_progress", "complete", "approved", "escalated"):
        assert refusal(status=status, error=ERROR) == "error"
    for name in ERROR:
        assert refusal(status="failed", error={**ERROR, name: None}) == f"error.{name}"
    violation = PolicyViolation("no").as_json()
    Envelope.from_json({**SOUND, "status": "failed", "error": violation})
    for code in ("POLICY_VIOLATION", "APPROVAL_PENDING", "APPROVAL_DENIED"):
        assert refusal(status="failed", error={**violation, "code": code, "retryable": True}) == "error.retryable"


@pytest.mark.req("CH-02")
def test_a_call_travels_in_the_common_envelope() -> None:
    """A request put into a message and taken out of it again is the same request."""
    request = SkillInvocationRequest(
        "refund", {"order_id": 7}, tenant_id="acme", idempotency_key="k", side_effect="write", extra={"later": 1}
    )
    message = Envelope.from_json(Envelope.of_request(request).as_json())
    assert (message.role, message.type, message.status) == ("skill", "skill.request", "pending")
    assert message.as_request() == request
    with pytest.raises(InvalidInput, match="no request"):
        Envelope.from_json(SOUND).as_request()
    with pytest.raises(InvalidInput, match="idempotency_key"):
        Envelope.of_request(SkillInvocationRequest("refund", {}, tenant_id="acme"))


@pytest.mark.req("CH-02")
@pytest.mark.parametrize("error", [None, ERROR])
def test_an_answer_travels_in_the_common_envelope(error: dict[str, Any] | None) -> None:
    """What came of a call names its request, its tenant and its task, and fails as the call failed."""
    request = SkillInvocationRequest("refund", {}, tenant_id="acme", task_id="t", correlation_id="c")
    audit = CallAudit(1_000_000, 2_000_000, tokens=3)
    response = SkillInvocationResponse(
        request.id, "success" if error is None else "failed", [1], error, audit, confidence_score=0.5
    )
    message = Envelope.from_json(Envelope.of_response(request, response).as_json())
    assert message.status == ("complete" if error is None else "failed")
    assert (message.tenant_id, message.task_id, message.correlation_id) == ("acme", "t", "c")
    assert (message.payload["request_id"], message.payload["output"], message.error) == (request.id, [1], error)
    assert message.payload["audit"]["cost_estimate"]["tokens"] == 3
