"""A correction is a new event that names what it corrects: both are read, and mining uses the correction."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.api_homes import ApiHome, Seeds, api_home, login_of, make_chain
from tests.registry_kit import make_definition, make_verdict
from twinraven.catalog import RUN_CODE
from twinraven.foundation.clock import iso, utc_now
from twinraven.huginn import MiningRun, load_traces, mine_log
from twinraven.huginn.scripts import load_script_traces, uses_of_tool
from twinraven.muninn import EventFilter
from twinraven.muninn.tool_use import CallCount, count_calls
from twinraven.storage import Transaction


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request), mining={"min_support": 0.1, "min_sessions": 2}) as opened:
        yield opened


async def record(who: Seeds, *events: dict[str, Any]) -> list[str]:
    reply = await who.door.post("/v1/events", {"events": list(events)})
    assert reply.status == 201, reply.body
    return reply.json()["event_ids"]


def call(session: str, tool: str, second: int, **more: Any) -> dict[str, Any]:
    at = f"2026-03-01T10:00:{second:02}Z"
    return {"session_id": session, "tool_id": tool, "input_params": {}, "timestamp": at, "latency_ms": 40, **more}


async def chains(home: ApiHome, who: Seeds) -> dict[tuple[str, ...], int]:
    """The longest chains in a tenant's log by the settings of its home, with how many sessions each is in."""
    found = await mine_log(home.raven.events, who.tenant_id, home.raven.mining_run, now=utc_now())
    longest = max(len(chain.tools) for chain in found)
    return {chain.tools: chain.sessions for chain in found if len(chain.tools) == longest}


@pytest.mark.req("TR-25")
async def test_reads_show_both_and_mining_uses_the_correction(home: ApiHome) -> None:
    """A wrong tool is stated anew, in place; a correction may be corrected in turn."""
    ada = await home.tenant("ada")
    wrong: list[str] = []
    for number in range(6):
        session = f"s{number}"
        ids = await record(ada, *(call(session, tool, place) for place, tool in enumerate(("find", "lod", "close"))))
        wrong.append(ids[1])
    assert set(await chains(home, ada)) == {("find", "lod", "close")}

    for number, event_id in enumerate(wrong):
        stated = {"session_id": f"s{number}", "tool_id": "load", "input_params": {"n": number}, "corrects": event_id}
        (first,) = await record(ada, {**stated, "tool_id": "load" if number else "laod"})
        if number == 0:
            await record(ada, {**stated, "corrects": first})
    assert await chains(home, ada) == {("find", "load", "close"): 6}
    learned_from = await load_traces(home.raven.events, ada.tenant_id, idle_gap_s=900)
    assert {tuple(call.tool_id for call in session.calls) for session in learned_from.sessions} == {
        ("find", "load", "close")
    }

    shown = (await ada.door.get("/v1/sessions/s1")).json()["events"]
    assert [event["tool_id"] for event in shown] == ["find", "lod", "load", "close"]
    assert [event["corrects"] for event in shown] == [None, None, wrong[1], None]
    assert (shown[2]["timestamp"], shown[2]["latency_ms"]) == (shown[1]["timestamp"], 40)
    before = (await ada.door.get(f"/v1/events/{wrong[1]}")).json()
    assert (before["tool_id"], before["input_params"], before["corrects"]) == ("lod", {}, None)


@pytest.mark.req("TR-25")
async def test_a_run_is_repeated_without_what_was_corrected_since(home: ApiHome) -> None:
    """A run up to an arrival does not know later corrections."""
    ada = await home.tenant("ada")
    ids = [(await record(ada, call(f"s{n}", "a", 0), call(f"s{n}", "b", 1)))[1] for n in range(3)]
    (chain,) = await mine_log(home.raven.events, ada.tenant_id, home.raven.mining_run, now=utc_now())
    await record(ada, *(call(f"s{n}", "c", 1, corrects=event_id) for n, event_id in enumerate(ids)))
    run = MiningRun.from_dict(chain.mining_config, idle_gap_s=1)
    again = await mine_log(home.raven.events, ada.tenant_id, run, now=utc_now())
    assert [each.tools for each in again] == [("a", "b")]
    assert set(await chains(home, ada)) == {("a", "c")}


