"""Learned tools in use, on both stores: offered, called, recorded, counted, and known to others at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from tests.owned_tools import OwnedTools
from tests.registry_kit import DAY, TENANT, House, make_definition
from twinraven.catalog import Catalog, Effect, Sensitivity
from twinraven.foundation.errors import InvalidInput, NotFound, StorageBusy
from twinraven.muninn import EventFilter, SqlEventStore
from twinraven.registry import RetirementReason
from twinraven.storage import Database, Transaction


@pytest.fixture
def house(database: Database, tmp_path: Path) -> Generator[House]:
    house = House(database, tmp_path / "tools")
    yield house
    house.close()


def neighbour(house: House) -> House:
    """Another process, as far as the registry can tell: it shares the database and nothing else."""
    return replace(house, folder=house.folder.with_name("elsewhere"), told=[])


async def until(question: object, *, within: float) -> float:
    """How long it took until the question was answered with yes."""
    assert callable(question)
    began = time.monotonic()
    while not question():
        assert time.monotonic() - began < within
        await asyncio.sleep(0.005)
    return time.monotonic() - began


@pytest.mark.req("TR-01", "TR-23")
async def test_a_learned_tool_is_called_and_recorded_like_any_other(house: House) -> None:
    """Its call is one event of the agent's own; the inner calls are recorded as its children."""
    await house.promote()
    answer = await house.call("search_read", {"q": "ravens"}, session="s1")
    assert answer["result"] == {"text": "text of doc:ravens"}
    await asyncio.to_thread(house.collector.flush)
    events = await SqlEventStore(house.database).events(TENANT, EventFilter(session_id="s1"))
    by_tool = {event.tool_id: event for event in events}
    assert set(by_tool) == {"search_read", "search", "read"}
    assert by_tool["search_read"].parent_event_id is None
    assert {by_tool[name].parent_event_id for name in ("search", "read")} == {by_tool["search_read"].event_id}


async def test_an_entry_is_as_powerful_as_its_steps(house: House) -> None:
    """The catalogue shows the highest effect and sensitivity of the steps, and keeps one entry per version."""
    await house.promote()
    entry = house.catalog.find(TENANT, "search_read")
    assert (entry.effect, entry.sensitivity, entry.connector) == (Effect.READ, Sensitivity.MEDIUM, "flow")
    assert house.catalog.find(TENANT, "search_read") is entry
    assert "search_read" in [each.tool_id for each in house.catalog.entries(TENANT)]


async def test_bad_arguments_never_reach_a_step(house: House) -> None:
    """A learned tool checks its parameters before it calls anything."""
    await house.promote()
    with pytest.raises(Exception, match="required"):
        await house.call("search_read", {})
    await asyncio.to_thread(house.collector.flush)
    store = SqlEventStore(house.database)
    assert await store.events(TENANT, EventFilter(tool_id="search")) == []


@pytest.mark.req("TR-23")
async def test_learned_tools_become_steps(house: House) -> None:
    """A learned tool can be a step of a longer one, and is not offered while a step of it is out of service."""
    await house.promote()
    await house.promote("search_read_sum", steps=("search_read", "summarize"))
    assert (await house.call("search_read_sum", {"q": "x"}))["result"] == "x"
    await house.registry.quarantine(TENANT, "search_read", reason="odd", by="ann")
    assert house.learned.find(TENANT, "search_read_sum") is None
    with pytest.raises(NotFound):
        await house.call("search_read_sum", {"q": "x"})
    await house.registry.release(TENANT, "search_read", by="ann")
    assert house.learned.find(TENANT, "search_read_sum") is not None


async def test_offered_is_callable(house: House) -> None:
    """A caller sees the learned tools of which it may call every step, also the steps inside steps."""
    await house.promote()
    await house.promote("search_read_sum", steps=("search_read", "summarize"))
    owned = OwnedTools(house.functions, {"search": "ann"})
    catalog = Catalog(owned, house.learned)

    def learned_for(caller: str) -> list[str]:
        return [entry.tool_id for entry in catalog.offered(TENANT, caller) if entry.parts]

    assert {caller: learned_for(caller) for caller in ("ann", "bob")} == {
        "ann": ["search_read", "search_read_sum"],
        "bob": [],
    }
    assert not catalog.may_use(TENANT, "bob", "search_read_sum")
    assert catalog.may_use(TENANT, "bob", "read")
    with pytest.raises(NotFound):
        catalog.resolve(TENANT, "search_read_sum", "bob")
    owned.owners.clear()
    assert learned_for("bob") == ["search_read", "search_read_sum"]


