"""The call path: what is refused, what is sent, and that either way it is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import datetime
from typing import Any

import pytest

from tests.unit.calls.world import TENANT, World, code, open_world
from twinraven.calls import CallContext, CallFailed, SkillInvocationRequest, ToolCall
from twinraven.catalog import ToolEntry
from twinraven.foundation.errors import InvalidInput, NotFound
from twinraven.muninn import Outcome
from twinraven.storage import Database


@pytest.fixture
def world(sqlite_database: Database) -> Generator[World]:
    with open_world(sqlite_database) as world:
        yield world


@pytest.mark.req("TR-01", "CH-09")
async def test_a_call_leaves_an_event_and_an_envelope(world: World) -> None:
    """A successful call answers in the contract's shape and leaves one event that the answer names."""
    context = CallContext("session", turn=2, outside_input="please", tags=("urgent",))
    response = await world.invoke("get_order", {"order_id": 7}, context=context, correlation_id="c-1", task_id="t-1")
    assert (response.status, response.output) == ("success", {"order_id": 7, "language": "en"})
    (event,) = await world.events()
    assert event.event_id == response.event_id
    assert (event.tool_id, event.input_params) == ("get_order", {"order_id": 7, "language": "en"})
    assert (event.turn, event.outside_input, event.tags, event.task_id) == (2, "please", ["urgent"], "t-1")
    assert (event.correlation_id, event.raised, event.outcome) == ("c-1", False, Outcome.PARTIAL)
    assert await world.store.outputs(TENANT, [str(event.output_hash)]) == {event.output_hash: response.output}


@pytest.mark.req("CH-09")
async def test_an_envelope_says_effect_sensitivity_cost_and_times(world: World) -> None:
    """Every answer classifies the call, and gives its cost and when it ran."""
    for name, payload, expected in (
        ("get_order", {"order_id": 1}, ("read", "low", {"tokens": 0, "currency": None, "amount": None})),
        ("refund", {"order_id": 1}, ("write", "high", {"tokens": 0, "currency": None, "amount": None})),
        ("frobnicate", {}, ("read_write", "low", {"tokens": 0, "currency": None, "amount": None})),
        ("think", {}, ("read", "low", {"tokens": 120, "currency": "EUR", "amount": "0.0042"})),
        ("misbehave", {"how": "error"}, ("read", "low", {"tokens": 0, "currency": None, "amount": None})),
    ):
        body = (await world.invoke(name, payload, idempotency_key=name)).as_json()
        assert (body["side_effect"], body["sensitivity"], body["audit"]["cost_estimate"]) == expected
        started, finished = (datetime.fromisoformat(body["audit"][word]) for word in ("started_at", "finished_at"))
        assert started.tzinfo is not None
        assert started <= finished
        assert body["request_id"]
        assert len(body["id"]) == 32
    thought = await world.invoke("think")
    assert (thought.output, thought.confidence_score) == ("an idea", 0.7)
    slow = (await world.invoke("read_slowly", {"seconds": 0.02})).as_json()["audit"]
    assert slow["started_at"] < slow["finished_at"]


@pytest.mark.req("CH-09")
async def test_policy_sees_a_classified_request(world: World) -> None:
    """Whatever the caller left out, the gate is told what the call can do and how sensitive it is."""
    await world.invoke("refund", {"order_id": 1}, idempotency_key="k")
    await world.invoke("get_order", {"order_id": 1})
    assert [(asked.side_effect, asked.sensitivity) for asked in world.gate.asked] == [("write", "high")]


