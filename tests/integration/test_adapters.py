"""Agents of three libraries, watched and offered tools, in front of a home and in front of a server."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest
from blockbuster import blockbuster_ctx

from tests.agents.libraries import LIBRARIES
from tests.agents.world import Library, Where, outputs, remembered, shop
from tests.gateways import promote_tool
from twinraven.app import TwinRaven
from twinraven.flow import StepDefinition
from twinraven.integrations.door import Behind

HABIT = [[("find_customer", {"email": "ada@x.org"})], [("list_orders", {"customer_id": "C-ada"})]]


@pytest.fixture(params=list(LIBRARIES))
def library(request: pytest.FixtureRequest) -> Library:
    return LIBRARIES[request.param]


@pytest.fixture(params=["home", "client", "async client"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[TwinRaven, Behind]]:
    async with shop(tmp_path, cast("Where", request.param)) as place:
        yield place


@pytest.mark.req("TR-01")
async def test_what_an_agent_does_is_remembered(library: Library, place: tuple[TwinRaven, Behind]) -> None:
    """Each call of the agent's own tools leaves one event with all there is to know, and changes nothing."""
    raven, behind = place
    adapter = library.adapter(behind, session_id="ticket-17")
    heard = await library.run(adapter, "what did ada order?", HABIT)
    await library.run(adapter, "and bob?", [[("find_customer", {"email": "bob@x.org"})] * 2])
    assert heard.error is None
    found, listed, *later = await remembered(raven, "ticket-17")
    assert (found.tool_id, found.input_params, found.turn) == ("find_customer", {"email": "ada@x.org"}, 1)
    assert (listed.tool_id, listed.input_params, listed.turn) == ("list_orders", {"customer_id": "C-ada"}, 2)
    assert (found.outside_input, listed.outside_input) == ("what did ada order?", None)
    assert await outputs(raven, [found, listed]) == heard.results
    assert heard.results[0] == {"customer_id": "C-ada", "email": "ada@x.org"}
    assert len({event.turn for event in later}) == 1
    assert (later[0].turn or 0) > 2
    assert sorted(str(event.outside_input) for event in later) == ["None", "and bob?"]
    assert found.time_known
    assert found.latency_ms < 5_000


async def test_what_a_tool_raised_is_remembered(library: Library, place: tuple[TwinRaven, Behind]) -> None:
    """A failed call is remembered with its words, and fails for the agent as it would have failed unwatched."""
    raven, behind = place
    heard = await library.run(library.adapter(behind, session_id="s"), "print", [[("jam", {"tray": 2})]])
    (event,) = await remembered(raven, "s")
    assert (event.raised, event.error_code, event.outcome) == (True, "ValueError", "failure")
    assert await outputs(raven, [event]) == [{"error": "paper jam in tray 2"}]
    assert isinstance(heard.error, ValueError) or "error occurred" in str(heard.results[0])


async def test_the_catalogues_tools_are_offered_and_recorded_once(
    library: Library, place: tuple[TwinRaven, Behind]
) -> None:
    """A tool that goes through the call path is remembered there and nowhere else, though the agent is watched."""
    raven, behind = place
    await promote_by_hand(raven)
    adapter = library.adapter(behind, session_id="s")
    heard = await library.run(adapter, "ada?", [[("orders_of", {"q": "ada@x.org"})], HABIT[1]])
    assert heard.error is None
    assert all("orders_of" in names for names in heard.offered)
    assert "C-ada-2" in str(heard.results[0])
    events = await remembered(raven, "s")
    own = [event for event in events if event.parent_event_id is None]
    assert [(event.tool_id, event.turn, event.outside_input) for event in own] == [
        ("orders_of", 1, "ada?"),
        ("list_orders", 2, None),
    ]
    inner = [event for event in events if event.parent_event_id is not None]
    assert {(event.tool_id, event.parent_event_id) for event in inner} == {
        ("find_customer", own[0].event_id),
        ("list_orders", own[0].event_id),
    }
    assert len(events) == 4


async def test_what_goes_wrong_inside_is_told_to_the_model(library: Library, place: tuple[TwinRaven, Behind]) -> None:
    """Arguments that do not fit and a tool that fails are answers a model can act on; the run goes on."""
    raven, behind = place
    await promote_by_hand(raven)
    await promote_by_hand(raven, "jammed", failing=True)
    adapter = library.adapter(behind, session_id="s")
    calls = [[("orders_of", {"q": 7})], [("jammed", {"q": "ada@x.org"})], [("orders_of", {"q": "ada@x.org"})]]
    heard = await library.run(adapter, "go", calls)
    assert heard.error is None
    wrong, jammed, right = heard.results
    assert "VALIDATION_FAILED" in str(wrong)
    assert "q" in str(wrong)
    assert "paper jam in tray 1" in str(jammed)
    assert "C-ada-2" in str(right)
    codes = [event.error_code for event in await remembered(raven, "s") if event.parent_event_id is None]
    assert codes[0] == "VALIDATION_FAILED"
    assert codes[2] is None