@pytest.mark.req("TR-25")
async def test_scripts_are_learned_from_as_they_were_corrected(home: ApiHome) -> None:
    """A call inside a script that was corrected is not learned from, nor a script that was; its correction is."""
    ada = await home.tenant("ada")
    wrong: list[str] = []
    code = "page = fetch()\nsave(page)"
    for number in range(3):
        (script,) = await record(ada, call(f"s{number}", RUN_CODE, 0, input_params={"code": code}))
        inside = (
            call(f"s{number}", tool, place, parent_event_id=script) for place, tool in enumerate(("fetch", "svae"), 1)
        )
        wrong.append((await record(ada, *inside))[1])
    (last,) = await record(ada, call("s3", RUN_CODE, 0, input_params={"code": code}))
    known = await home.raven.events.settled(ada.tenant_id)
    for number, event_id in enumerate(wrong):
        await record(ada, {"session_id": f"s{number}", "tool_id": "save", "input_params": {}, "corrects": event_id})
    await record(ada, {"session_id": "s3", "tool_id": "look", "input_params": {}, "corrects": last})

    async def scripts(where: EventFilter) -> list[tuple[str, ...]]:
        found = await load_script_traces(home.raven.events, ada.tenant_id, least_sessions=1, where=where)
        runs = [run for script in found.scripts for run in script.runs]
        return [tuple(call.tool_id for call in run.calls) for run in sorted(runs, key=lambda run: run.session_id)]

    assert await scripts(EventFilter()) == [("fetch", "save")] * 3
    assert await scripts(EventFilter(through_arrival=known)) == [("fetch", "svae")] * 3 + [()]
    uses = await uses_of_tool(home.raven.events, ada.tenant_id, "save")
    assert [use.session_id for use in uses] == ["s0", "s1", "s2"]
    assert await uses_of_tool(home.raven.events, ada.tenant_id, "svae") == []


@pytest.mark.req("TR-25")
async def test_a_correction_of_a_call_is_no_use_of_its_tool(home: ApiHome) -> None:
    """A learned tool is used as often as it was called, whatever was stated of a call later."""
    ada = await home.tenant("ada")
    chain = make_chain()
    await home.raven.chains.add(ada.tenant_id, [chain])
    definition = make_definition("search_read", chain_id=str(chain.chain_id))
    draft = await home.raven.registry.draft(ada.tenant_id, definition, evidence_hash="x")
    await home.raven.registry.register(ada.tenant_id, draft.definition, make_verdict())
    await home.raven.registry.promote(ada.tenant_id, "search_read", by=ada.user_id)
    (wrong,) = await record(ada, call("s", "search_read", 0, timestamp=iso(utc_now())))
    await record(ada, {"session_id": "s", "tool_id": "search_read", "input_params": {"q": "x"}, "corrects": wrong})
    shown = (await ada.door.get("/v1/learned-tools/search_read")).json()
    assert shown["invocation_count"] == 1


@pytest.mark.req("TR-25")
async def test_a_failure_that_was_corrected_does_not_count_against_its_tool(home: ApiHome) -> None:
    """What maintenance counts of a tool's calls is what was stated last."""
    ada = await home.tenant("ada")
    (wrong,) = await record(ada, call("s", "load", 0, outcome="failure"))

    def count(tx: Transaction) -> CallCount:
        return count_calls(tx, ada.tenant_id, "load", since=datetime(2026, 1, 1, tzinfo=UTC))

    assert await home.raven.database.read(ada.tenant_id, count) == (1, 1)
    await record(ada, call("s", "load", 0, outcome="success", corrects=wrong))
    assert await home.raven.database.read(ada.tenant_id, count) == (1, 0)


@pytest.mark.req("CH-12", "TR-25")
async def test_what_is_not_there_cannot_be_corrected(home: ApiHome) -> None:
    """An event of nobody, of another session or of another tenant is refused by its field, and nothing is stored."""
    ada, bob = await home.tenant("ada"), await home.tenant("bob")
    (theirs,) = await record(bob, call("s", "a", 0))
    (mine,) = await record(ada, call("s", "a", 0))
    for session, corrects in (("s", str(uuid4())), ("s", theirs), ("other", mine)):
        reply = await ada.door.post(
            "/v1/events", {"events": [call(session, "b", 1), call(session, "b", 1, corrects=corrects)]}
        )
        assert (reply.status, reply.json()["code"]) == (400, "VALIDATION_FAILED")
        assert reply.json()["details"]["field"] == "events[1].corrects"
    for session, corrects in (("s", uuid4()), ("s", UUID(theirs)), ("other", UUID(mine))):
        observer = home.raven.collector.observe(session, tenant_id=ada.tenant_id)
        with pytest.raises(Exception, match="corrects: this tenant has no such event"):
            await observer.record("b", {}, corrects=corrects)
    assert len((await ada.door.get("/v1/events")).json()["items"]) == 1
