"""Adoption on both stores: where a learned tool was offered, fitted and was taken, and the turns that saved."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, login_of, made, make_chain
from tests.registry_kit import make_definition, make_verdict
from twinraven.flow import StepDefinition
from twinraven.foundation.clock import iso, to_micros, utc_now
from twinraven.huginn import LoggedAdoption, load_traces
from twinraven.huginn.adoption_count import CountedTool, figures_of, last_time
from twinraven.registry import Adoption, RegisteredTool, SynthesizedTool

TOOL = "search_read"
Turn = tuple[str, ...]
"""The tools that one turn of an agent calls."""

BY_HAND: tuple[Turn, ...] = (("search",), ("read",))


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@dataclass
class Agents:
    """A tenant with a learned tool in service, and agents that call what they like."""

    home: ApiHome
    ada: Seeds
    sessions: int = 0

    async def work(self, *turns: Turn, times: int = 1, numbered: bool = True) -> None:
        """So many sessions of these turns, recorded as made elsewhere."""
        for _ in range(times):
            self.sessions += 1
            events = [
                {"session_id": f"s{self.sessions}", "tool_id": tool, "input_params": {"n": place, "tool": tool}}
                | ({"turn": place + 1} if numbered else {})
                for place, turn in enumerate(turns)
                for tool in turn
            ]
            made(await self.ada.door.post("/v1/events", {"events": events}))

    async def call(self, tool: str, payload: dict[str, Any], *, session: str) -> Any:
        """A call through the REST door, made by the gateway's own executor."""
        body = {"tool_name": tool, "payload": payload, "session_id": session}
        return made(await self.ada.door.post("/v1/calls", body))

    async def promote(self, definition: SynthesizedTool | None = None) -> None:
        chain = make_chain()
        raven, tenant_id = self.home.raven, self.ada.tenant_id
        await raven.chains.add(tenant_id, [chain])
        wanted = replace(definition or make_definition(TOOL), source_chain_id=str(chain.chain_id))
        draft = await raven.registry.draft(tenant_id, wanted, evidence_hash=str(chain.chain_id))
        await raven.registry.register(tenant_id, draft.definition, make_verdict())
        await raven.registry.promote(tenant_id, wanted.tool_id, by=self.ada.user_id)

    async def adoption(self) -> dict[str, Any]:
        """What the REST door says of the tool; its list must say the same."""
        shown = made(await self.ada.door.get(f"/v1/learned-tools/{TOOL}"))["adoption"]
        (listed,) = made(await self.ada.door.get("/v1/learned-tools?adoption=true"))["items"]
        assert listed["adoption"] == shown
        return shown

    async def figures(self, *names: str) -> tuple[Any, ...]:
        found = await self.adoption()
        return tuple(found[name] for name in names)

    async def marked(self) -> list[Any]:
        """What maintenance does about adoption; drift and the like have their own tests."""
        report = await self.home.raven.maintenance.run(self.ada.tenant_id)
        assert all(action.verb != "retire" for action in report.actions)
        return [action.as_json() for action in report.actions if action.name == "not_taken"]


@pytest.fixture
async def agents(home: ApiHome) -> Agents:
    found = Agents(home, await home.tenant("ada"))
    await found.promote()
    return found


async def test_sessions_are_counted_as_offered_fitted_and_taken(agents: Agents) -> None:
    """Of all sessions since the promotion, those that take a tool or do its chain fit, and the takers take it."""
    await agents.work((TOOL,), times=3)
    await agents.work(*BY_HAND, times=2)
    await agents.work(("pay",), times=4)
    await agents.work(("read",), ("search",), times=1)
    found = await agents.adoption()
    assert (found["offered"], found["fitted"], found["taken"], found["share"]) == (10, 5, 3, 0.6)
    assert (found["share_low"], found["share_high"]) == (0.2307, 0.8824)
    assert (found["uses"], found["by_hand"], found["raised"]) == (3, 2, 0)
    assert (found["turns_per_use"], found["turns_by_hand"], found["turns_saved"]) == (1.0, 2.0, 3.0)
    (saved,) = made(await agents.ada.door.get("/v1/savings"))["items"]
    # Midnight may lie between the sessions.
    assert sum(each["uses"] for each in saved["days"]) == 3
    assert sum(each["turns_saved"] for each in saved["days"]) == 3.0