async def test_a_tool_whose_step_is_gone_is_not_offered(house: House) -> None:
    """Where a step can no longer be called, the tool is not offered; when it returns, so does the tool."""
    await house.promote()
    find = house.functions.find
    house.functions.find = lambda tenant_id, tool_id: None if tool_id == "read" else find(tenant_id, tool_id)
    assert house.learned.find(TENANT, "search_read") is None
    assert house.learned.entries(TENANT) == []
    house.functions.find = find
    assert house.learned.find(TENANT, "search_read") is not None


async def test_a_row_that_makes_no_sense_is_left_out(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """One broken definition costs itself; the reason is in the log and the rest is offered."""
    await house.promote()
    await house.promote("other", steps=("read", "summarize"))

    def damage(tx: Transaction) -> None:
        tx.execute("DELETE FROM tool_versions WHERE tenant_id = :t AND tool_id = 'other'", t=TENANT)
        tx.execute(
            "INSERT INTO tool_versions (tenant_id, tool_id, version, status, definition, validation, "
            "validation_passed, equivalence_score, created_at) "
            "VALUES (:t, 'other', 1, 'promoted', '{\"tool_id\": 7}', '{}', 1, 1.0, 0)",
            t=TENANT,
        )

    await house.database.write(TENANT, damage)
    stranger = neighbour(house)
    assert [entry.tool_id for entry in stranger.learned.entries(TENANT)] == ["search_read"]
    with pytest.raises(NotFound):
        stranger.learned.definition(TENANT, "other")
    assert "'other' is left out" in caplog.text
    stranger.close()


@pytest.mark.req("RG-05", "RG-08")
async def test_others_learn_of_a_change_within_a_second(house: House) -> None:
    """A promotion, a new version, a quarantine and a retirement are known to another process in less than a second."""
    other = replace(neighbour(house), poll_s=0.5)
    heard: list[tuple[str, int]] = []
    other.learned.subscribe(lambda tenant_id, revision: heard.append((tenant_id, revision)))
    assert other.learned.find(TENANT, "search_read") is None
    await house.promote()
    assert await until(lambda: other.learned.find(TENANT, "search_read") is not None, within=2) < 1
    await house.promote(description="Better.")
    assert await until(lambda: other.learned.definition(TENANT, "search_read").version == 2, within=2) < 1
    await house.registry.quarantine(TENANT, "search_read", reason="odd", by="ann")
    assert await until(lambda: other.learned.find(TENANT, "search_read") is None, within=2) < 1
    await house.registry.release(TENANT, "search_read", by="ann")
    assert await until(lambda: other.learned.find(TENANT, "search_read") is not None, within=2) < 1
    await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="ann")
    assert await until(lambda: other.learned.find(TENANT, "search_read") is None, within=2) < 1
    assert heard
    assert all(tenant_id == TENANT for tenant_id, _ in heard)
    assert [revision for _, revision in heard] == sorted({revision for _, revision in heard})
    other.close()


async def test_nobody_waits_for_the_store_to_look_a_tool_up(house: House, loop_guard: BlockBuster) -> None:
    """Changing, refreshing, looking up and calling learned tools never blocks the event loop."""
    await house.learned.refresh(TENANT)
    await house.promote()
    assert await house.call("search_read", {"q": "x"}) is not None
    await house.registry.tools(TENANT)
    await house.verification.verify(TENANT)
    await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="ann")


@pytest.mark.req("RG-09")
async def test_every_recorded_call_is_counted(house: House) -> None:
    """Calls that answered, that raised, and that were made inside another learned tool all count, and none twice."""
    await house.promote()
    await house.promote("search_read_sum", steps=("search_read", "summarize"))
    for number in range(5):
        await house.call("search_read", {"q": str(number)})
    await house.call("search_read_sum", {"q": "x"})
    with pytest.raises(Exception, match="required"):
        await house.call("search_read", {})
    await asyncio.to_thread(house.collector.flush)
    counts = {record.tool_id: record.invocation_count for record in await house.registry.tools(TENANT)}
    assert counts == {"search_read": 7, "search_read_sum": 1}
    record = (await house.registry.tool(TENANT, "search_read")).record
    assert record.last_used_at is not None
    assert record.in_service_since is not None
    assert record.last_used_at > record.in_service_since


