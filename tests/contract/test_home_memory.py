"""Memory of a home opened from its settings: each call one event, linked, hashed and judged within its own tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.homes import make_home
from tests.recording import assert_linked
from twinraven import tool
from twinraven.app import TwinRaven, open_home
from twinraven.calls import CallContext, CallFailed
from twinraven.foundation.canonical import input_hash
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import ToolUnavailable
from twinraven.muninn import MuninnEvent, Outcome, SessionFilter

SECRET = "hunter2-hunter2-hunter2"


class Tools:
    """Tools that answer, fail, or wait for each other."""

    def __init__(self) -> None:
        self.inner_done, self.waiting = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        def look(query: str, price: float = 1.0, least: float = 1e-7) -> dict[str, Any]:
            """Look something up."""
            return {"error": "none at all", "ok": False, "query": query}

        @tool(effect="read")
        async def outlast(query: str) -> str:
            """Begin before another call and end after it."""
            self.waiting.set()
            await self.inner_done.wait()
            return query

        @tool(effect="write")
        def send(text: str) -> str:
            """Send a text, unless there is none."""
            if not text:
                raise ToolUnavailable("nothing to send")
            return f"sent {text}"

        self.functions = [look, outlast, send]


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
def raven(tmp_path: Path, tools: Tools) -> Generator[TwinRaven]:
    with open_home(make_home(tmp_path), functions=tools.functions) as raven:
        yield raven


async def call(raven: TwinRaven, name: str, params: dict[str, Any], **more: Any) -> Any:
    return await raven.calls.call(name, params, CallContext("s", tags=("nightly",)), **more)


async def events_of(raven: TwinRaven, session: str = "s", tenant: str = "default") -> tuple[MuninnEvent, ...]:
    await asyncio.to_thread(raven.collector.flush)
    return (await raven.events.session(tenant, session)).events


@pytest.mark.req("TR-01", "TR-08")
async def test_whatever_comes_of_a_call_is_one_event(raven: TwinRaven, tools: Tools) -> None:
    """Answered, failed, answered from the record and cancelled calls each leave an event that says what came of it."""
    await call(raven, "look", {"query": "x"})
    with pytest.raises(CallFailed):
        await call(raven, "send", {"text": ""}, idempotency_key="none")
    for _ in range(2):
        await call(raven, "send", {"text": "y"}, idempotency_key="once")
    under_way = asyncio.create_task(call(raven, "outlast", {"query": "z"}))
    await tools.waiting.wait()
    under_way.cancel()
    with pytest.raises(asyncio.CancelledError):
        await under_way
    found = await events_of(raven)
    assert [(event.tool_id, event.outcome.value, event.raised, event.error_code) for event in found] == [
        ("look", "partial", False, None),
        ("send", "failure", True, "TOOL_UNAVAILABLE"),
        ("send", "partial", False, None),
        ("send", "partial", False, None),
        ("outlast", "failure", True, "TOOL_TIMEOUT"),
    ]
    assert [event.output_summary for event in found[1:4]] == ['{"error":"nothing to send"}'] + ['"sent y"'] * 2
    assert [event.tags for event in found[:4]] == [["nightly"]] * 3 + [["nightly", "cached-result"]]
    assert_linked(found)


@pytest.mark.req("TR-01")
async def test_an_event_begins_when_its_call_began(raven: TwinRaven) -> None:
    """An event that states how long its call took and not when it began lies so long in the past."""
    before = utc_now()
    with raven.collector.observe("s") as session:
        await session.record("slow", {}, latency_ms=60_000)
    (event,) = await events_of(raven)
    assert before - timedelta(seconds=60) <= event.timestamp <= utc_now() - timedelta(seconds=60)


@pytest.mark.req("TR-03")
async def test_calls_that_overlap_stand_in_the_order_in_which_they_began(raven: TwinRaven, tools: Tools) -> None:
    """A call that began first and ended last stands first, and both name each other."""
    outer = asyncio.create_task(call(raven, "outlast", {"query": "outer"}))
    await tools.waiting.wait()
    await call(raven, "look", {"query": "inner"})
    tools.inner_done.set()
    await outer
    found = await events_of(raven)
    assert [event.tool_id for event in found] == ["outlast", "look"]
    assert_linked(found)


@pytest.mark.req("TR-05")
async def test_the_hash_is_of_the_arguments_as_they_are_kept(raven: TwinRaven) -> None:
    """Arguments of a call, in whatever order and form, hash as their canonical text; so do those without a secret."""
    await raven.vault.create("default", "local", name="key", type="password", value=SECRET)
    await call(raven, "look", {"query": "x", "least": 0.0000001, "price": 1})
    await call(raven, "look", {"price": 1.0, "least": 1e-7, "query": "x"})
    await call(raven, "look", {"query": SECRET})
    one, other, cleaned = await events_of(raven)
    assert one.input_hash == other.input_hash == input_hash({"least": 1e-7, "price": 1, "query": "x"})
    assert SECRET not in str(cleaned.input_params)
    assert cleaned.input_hash == input_hash(cleaned.input_params)


async def _two_tenants(raven: TwinRaven) -> str:
    """The same two session ids in two tenants, calls stored in another order than that of their times."""
    other = (await raven.tenancy.create_tenant("other")).tenant_id
    begin = utc_now() - timedelta(hours=1)
    for number in (4, 0, 2, 3, 1, 5):
        for place, (tenant, session) in enumerate(
            (tenant, session) for session in ("s", "t") for tenant in ("default", other)
        ):
            if tenant == "default" or number < 3:
                await raven.collector.observe(session, tenant_id=tenant).record(
                    "step",
                    {"of": tenant, "in": session, "n": number},
                    timestamp=begin + timedelta(seconds=number, milliseconds=place),
                    latency_ms=500,
                    outcome=Outcome.SUCCESS,
                )
    return other


@pytest.mark.req("TR-03", "TR-07")
async def test_sessions_of_two_tenants_under_one_id_do_not_meet(raven: TwinRaven) -> None:
    """Neighbours, counts and times of a session come from its own calls, in every way in which it can be read."""
    other = await _two_tenants(raven)
    for tenant, numbers in (("default", [0, 1, 2, 3, 4, 5]), (other, [0, 1, 2])):
        scanned: list[MuninnEvent] = []
        await raven.events.scan(tenant, scanned.extend)
        listed = {each.session_id: each for each in await raven.events.sessions(tenant)}
        recent = {each.session_id: each for each in await raven.activity.recent_sessions(tenant, SessionFilter())}
        assert len(scanned) == 2 * len(numbers)
        for name in ("s", "t"):
            session = await raven.events.session(tenant, name)
            assert [event.input_params for event in session.events] == [
                {"of": tenant, "in": name, "n": number} for number in numbers
            ]
            assert_linked(session.events)
            assert tuple(event for event in scanned if event.session_id == name) == session.events
            before, after = session.events[0], session.events[1]
            assert await raven.events.predecessor(tenant, after.event_id) == before
            assert await raven.events.successor(tenant, before.event_id) == after
            for seen in (session, listed[name], recent[name]):
                times = (session.events[0].timestamp, session.events[-1].timestamp)
                assert (seen.started_at, seen.ended_at, seen.event_count) == (*times, len(numbers))


@pytest.mark.req("TR-08")
async def test_a_verdict_judges_the_session_of_its_own_tenant(raven: TwinRaven) -> None:
    """A verdict counts for one tenant's session, the last of several; lists by outcome follow, rolled up or not."""
    other = await _two_tenants(raven)
    for outcome in (Outcome.FAILURE, Outcome.PARTIAL):
        await raven.events.state_verdict(other, "s", outcome, stated_by="judge")
        for tenant, expected in (("default", Outcome.SUCCESS), (other, outcome)) * 2:
            assert (await raven.events.session(tenant, "s")).outcome is expected
            assert "s" in [each.session_id for each in await raven.events.sessions(tenant, outcome=expected)]
            (recent,) = await raven.activity.recent_sessions(tenant, SessionFilter(outcome=expected, session_id="s"))
            assert recent.outcome is expected
            await raven.activity.fold(tenant)
    assert await raven.events.verdicts("default") == {}
    assert await raven.events.verdicts(other) == {"s": Outcome.PARTIAL}