async def test_calls_inside_the_tool_are_not_by_hand(agents: Agents) -> None:
    """A real call of the tool makes its steps' calls in its session, and they count for nothing."""
    await agents.call(TOOL, {"q": "x"}, session="live")
    await agents.call("search", {"query": "x"}, session="hand")
    await agents.call("read", {"url": "doc:x"}, session="hand")
    assert await agents.figures("offered", "fitted", "taken", "uses", "by_hand") == (2, 2, 1, 1, 1)
    assert await agents.figures("turns_per_use", "turns_by_hand", "turns_saved") == (1.0, 2.0, 1.0)


async def test_work_of_before_the_promotion_is_only_compared_with(home: ApiHome) -> None:
    """Earlier sessions were not offered the tool; where none since does the chain by hand, they say what it costs."""
    agents = Agents(home, await home.tenant("ada"))
    await agents.work(("search",), ("search",), ("read",), times=2)
    await agents.promote()
    assert await agents.figures("offered", "fitted", "by_hand", "turns_saved") == (0, 0, 2, 0.0)
    await agents.work((TOOL,), times=4)
    assert await agents.figures("offered", "fitted", "taken", "turns_by_hand", "turns_saved") == (4, 4, 4, 3.0, 8.0)
    await agents.work(*BY_HAND)
    assert await agents.figures("by_hand", "turns_by_hand", "turns_saved") == (1, 2.0, 4.0)


async def test_nothing_is_said_to_be_saved_without_anything_to_compare_with(agents: Agents) -> None:
    """Where nobody ever did the chain by hand, what was saved is unknown and not a guess."""
    await agents.work((TOOL,), times=2)
    assert await agents.figures("taken", "uses", "turns_by_hand", "turns_saved") == (2, 2, None, None)


async def test_doing_it_by_hand_after_a_use_counts_against_the_use(agents: Agents) -> None:
    """An agent that takes the tool and then makes its steps anyway spent a turn more than by hand alone."""
    await agents.work(*BY_HAND)
    await agents.work((TOOL,), *BY_HAND, ("pay",), times=2)
    assert await agents.figures("fitted", "taken", "by_hand") == (3, 2, 1)
    assert await agents.figures("turns_per_use", "turns_saved") == (3.0, -2.0)


async def test_parallel_uses_of_one_turn_are_one_use(agents: Agents) -> None:
    """Two calls in one turn cost one turn, as two searches in one turn do; calls in two turns are two uses."""
    await agents.work(("search", "search"), ("read", "read"))
    await agents.work((TOOL, TOOL))
    assert await agents.figures("by_hand", "turns_by_hand", "uses", "turns_saved") == (1, 2.0, 1, 1.0)
    await agents.work((TOOL,), (TOOL,))
    assert await agents.figures("taken", "uses", "turns_saved") == (2, 3, 3.0)


async def test_each_call_is_a_turn_where_turns_are_not_numbered(agents: Agents) -> None:
    """A log without turns counts calls: three by hand against one of the tool."""
    await agents.work(("search", "search"), ("read",), numbered=False)
    await agents.work((TOOL,), numbered=False)
    assert await agents.figures("turns_by_hand", "turns_per_use", "turns_saved") == (3.0, 1.0, 2.0)


async def test_reads_asked_for_in_a_batch_are_by_hand_too(agents: Agents) -> None:
    """A search and then a batch of reads is the chain, in two turns."""
    batch = str(uuid4())
    events: list[dict[str, Any]] = [
        {"tool_id": "search", "turn": 1},
        {"tool_id": "batch_reads", "turn": 2, "event_id": batch},
        *({"tool_id": "read", "turn": 2, "parent_event_id": batch, "input_params": {"n": n}} for n in (1, 2)),
    ]
    stated: list[dict[str, Any]] = [{"session_id": "b", "input_params": {}, **each} for each in events]
    made(await agents.ada.door.post("/v1/events", {"events": stated}))
    assert await agents.figures("offered", "fitted", "taken", "turns_by_hand") == (1, 1, 0, 2.0)


async def test_uses_that_raised_are_counted(agents: Agents) -> None:
    """Failures of the tool stand beside its uses."""
    events: list[dict[str, Any]] = [
        {"session_id": "f", "tool_id": TOOL, "input_params": {}, "turn": 1, "error": "broken"}
    ]
    made(await agents.ada.door.post("/v1/events", {"events": events}))
    assert await agents.figures("taken", "uses", "raised") == (1, 1, 1)