@pytest.mark.req("TR-01")
async def test_refused_calls_are_remembered(world: World) -> None:
    """A call that was refused sent nothing, says why by code, and is an event like any other."""
    world.gate.verdict = "deny"
    refused = [
        await world.invoke("get_order", {"order_id": "seven"}),
        await world.invoke("get_order", {"order_id": 7, "extra": 1}),
        await world.invoke("refund", {"order_id": 7}),
        await world.invoke("refund", {"order_id": 7}, idempotency_key="k", side_effect="read"),
        await world.invoke("refund", {"order_id": 7}, idempotency_key="k"),
        await world.invoke("refund", {"order_id": 7}, idempotency_key="a\0b"),
        await world.invoke("get_order", {"order_id": 2**9000}),
    ]
    codes = ["VALIDATION_FAILED"] * 4 + ["POLICY_VIOLATION"] * 2 + ["VALIDATION_FAILED"]
    assert [code(response) for response in refused] == codes
    assert world.tools.effects == []
    events = await world.events()
    assert [event.event_id for event in events] == [response.event_id for response in refused]
    assert [event.error_code for event in events] == codes
    assert all(event.raised and event.outcome is Outcome.FAILURE for event in events)
    assert events[0].input_params == {"order_id": "seven", "language": "en"}
    assert "not_recordable" in events[-1].input_params


async def test_an_unknown_tool_is_named_with_its_neighbours(world: World) -> None:
    """A misspelt name raises NotFound and says what was probably meant."""
    with pytest.raises(NotFound, match="did you mean get_order"):
        await world.invoke("get_ordr")


@pytest.mark.req("TR-01", "AE-07")
async def test_whatever_a_tool_does_is_its_own_failure(world: World) -> None:
    """Exceptions of any kind become a failed answer with a stable code, and each is remembered."""
    expected = {
        "error": ("TOOL_FAILED", "ValueError: no such order"),
        "exit": ("TOOL_FAILED", "SystemExit: 3"),
        "stop": ("TOOL_FAILED", "StopAsyncIteration"),
        "timeout": ("TOOL_TIMEOUT", "upstream"),
        "cancel": ("TOOL_FAILED", "cancelled from within"),
        "deep": ("OUTPUT_INVALID", "nested deeper"),
        "huge": ("OUTPUT_INVALID", "bits"),
    }
    for how, (error_code, words) in expected.items():
        response = await world.invoke("misbehave", {"how": how})
        assert response.error is not None
        assert (response.status, response.output, code(response)) == ("failed", None, error_code)
        assert words in response.error["message"]
    assert code(await world.invoke("recurse", {"depth": 0})) == "TOOL_FAILED"
    assert code(await world.invoke("pay_badly", idempotency_key="k")) == "TOOL_FAILED"
    assert len(await world.events()) == len(expected) + 2


@pytest.mark.req("AE-07")
async def test_an_answer_is_checked_against_its_schema(world: World) -> None:
    """A result that the output schema forbids is a failure of the tool, and no result is given."""
    response = await world.invoke("lie")
    assert (code(response), response.output) == ("OUTPUT_INVALID", None)
    assert (await world.events())[0].error_code == "OUTPUT_INVALID"


async def test_odd_answers_become_json(world: World) -> None:
    """What JSON cannot say plainly reaches the caller in the form in which it is remembered."""
    assert (await world.invoke("misbehave", {"how": "nan"})).output == "NaN"
    assert (await world.invoke("misbehave", {"how": "set"})).output == [1, 2]


@pytest.mark.req("AE-07")
async def test_a_tool_with_a_broken_schema_is_never_called(world: World) -> None:
    """An entry whose schema is none is refused with that reason before anything is sent."""

    class Broken:
        def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
            del tenant_id
            if tool_id == "in":
                return ToolEntry(tool_id, "broken", {"type": "nonsense"})
            return ToolEntry(tool_id, "broken", {}, {"type": 7}) if tool_id == "out" else None

        def entries(self, tenant_id: str) -> list[ToolEntry]:
            del tenant_id
            return []

    world.catalog.add(Broken())
    for name in ("in", "out"):
        assert code(await world.invoke(name, {}, idempotency_key=name)) == "SCHEMA_INVALID"


