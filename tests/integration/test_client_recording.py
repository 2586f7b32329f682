"""Recording through a client against a real server, where answers are lost and many record at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.homes import opened_home
from tests.served import Way, a_way_to, served
from twinraven import AsyncClient, Client
from twinraven.app import TwinRaven
from twinraven.catalog import tool
from twinraven.foundation.errors import ApprovalDenied, InvalidInput
from twinraven.integrations import TurnPosition
from twinraven.integrations.call_recording import CallRecorder
from twinraven.integrations.door import door_of
from twinraven.sdk import ObservedCall, ServerUnreachable
from twinraven.sdk.exchange import PAUSES_S


@tool(effect="write")
def refund(order: int) -> dict[str, int]:
    """Give money back, if somebody agrees."""
    return {"order": order}


@pytest.fixture
async def raven(tmp_path: Path) -> AsyncGenerator[TwinRaven]:
    rules = [{"tool": "refund", "then": "ask", "reason": "refunds need a person"}]
    with opened_home(tmp_path, [refund], policy={"rules": rules}) as raven:
        yield raven
        await asyncio.to_thread(raven.collector.flush)


@pytest.fixture
async def way(raven: TwinRaven) -> AsyncGenerator[Way]:
    async with served(raven) as url, a_way_to(url) as way:
        yield way


async def numbers(raven: TwinRaven, session_id: str) -> list[int]:
    events = (await raven.events.session("default", session_id)).events
    return [event.input_params["n"] for event in sorted(events, key=lambda event: event.arrival)]


def lose_answers(way: Way, times: int) -> None:
    losses = iter([True] * times)
    way.lose = lambda request: b"POST /v1/events" in request and next(losses, False)


async def test_a_session_that_many_record_into_is_whole(raven: TwinRaven, way: Way) -> None:
    """Every call of many tasks is stored once and in order, also where an answer is lost on the way."""
    lose_answers(way, 1)
    async with AsyncClient(way.url) as client, client.observe("s") as session:
        await asyncio.gather(*(session.record("t", {"n": n}) for n in range(250)))
    assert await numbers(raven, "s") == list(range(250))


async def test_answers_that_stay_lost_cost_nothing(raven: TwinRaven, way: Way) -> None:
    """Where every try's answer was lost the calls are kept, and the next flush finds them stored."""
    lose_answers(way, len(PAUSES_S) + 1)
    async with AsyncClient(way.url) as client:
        session = client.observe("s")
        await session.record("t", {"n": 0})
        with pytest.raises(ServerUnreachable):
            await session.flush()
        await session.record("t", {"n": 1})
        await session.flush()
    assert await numbers(raven, "s") == [0, 1]


async def test_a_call_that_the_server_refuses_is_left_out_alone(raven: TwinRaven, way: Way) -> None:
    """The others of the block are stored, and the error names the call."""
    async with AsyncClient(way.url) as client:
        session = client.observe("s")
        await session.record("t", {"n": 0})
        refused = await session.record("t", {"n": 1}, tags=["x" * 1000])
        await session.record("t", {"n": 2})
        with pytest.raises(InvalidInput) as raised:
            await session.flush()
    assert raised.value.details["event_ids"] == [str(refused)]
    assert await numbers(raven, "s") == [0, 2]


async def cancel_thrice(watch: CallRecorder) -> None:
    for n in range(3):
        ending = asyncio.ensure_future(watch.end(watch.begin(TurnPosition("s"), "t", {"n": n}), None))
        await asyncio.sleep(0.01)
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
    assert await watch.flush() == 0


async def test_an_agent_is_cancelled_while_it_is_recorded(raven: TwinRaven, way: Way) -> None:
    """Its calls are in memory once and in order, although an answer was lost."""
    lose_answers(way, 1)
    async with AsyncClient(way.url) as client:
        await cancel_thrice(CallRecorder(door_of(client)))
    assert await numbers(raven, "s") == [0, 1, 2]


async def test_an_agent_is_cancelled_while_a_thread_records_it(raven: TwinRaven, way: Way) -> None:
    """The same where a blocking client carries the calls."""
    lose_answers(way, 1)
    with Client(way.url) as client:
        await cancel_thrice(CallRecorder(door_of(client)))
    assert await numbers(raven, "s") == [0, 1, 2]


async def test_a_long_session_is_given_whole(raven: TwinRaven, way: Way) -> None:
    """However many calls one answer holds, the client gives all of them, in order."""
    async with AsyncClient(way.url) as client:
        await client.record(ObservedCall("s", "t", {"n": n}) for n in range(1100))
        session = await client.session("s")
    events = session.events
    assert (session.event_count, len({event.event_id for event in events})) == (1100, 1100)
    assert list(events) == sorted(events, key=lambda event: (event.timestamp, event.arrival))
    with Client(way.url) as blocking:
        assert (await asyncio.to_thread(blocking.session, "s")).events == events


async def test_after_a_no_the_same_call_asks_anew(way: Way) -> None:
    """A denial ends the request it was given for; who makes the call again makes a new one."""
    async with AsyncClient(way.url) as client:
        await client.invoke("refund", {"order": 8}, session_id="s")
        (waiting,) = [each async for each in client.approvals(state="pending")]
        await client.deny(waiting.approval_id, note="not this one")
        with pytest.raises(ApprovalDenied, match="not this one"):
            await client.call("refund", {"order": 8}, session_id="s")
        assert (await client.invoke("refund", {"order": 8}, session_id="s")).is_pending
        (again,) = [each async for each in client.approvals(state="pending")]
    assert again.approval_id != waiting.approval_id