async def test_a_tool_that_is_not_taken_is_flagged_with_advice(agents: Agents) -> None:
    """Passed over in enough sessions a tool is marked, told how to help it, and stays in service until it is taken."""
    await agents.work(*BY_HAND, times=19)
    assert await agents.marked() == []
    await agents.work(*BY_HAND)
    (action,) = await agents.marked()
    assert (action["tool_id"], action["verb"], action["name"]) == (TOOL, "flag", "not_taken")
    assert "proposes a version in other words" in action["why"]
    assert "twinraven retire" in action["why"]
    assert {name: action["figures"][name] for name in ("fitted", "taken", "share_high")} == {
        "fitted": 20,
        "taken": 0,
        "share_high": 0.1611,
    }
    shown = made(await agents.ada.door.get(f"/v1/learned-tools/{TOOL}"))
    assert shown["status"] == "promoted"
    assert shown["flags"]["not_taken"]["advice"] == action["why"]
    assert await agents.marked() == []
    await agents.work((TOOL,), times=5)
    assert [each["verb"] for each in await agents.marked()] == ["unflag"]
    assert "not_taken" not in made(await agents.ada.door.get(f"/v1/learned-tools/{TOOL}"))["flags"]


async def test_a_tool_that_fits_nowhere_is_not_flagged(agents: Agents) -> None:
    """Sessions that have nothing to do with a tool say nothing against it."""
    await agents.work(("pay",), times=30)
    assert await agents.marked() == []
    assert await agents.figures("offered", "fitted", "share") == (30, 0, None)


async def test_a_tool_out_of_service_has_no_adoption(agents: Agents) -> None:
    """What is quarantined is offered to nobody; and a list measures only when it is asked to."""
    (plain,) = made(await agents.ada.door.get("/v1/learned-tools"))["items"]
    bare = made(await agents.ada.door.get(f"/v1/learned-tools/{TOOL}?adoption=false"))
    assert "adoption" not in {*plain, *bare}
    made(await agents.ada.door.post(f"/v1/learned-tools/{TOOL}/quarantine", {"reason": "odd"}))
    assert await agents.adoption() is None


async def test_a_tool_of_one_repeated_step_fits_where_that_step_is_repeated(agents: Agents) -> None:
    """The hand-made form of a batch is the same tool called again with other arguments."""
    await agents.promote(_read_all())
    await agents.work(("read",), ("read",), ("read",))
    await agents.work(("read",))
    found = made(await agents.ada.door.get("/v1/learned-tools/read_all"))["adoption"]
    assert (found["offered"], found["fitted"], found["turns_by_hand"]) == (2, 1, 3.0)


async def test_only_the_newest_calls_are_read(agents: Agents) -> None:
    """However long the log is, the bound holds, and the figures say from when on they count."""
    await agents.work(*BY_HAND, times=5)
    await agents.work((TOOL,), times=2)
    raven, tenant_id = agents.home.raven, agents.ada.tenant_id
    tool = await raven.registry.tool(tenant_id, TOOL)
    whole = await _measured(agents, 1_000)
    cut = await _measured(agents, 4)
    assert (whole.offered, whole.fitted, whole.taken, whole.since) == (7, 7, 2, tool.record.in_service_since)
    assert (cut.offered, cut.fitted, cut.taken) == (3, 3, 2)
    assert cut.since > whole.since


async def _measured(agents: Agents, most_calls: int) -> Adoption:
    tool = await agents.home.raven.registry.tool(agents.ada.tenant_id, TOOL)
    return (await _probe(agents, most_calls).measure(agents.ada.tenant_id, [tool], since=tool.record.registered_at))[
        TOOL
    ]


def _probe(agents: Agents, most_calls: int, at_once: int = 1_000) -> LoggedAdoption:
    raven = agents.home.raven
    return LoggedAdoption(
        raven.database, raven.events, raven.activity, idle_gap_s=1800, most_calls=most_calls, at_once=at_once
    )


async def test_what_is_kept_is_what_counting_from_scratch_says(agents: Agents) -> None:
    """However calls come in, late, corrected or pruned, figures kept step by step are those of one count of all."""
    chance, raven, tenant_id = random.Random(4), agents.home.raven, agents.ada.tenant_id
    await agents.promote(_read_all())
    old, new = utc_now() - timedelta(days=20), utc_now() + timedelta(minutes=1)
    served = "UPDATE tool_records SET in_service_since = :at WHERE tenant_id = :tenant"
    begun = to_micros(old - timedelta(days=1))
    await raven.database.write(tenant_id, lambda tx: tx.execute(served, at=begun, tenant=tenant_id))
    recorded: list[dict[str, Any]] = []
    for number in range(10):
        events: list[dict[str, Any]] = []
        for _ in range(chance.randrange(1, 9)):
            session = chance.randrange(5)
            at = (old if session == 0 else new) + timedelta(seconds=chance.randrange(600))
            about: dict[str, Any] = {"session_id": f"s{session}", "input_params": {"n": chance.randrange(3)}}
            about |= {"tool_id": chance.choice(("search", "read", "pay", TOOL, "read_all"))}
            about |= {"timestamp": iso(at), "event_id": str(uuid4())}
            if chance.random() < 0.3:
                about["turn"] = chance.randrange(1, 9)
            wrong = [each for each in recorded if each["session_id"] == about["session_id"]]
            if wrong and chance.random() < 0.15:
                about["corrects"] = chance.choice(wrong)["event_id"]
            events.append(about)
        made(await agents.ada.door.post("/v1/events", {"events": events}))
        recorded += events
        if chance.random() < 0.7:
            assert await _kept(agents) == await _from_scratch(agents), number
    before = await _kept(agents)
    report = await raven.retention.run(tenant_id, days=10, compact=False)
    assert report.sessions == 1
    left = await _kept(agents)
    assert left == await _from_scratch(agents)
    assert left != before