async def test_sync_tools_do_not_hold_up_the_loop(world: World) -> None:
    """Functions that block run on the pool, side by side, while the loop goes on."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    together = await asyncio.gather(*(world.invoke("read_together") for _ in range(4)))
    assert sorted(response.output for response in together) == [0, 1, 2, 3]
    ticks = 0
    await world.invoke("read_slowly", {"seconds": 0.2})
    ticking.cancel()
    assert ticks >= 2


async def test_a_read_that_takes_too_long_can_be_tried_again(world: World) -> None:
    """A read past its time is a timeout, which is retryable."""
    response = await world.invoke("read_too_long")
    assert response.error is not None
    assert (response.error["code"], response.error["retryable"]) == ("TOOL_TIMEOUT", True)


async def test_the_convenient_door_returns_or_raises(world: World) -> None:
    """`call` gives the output, raises what went wrong with its code, and finds a key for a write by itself."""
    context = CallContext("session")
    assert await world.calls.call("refund", {"order_id": 1}, context) == {"refunded": 1, "amount": "1.00", "number": 1}
    with pytest.raises(CallFailed) as caught:
        await world.calls.call("misbehave", {"how": "error"}, context)
    assert (caught.value.code, caught.value.retryable) == ("TOOL_FAILED", False)


async def test_a_tool_call_record_has_a_result_or_an_error(world: World) -> None:
    """The record of a call names its tool and step, has an ISO 8601 time, and one of result and error."""
    request = SkillInvocationRequest("get_order", {"order_id": 7})
    good = ToolCall.of(request, await world.calls.invoke(request, CallContext("session")), step_id="step-1")
    assert (good.tool_name, good.arguments, good.step_id) == ("get_order", {"order_id": 7}, "step-1")
    assert (good.result, good.error) == ({"order_id": 7, "language": "en"}, None)
    assert datetime.fromisoformat(good.timestamp).tzinfo is not None
    request = SkillInvocationRequest("misbehave", {"how": "error"})
    bad = ToolCall.of(request, await world.calls.invoke(request, CallContext("session")), step_id="step-2")
    assert (bad.result, bad.error and bad.error["code"]) == (None, "TOOL_FAILED")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"result": 1, "error": {"code": "X"}}, "not both"),
        ({"timestamp": "yesterday"}, "ISO 8601"),
        ({"timestamp": "2026-01-01T00:00:00"}, "time zone"),
        ({"step_id": ""}, "step_id"),
        ({"tool_name": ""}, "tool_name"),
    ],
)
def test_a_contradictory_tool_call_record_is_refused(fields: dict[str, Any], fault: str) -> None:
    """Result and error exclude each other, and times and references must be readable."""
    sound: dict[str, Any] = {"tool_name": "t", "arguments": {}, "timestamp": "2026-01-01T00:00:00Z", "step_id": "s"}
    ToolCall(**sound)
    with pytest.raises(InvalidInput, match=fault):
        ToolCall(**{**sound, **fields})


async def test_a_tool_keeps_its_own_time_inside_a_longer_one(world: World) -> None:
    """A caller that would wait longer than the tool may take does not keep the tool from ending in its own time."""
    context = CallContext("session", within_s=3_600.0)
    response = await asyncio.wait_for(world.invoke("read_too_long", context=context), 60)
    assert code(response) == "TOOL_TIMEOUT"
    (event,) = await world.events()
    assert event.error_code == "TOOL_TIMEOUT"


async def test_a_tool_is_not_timed_anew_by_a_caller_that_ends_it_sooner(world: World) -> None:
    """Where the caller ends the call within the tool's own time, its end is the only one, and the call is recorded."""
    late = asyncio.wait_for(world.invoke("read_too_long", context=CallContext("session", within_s=0.02)), 0.3)
    with pytest.raises(TimeoutError):
        await late
    (event,) = await world.events()
    assert event.latency_ms >= 200
    assert event.error_code == "TOOL_TIMEOUT"


async def test_the_output_alone_is_what_the_full_door_answers(world: World) -> None:
    """The door for the output gives what the envelope holds, and raises what the envelope tells."""
    request = SkillInvocationRequest("get_order", {"order_id": 7})
    assert await world.calls.output_of(request, CallContext("session")) == {"order_id": 7, "language": "en"}
    with pytest.raises(CallFailed) as failed:
        await world.calls.output_of(SkillInvocationRequest("get_order", {}), CallContext("session"))
    assert failed.value.code == "VALIDATION_FAILED"
    assert failed.value.response.status == "failed"
    assert [event.error_code for event in await world.events()] == [None, "VALIDATION_FAILED"]
