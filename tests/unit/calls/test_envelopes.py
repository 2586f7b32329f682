"""The envelopes of a call: what they must carry, and that they keep what they do not know."""

from __future__ import annotations

from typing import Any

import pytest

from twinraven.calls import CallContext, SkillInvocationRequest, inner_request, side_effect_of
from twinraven.catalog import Effect
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import InvalidInput

SOUND: dict[str, Any] = {
    "id": "e-1",
    "tenant_id": "acme",
    "campaign_id": "c-1",
    "goal_id": None,
    "task_id": "t-1",
    "correlation_id": "x-1",
    "skill_id": "orders",
    "tool_name": "refund",
    "idempotency_key": "k",
    "side_effect": "write",
    "sensitivity": "high",
    "created_at": "2026-11-15T12:00:00.000000Z",
    "payload": {"order_id": 7},
}


@pytest.mark.req("CH-09")
def test_a_request_survives_the_journey_with_what_it_does_not_know() -> None:
    """Reading and writing an envelope loses nothing, not even fields that were invented later."""
    body = {**SOUND, "role": "worker", "invented": {"later": [1, None]}}
    assert SkillInvocationRequest.from_json(body).as_json() == body


@pytest.mark.req("CH-09")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tenant_id": None}, "tenant_id"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"tenant_id": "x" * 129}, "tenant_id"),
        ({"tool_name": None}, "tool_name"),
        ({"tool_name": 7}, "tool_name"),
        ({"payload": [1]}, "payload"),
        ({"side_effect": "none"}, "side_effect"),
        ({"sensitivity": "secret"}, "sensitivity"),
        ({"created_at": "yesterday"}, "created_at"),
        ({"created_at": 7}, "created_at"),
        ({"correlation_id": "a\0b"}, "correlation_id"),
        ({"idempotency_key": 7}, "idempotency_key"),
        ({"task_id": ""}, "task_id"),
    ],
)
def test_a_request_that_cannot_be_understood_is_refused_by_field(change: dict[str, Any], field: str) -> None:
    """What is missing or of the wrong kind is named."""
    with pytest.raises(InvalidInput, match=field) as caught:
        SkillInvocationRequest.from_json({**SOUND, **change})
    assert caught.value.details["field"] == field


@pytest.mark.req("CH-09")
def test_a_short_request_gets_an_id_and_a_time() -> None:
    """Only the tenant and the tool must be said."""
    one, other = (SkillInvocationRequest.from_json({"tenant_id": "acme", "tool_name": "f"}) for _ in range(2))
    assert one.payload == {}
    assert one.id != other.id
    assert one.created_at.tzinfo is not None


@pytest.mark.req("CH-09")
def test_what_is_not_known_may_do_both() -> None:
    """An effect nobody declared is classified as one that reads and writes."""
    assert [side_effect_of(effect) for effect in Effect] == ["read", "write", "read_write"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"session_id": ""}, "session_id"),
        ({"session_id": "a\0"}, "session_id"),
        ({"tags": ("a\nb",)}, "tags"),
        ({"turn": -1}, "turn"),
    ],
)
def test_a_context_that_could_not_be_recorded_is_refused_before_the_call(fields: dict[str, Any], field: str) -> None:
    """What goes into the record is checked before anything is sent, not after."""
    whole: dict[str, Any] = {"session_id": "s", **fields}
    with pytest.raises(InvalidInput, match=field):
        CallContext(**whole)


def test_a_request_inside_a_composite_is_like_one_that_was_checked() -> None:
    """What a composite asks of its tools has every field of a request, and an id of its own."""
    begun = utc_now()
    stated: dict[str, Any] = {
        "tenant_id": "acme",
        "task_id": "t-1",
        "correlation_id": "x-1",
        "idempotency_key": "k:0",
    }
    first, second = (inner_request("refund", {"order_id": 7}, **stated) for _ in range(2))
    assert first.id != second.id
    assert begun <= first.created_at <= second.created_at <= utc_now()
    assert first == SkillInvocationRequest(
        "refund", {"order_id": 7}, id=first.id, created_at=first.created_at, **stated
    )
    assert first.extra is not second.extra