Figures = dict[str, tuple[int, ...]]


async def _tools(agents: Agents) -> list[RegisteredTool]:
    return [await agents.home.raven.registry.tool(agents.ada.tenant_id, name) for name in (TOOL, "read_all")]


async def _kept(agents: Agents) -> Figures:
    """What a probe keeps of two tools that counts a few calls in each step."""
    since = utc_now() - timedelta(days=30)
    probe = _probe(agents, 10_000, at_once=7)
    found = await probe.measure(agents.ada.tenant_id, await _tools(agents), since=since)
    return {
        name: (
            *(each.offered, each.fitted, each.taken, each.raised, each.uses, each.by_hand),
            *(round(100 * (turns or 0)) for turns in (each.turns_per_use, each.turns_by_hand)),
        )
        for name, each in found.items()
    }


async def _from_scratch(agents: Agents) -> Figures:
    """What one pass over all sessions says of the two tools."""
    found: Figures = {}
    log = await load_traces(agents.home.raven.events, agents.ada.tenant_id, idle_gap_s=1800)
    for tool in await _tools(agents):
        started = tool.record.in_service_since
        assert started is not None
        counted = CountedTool.of(tool.current.definition, to_micros(started))
        sums = [sum(column) for column in zip(*(figures_of(each, counted) for each in log.sessions), strict=True)]
        fitted, taken, raised, uses, use_turns, by_hand, hand_turns, earlier, earlier_turns = sums
        by_hand, hand_turns = (by_hand, hand_turns) if by_hand else (earlier, earlier_turns)
        offered = sum(last_time(each) >= to_micros(started) for each in log.sessions)
        turns = [
            round(100 * spent / number) if number else 0 for spent, number in ((use_turns, uses), (hand_turns, by_hand))
        ]
        found[tool.record.tool_id] = (offered, fitted, taken, raised, uses, by_hand, *turns)
    return found


def _read_all() -> SynthesizedTool:
    """A tool of one step that is made for each of a list."""
    step = StepDefinition(0, "read", {"url": "$.item"}, for_each="$.parameters.urls")
    parameters = {"type": "object", "properties": {"urls": {"type": "array"}}, "required": ["urls"]}
    return replace(make_definition("read_all"), steps=(step,), parameters=parameters)


async def test_who_does_not_wait_has_what_is_kept(agents: Agents) -> None:
    """A page has the figures of the last count and how many calls are pending; the count goes on behind it."""
    raven, tenant_id = agents.home.raven, agents.ada.tenant_id
    tool = await raven.registry.tool(tenant_id, TOOL)
    probe = _probe(agents, 1_000, at_once=3)

    async def told(*, wait: bool = False) -> Adoption | None:
        found = await probe.measure(tenant_id, [tool], since=tool.record.registered_at, wait=wait)
        return found.get(TOOL)

    async def told_when(uses: int) -> Adoption:
        async with asyncio.timeout(60):
            while (found := await told()) is None or found.uses != uses:  # noqa: ASYNC110 - the database tells nobody
                await asyncio.sleep(0.01)
        return found

    await agents.work((TOOL,), times=5)
    assert await told() is None
    assert (await told_when(5)).pending == 0
    await agents.work((TOOL,), times=2)
    assert (await told_when(7)).pending == 0
    await agents.work((TOOL,), times=4)
    behind = await told()
    assert behind is not None
    assert (behind.uses, behind.pending) in {(7, 4), (11, 0)}
    assert (await told_when(11)).pending == 0
    await agents.work((TOOL,))
    exact = await told(wait=True)
    assert exact is not None
    assert (exact.uses, exact.pending) == (12, 0)
    await probe.aclose()