async def test_nothing_is_left_behind(library: Library, place: tuple[TwinRaven, Behind]) -> None:
    """After a run there are the tasks and threads that were there before it."""
    _, behind = place
    adapter = library.adapter(behind)
    await library.run(adapter, "ada?", HABIT)
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    for _ in range(3):
        await library.run(adapter, "ada?", HABIT)
    assert len(asyncio.all_tasks()) <= tasks
    assert threading.active_count() <= threads + 4


async def test_no_agents_loop_is_blocked(library: Library, place: tuple[TwinRaven, Behind]) -> None:
    """Once a home is open, watching and calling leave the event loop to the agent."""
    raven, behind = place
    await promote_by_hand(raven)
    adapter = library.adapter(behind, session_id="s")
    turns = [HABIT[0], [("orders_of", {"q": "ada@x.org"})]]
    await library.run(adapter, "ada?", turns)
    with blockbuster_ctx("twinraven"):
        heard = await library.run(adapter, "ada?", turns)
    assert heard.error is None
    assert "C-ada-2" in str(heard.results[1])


async def test_an_agent_outlives_its_memory(library: Library, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where calls cannot be recorded that is logged, and the agent gets its results all the same."""
    async with shop(tmp_path, "home") as (raven, behind):
        adapter = library.adapter(behind, session_id="s")
        await library.run(adapter, "ada?", [HABIT[0]])
        raven.collector.close()
        with caplog.at_level(logging.ERROR, "twinraven.integrations"):
            heard = await library.run(adapter, "ada?", HABIT)
        assert heard.error is None
        assert heard.results[1]["orders"] == ["C-ada-1", "C-ada-2"]
        assert "in session s, were not recorded" in caplog.text


async def test_sessions_are_what_the_library_calls_a_conversation(library: Library, tmp_path: Path) -> None:
    """Without a name for the session, the calls of one run still stand together."""
    async with shop(tmp_path, "home") as (raven, behind):
        await library.run(library.adapter(behind), "ada?", HABIT)
        (session,) = await raven.events.sessions("default", limit=10)
        assert session.event_count == 2


@pytest.mark.req("TR-01", "TR-23")
@pytest.mark.parametrize("where", ["home", "async client"])
async def test_a_habit_becomes_a_tool(library: Library, tmp_path: Path, where: Where) -> None:
    """Forty sessions of a habit are learned from; the agent is offered the tool on its next run and calls it."""
    async with shop(tmp_path, where, validation={"min_uses": 10}) as (raven, behind):
        for number in range(40):
            adapter = library.adapter(behind, session_id=f"ticket-{number}")
            email, customer = f"user{number}@x.org", f"C-user{number}"
            habit = [[("find_customer", {"email": email})], [("list_orders", {"customer_id": customer})]]
            heard = await library.run(adapter, f"What did {email} order?", habit)
            assert heard.error is None
        learned = await raven.huginn.learn("default", by="ada")
        (proposal,) = learned.proposals
        assert proposal.novelty == "awaiting"
        assert [step.tool_id for step in proposal.picture.steps] == ["find_customer", "list_orders"]
        adapter = library.adapter(behind, session_id="after")
        before = await library.run(adapter, "hello", [])
        assert proposal.tool_id not in before.offered[0]
        await raven.registry.promote("default", proposal.tool_id, by="ada")
        heard = await library.run(adapter, "eve?", [[(proposal.tool_id, {"email": "eve@x.org"})]])
        assert proposal.tool_id in heard.offered[0]
        assert "C-eve-1" in str(heard.results[0])
        outer, *inner = sorted(await remembered(raven, "after"), key=lambda event: event.parent_event_id is not None)
        assert (outer.tool_id, outer.outside_input) == (proposal.tool_id, "eve?")
        assert {event.parent_event_id for event in inner} == {outer.event_id}
        assert sorted(event.tool_id for event in inner) == ["find_customer", "list_orders"]


async def promote_by_hand(raven: TwinRaven, tool_id: str = "orders_of", *, failing: bool = False) -> None:
    """A learned tool in service, without the forty sessions."""
    second = ("jam", {"tray": 1}) if failing else ("list_orders", {"customer_id": "$.steps[0].output.customer_id"})
    await promote_tool(
        raven,
        StepDefinition(0, "find_customer", {"email": "$.parameters.q"}),
        StepDefinition(1, *second),
        tool_id=tool_id,
    )