@pytest.mark.req("RG-09")
async def test_counts_only_rise(house: House) -> None:
    """Adding up what has settled changes no count, whenever it happens; a use is never counted twice or lost."""
    await house.promote()
    seen: list[int] = []
    used: list[datetime | None] = []
    for number in range(8):
        await house.call("search_read", {"q": str(number)})
        await asyncio.to_thread(house.collector.flush)
        if number % 2:
            await house.registry.fold_usage(TENANT)
        record = (await house.registry.tool(TENANT, "search_read")).record
        seen.append(record.invocation_count)
        used.append(record.last_used_at)
    assert seen == list(range(1, 9))
    moments = [moment for moment in used if moment is not None]
    assert used == sorted(set(moments))
    row = await house.database.read(
        TENANT, lambda tx: tx.fetch_one("SELECT invocation_count AS n FROM tool_records WHERE tenant_id = :t", t=TENANT)
    )
    assert row is not None
    assert row["n"] == 8


@pytest.mark.req("RG-09")
async def test_calls_under_way_are_not_passed_over(postgres_database: Database, tmp_path: Path) -> None:
    """An event that was numbered early and stored late is counted, however long its transaction took."""
    house = House(postgres_database, tmp_path / "tools")
    await house.promote()
    late = postgres_database.connect()
    with late.transaction(TENANT, write=True) as tx:
        _insert_call(tx, house, "00000000-0000-4000-8000-000000000001")
        await house.call("search_read", {"q": "x"})
        await asyncio.to_thread(house.collector.flush)
        with pytest.raises(StorageBusy):
            await house.registry.fold_usage(TENANT, patience_s=0.1)
        assert (await house.registry.tool(TENANT, "search_read")).record.invocation_count == 1
    late.close()
    assert (await house.registry.tool(TENANT, "search_read")).record.invocation_count == 2
    await house.registry.fold_usage(TENANT)
    assert (await house.registry.tool(TENANT, "search_read")).record.invocation_count == 2
    house.close()


def _insert_call(tx: Transaction, house: House, event_id: str) -> None:
    tx.execute(
        "INSERT INTO muninn_event_log (tenant_id, event_id, session_id, tool_id, input_hash, input_params, timestamp, "
        "latency_ms, outcome, tags, raised, time_known) "
        "VALUES (:t, :e, 's', 'search_read', '0', '{}', :now, 1, 'success', '[]', 0, 1)",
        t=TENANT,
        e=event_id,
        now=house.clock(),
    )


@pytest.mark.req("RG-09")
async def test_calls_of_that_name_from_before_are_not_uses(house: House) -> None:
    """Events of the same name that are older than the tool, whenever they were recorded, were of something else."""
    now = house.clock.now
    house.clock.now -= 30 * DAY
    await house.database.write(TENANT, lambda tx: _insert_call(tx, house, "00000000-0000-4000-8000-000000000001"))
    house.clock.now = now
    await house.promote()
    house.clock.now -= 30 * DAY
    await house.database.write(TENANT, lambda tx: _insert_call(tx, house, "00000000-0000-4000-8000-000000000002"))
    house.clock.now = now + 1000
    assert (await house.registry.tool(TENANT, "search_read")).record.invocation_count == 0


@pytest.mark.req("RG-09")
async def test_rebuilt_rows_remember_recorded_uses(house: House) -> None:
    """After the rows were lost and made again, calls that the log holds are still counted."""
    await house.promote()
    for number in range(3):
        await house.call("search_read", {"q": str(number)})
    await asyncio.to_thread(house.collector.flush)

    def forget(tx: Transaction) -> None:
        for table in ("tool_versions", "tool_records", "registry_state"):
            tx.execute(f"DELETE FROM {table} WHERE tenant_id = :t", t=TENANT)

    await house.database.write(TENANT, forget)
    await house.verification.rebuild_rows(TENANT)
    assert (await house.registry.tool(TENANT, "search_read")).record.invocation_count == 3


async def test_what_is_no_name_is_not_found_by_mistake(house: House) -> None:
    """An id that could be a path is refused before any file is touched."""
    with pytest.raises(InvalidInput, match="slug"):
        await house.registry.retire(TENANT, "../../etc", RetirementReason.MANUAL, by="ann")
    assert not house.folder.exists()
    assert make_definition().tool_id == "search_read"
