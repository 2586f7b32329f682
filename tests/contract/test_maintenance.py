"""Upkeep on both stores: what ends a tool, what marks it, what is only told, and every key that decides."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.registry_kit import DAY, TENANT, House, add_chain, make_definition, make_verdict
from twinraven.foundation.clock import from_micros
from twinraven.registry import MaintenanceReport, RetirementReason, Support, ToolRecord, ToolStatus
from twinraven.storage import Database, Transaction


@dataclass
class FakeProbe:
    """Says of every chain what a test wants it to say."""

    found: Support = field(default_factory=lambda: Support(0.4, 0.8, 100))
    asked: list[tuple[tuple[str, ...], str, datetime]] = field(
        default_factory=list[tuple[tuple[str, ...], str, datetime]]
    )

    async def measure(self, tenant_id: str, chain: dict[str, Any], *, tool_id: str, since: datetime) -> Support:
        assert tenant_id == TENANT
        self.asked.append((tuple(chain["tools"]), tool_id, since))
        return self.found


@pytest.fixture
def probe() -> FakeProbe:
    return FakeProbe()


@pytest.fixture
def house(database: Database, tmp_path: Path, probe: FakeProbe) -> Generator[House]:
    house = House(database, tmp_path / "tools", probe=probe)
    yield house
    house.close()


async def record_calls(
    house: House, tool_id: str = "search_read", *, answered: int = 0, raised: int = 0, inner: int = 0, again: int = 0
) -> None:
    """Calls as the log holds them: each with inner calls, of which the agent then asks some again."""

    def work(tx: Transaction) -> None:
        for number in range(answered + raised):
            session, use = str(uuid4()), str(uuid4())
            _insert(tx, house, tool_id, session, event_id=use, raised=number >= answered)
            for step in range(inner):
                _insert(tx, house, "search", session, parent=use, hashed=str(step))
            for step in range(again):
                _insert(tx, house, "search", session, hashed=str(step))

    await house.database.write(TENANT, work)


def _insert(
    tx: Transaction,
    house: House,
    tool_id: str,
    session: str,
    *,
    event_id: str | None = None,
    raised: bool = False,
    parent: str | None = None,
    hashed: str = "0",
) -> None:
    tx.execute(
        "INSERT INTO muninn_event_log (tenant_id, event_id, session_id, tool_id, input_hash, input_params, timestamp, "
        "latency_ms, outcome, tags, raised, time_known, parent_event_id) "
        "VALUES (:t, :e, :s, :tool, :hashed, '{}', :now, 1, 'success', '[]', :raised, 1, :parent)",
        t=TENANT,
        e=event_id or str(uuid4()),
        s=session,
        tool=tool_id,
        hashed=hashed,
        now=house.clock(),
        raised=int(raised),
        parent=parent,
    )


async def record_of(house: House, tool_id: str = "search_read") -> ToolRecord:
    return (await house.registry.tool(TENANT, tool_id)).record


def verbs(report: MaintenanceReport) -> list[tuple[str, str, str]]:
    return [(action.tool_id, action.verb, action.name) for action in report.actions]


def ends(report: MaintenanceReport) -> list[tuple[str, str, str]]:
    return [found for found in verbs(report) if found[1] == "retire"]


@pytest.mark.req("RG-11", "RG-08")
async def test_an_unused_tool_is_retired(house: House) -> None:
    """After the configured days without a call a tool is retired as unused; a call in between keeps it."""
    await house.promote()
    await house.promote("in_use", steps=("read", "summarize"))
    house.clock.now += 20 * DAY
    await record_calls(house, "in_use", answered=1)
    house.clock.now += 11 * DAY
    report = await house.maintenance.run(TENANT)
    assert verbs(report) == [("search_read", "retire", "auto_unused")]
    record = await record_of(house)
    assert (record.retirement_reason, record.status) == (RetirementReason.AUTO_UNUSED, ToolStatus.RETIRED)
    assert record.in_service_since is None
    (told,) = [change for change in house.told if change.event_type == "tool.retired"]
    assert told.data == {"reason": "auto_unused", "note": "not called for 31 days"}
    assert (await record_of(house, "in_use")).is_in_service


@pytest.mark.req("RG-11", "RG-15")
async def test_a_tool_never_used_ages_from_its_promotion(house: House) -> None:
    """The days count from when a version went into service, not from when it was registered or made."""
    quick = house.with_settings(auto_retire_after_days=3)
    await quick.register()
    quick.clock.now += 10 * DAY
    await quick.registry.promote(TENANT, "search_read", by="ann")
    quick.clock.now += 2 * DAY
    assert verbs(await quick.maintenance.run(TENANT)) == []
    quick.clock.now += 2 * DAY
    assert verbs(await quick.maintenance.run(TENANT)) == [("search_read", "retire", "auto_unused")]
    quick.close()


@pytest.mark.req("RG-11")
async def test_time_out_of_service_does_not_age(house: House) -> None:
    """A new version, a rollback and the end of a quarantine each give a tool its days again."""
    await house.promote()
    house.clock.now += 25 * DAY
    await house.promote(description="Better.")
    house.clock.now += 25 * DAY
    await house.registry.rollback(TENANT, "search_read", to_version=1, by="ann")
    house.clock.now += 25 * DAY
    await house.registry.quarantine(TENANT, "search_read", reason="odd", by="ann")
    house.clock.now += 100 * DAY
    assert verbs(await house.maintenance.run(TENANT)) == []
    await house.registry.release(TENANT, "search_read", by="ann")
    house.clock.now += 25 * DAY
    assert verbs(await house.maintenance.run(TENANT)) == []
    await house.register("waiting", steps=("read", "summarize"))
    since = from_micros(house.clock.now + DAY)
    assert [record.tool_id for record in await house.maintenance.stale(TENANT, unused_since=since)] == ["search_read"]
    since = from_micros(house.clock.now - 24 * DAY)
    assert [record.tool_id for record in await house.maintenance.stale(TENANT, unused_since=since)] == ["search_read"]
    since = from_micros(house.clock.now - 26 * DAY)
    assert await house.maintenance.stale(TENANT, unused_since=since) == []


@pytest.mark.req("RG-12", "RG-08")
async def test_a_spike_of_failures_retires(house: House) -> None:
    """Above the threshold a tool is retired; at it, it is not; the figures are said."""
    await house.promote()
    await record_calls(house, answered=7, raised=3)
    assert ends(await house.maintenance.run(TENANT)) == []
    await record_calls(house, raised=1)
    report = await house.maintenance.run(TENANT)
    assert ends(report) == [("search_read", "retire", "failure_spike")]
    assert report.actions[0].figures == {"calls": 11, "raised": 4, "rate": 0.3636}
    assert (await record_of(house)).retirement_reason is RetirementReason.FAILURE_SPIKE


@pytest.mark.req("RG-12")
async def test_silence_is_not_a_spike(house: House) -> None:
    """No recent calls, or failures of long ago, or of the version before, retire nothing."""
    await house.promote()
    assert ends(await house.maintenance.run(TENANT)) == []
    await record_calls(house, raised=5)
    house.clock.now += 6 * DAY
    assert ends(await house.maintenance.run(TENANT, dry_run=True)) == [("search_read", "retire", "failure_spike")]
    house.clock.now += 2 * DAY
    assert ends(await house.maintenance.run(TENANT)) == []
    await record_calls(house, raised=5)
    await house.promote(description="Repaired.")
    assert ends(await house.maintenance.run(TENANT)) == []


@pytest.mark.req("RG-12", "RG-15")
async def test_the_threshold_of_failures_is_configured(house: House) -> None:
    """Another threshold draws another line."""
    patient = house.with_settings(failure_spike_threshold=0.9)
    await patient.promote()
    await record_calls(patient, answered=2, raised=8)
    assert ends(await patient.maintenance.run(TENANT)) == []
    strict = house.with_settings(failure_spike_threshold=0.5)
    assert ends(await strict.maintenance.run(TENANT)) == [("search_read", "retire", "failure_spike")]
    patient.close()
    strict.close()


@pytest.mark.req("RG-10")
async def test_drift_is_measured_and_flagged(house: House, probe: FakeProbe) -> None:
    """A chain that lost more than half of its support marks its tool; the figures are kept, and nothing is retired."""
    await house.promote()
    probe.found = Support(0.21, 0.7, 100)
    assert verbs(await house.maintenance.run(TENANT)) == []
    probe.found = Support(0.19, 0.6, 100)
    report = await house.maintenance.run(TENANT)
    assert verbs(report) == [("search_read", "flag", "drift")]
    (measures,) = [found.as_json() for found in report.measures]
    assert (measures["support"], measures["confidence"], measures["drift_ratio"]) == (0.19, 0.6, pytest.approx(0.475))
    flag = (await record_of(house)).flags["drift"]
    assert (flag["support"], flag["original_support"], flag["confidence"]) == (0.19, 0.4, 0.6)
    assert (await record_of(house)).is_in_service
    tools, tool_id, since = probe.asked[-1]
    assert (tools, tool_id) == (("search", "read"), "search_read")
    assert since < from_micros(house.clock.now - 29 * DAY)


@pytest.mark.req("RG-10")
async def test_a_flag_goes_when_its_reason_does(house: House, probe: FakeProbe) -> None:
    """A chain that comes back takes the mark away; one that cannot be measured leaves it."""
    await house.promote()
    probe.found = Support(0.1, 0.5, 100)
    await house.maintenance.run(TENANT)
    assert verbs(await house.maintenance.run(TENANT)) == []
    probe.found = Support(0.0, 0.0, 0)
    assert verbs(await house.maintenance.run(TENANT)) == []
    assert "drift" in (await record_of(house)).flags
    probe.found = Support(0.4, 0.8, 100)
    assert verbs(await house.maintenance.run(TENANT)) == [("search_read", "unflag", "drift")]
    assert (await record_of(house)).flags == {}


@pytest.mark.req("RG-10", "RG-15", "RG-08")
async def test_drift_retires_where_so_configured(house: House, probe: FakeProbe) -> None:
    """With automatic retirement on, and its own threshold, drift ends a tool."""
    strict = house.with_settings(auto_retire_on_drift=True, drift_threshold=0.9)
    await strict.promote()
    probe.found = Support(0.35, 0.8, 100)
    assert verbs(await strict.maintenance.run(TENANT)) == [("search_read", "retire", "drift")]
    assert (await record_of(strict)).retirement_reason is RetirementReason.DRIFT
    strict.close()


@pytest.mark.req("RG-10")
async def test_without_recent_sessions_nothing_drifts(house: House, probe: FakeProbe) -> None:
    """An empty record is no evidence of drift, and neither is a chain that was never stored here."""
    await house.promote()
    probe.found = Support(0.0, 0.0, 0)
    (measures,) = (await house.maintenance.run(TENANT)).measures
    assert measures.drift_ratio is None
    assert (await record_of(house)).flags == {}


async def test_a_composite_that_fails_more_than_its_parts_is_flagged(house: House) -> None:
    """Parts that work while the whole does not point at the wiring; parts that fail alike excuse it."""
    await house.promote()
    await record_calls(house, "search", answered=50)
    await record_calls(house, "read", answered=50)
    await record_calls(house, answered=30, raised=10, inner=3)
    assert verbs(await house.maintenance.run(TENANT)) == [("search_read", "flag", "fails_more_than_its_parts")]
    await record_calls(house, "search", raised=40)
    assert verbs(await house.maintenance.run(TENANT)) == [("search_read", "unflag", "fails_more_than_its_parts")]


async def test_parts_are_judged_by_direct_calls(house: House) -> None:
    """Where agents never call the parts themselves, nothing can be said, and nothing is."""
    await house.promote()
    await record_calls(house, answered=30, raised=10, inner=3)
    assert verbs(await house.maintenance.run(TENANT)) == []


async def test_a_tool_that_saves_no_turns_is_flagged_not_retired(house: House) -> None:
    """If agents make the same calls again after each use, it saved nothing; if they do not, it did."""
    await house.promote()
    await record_calls(house, answered=4, inner=2, again=2)
    assert verbs(await house.maintenance.run(TENANT)) == []
    await record_calls(house, answered=1, inner=2, again=2)
    report = await house.maintenance.run(TENANT)
    assert verbs(report) == [("search_read", "flag", "saves_no_turns")]
    assert report.actions[0].figures == {"uses": 5, "turns_saved": -5}
    await record_calls(house, answered=10, inner=2)
    report = await house.maintenance.run(TENANT)
    assert verbs(report) == [("search_read", "unflag", "saves_no_turns")]
    assert report.measures[0].turns.turns == 5


@pytest.mark.req("RG-13")
async def test_a_rehearsal_changes_nothing(house: House, probe: FakeProbe) -> None:
    """Asked what it would do, maintenance says exactly what it then does, and until then does nothing."""
    await house.promote()
    await house.promote("failing", steps=("read", "summarize"))
    await record_calls(house, "failing", raised=3)
    probe.found = Support(0.1, 0.5, 50)
    before = [record.as_json() for record in await house.registry.tools(TENANT)]
    told = len(house.told)
    rehearsed = await house.maintenance.run(TENANT, dry_run=True)
    assert [record.as_json() for record in await house.registry.tools(TENANT)] == before
    assert len(house.told) == told
    done = await house.maintenance.run(TENANT)
    assert verbs(rehearsed) == verbs(done)
    assert [action.figures for action in rehearsed.actions] == [action.figures for action in done.actions]
    assert (rehearsed.rehearsed, done.rehearsed) == (True, False)


@pytest.mark.req("RG-13", "RG-15")
@pytest.mark.parametrize(("schedule", "days"), [("daily", 1), ("weekly", 7), ("monthly", 30)])
async def test_maintenance_is_due_by_its_schedule(house: House, schedule: str, days: int) -> None:
    """It runs when it never ran and when the period is over, by whatever schedule is configured."""
    planned = house.with_settings(maintenance_schedule=schedule, auto_retire_after_days=10_000)
    assert await planned.maintenance.run_if_due(TENANT) is not None
    assert await planned.maintenance.run_if_due(TENANT) is None
    planned.clock.now += (days - 1) * DAY
    assert await planned.maintenance.run_if_due(TENANT) is None
    planned.clock.now += DAY
    assert await planned.maintenance.run_if_due(TENANT) is not None
    planned.close()


@pytest.mark.req("RG-13", "RG-15")
async def test_a_schedule_can_be_off(house: House) -> None:
    """Without a schedule maintenance runs only by hand; a rehearsal does not count as a run."""
    off = house.with_settings(maintenance_schedule="off")
    assert await off.maintenance.run_if_due(TENANT) is None
    await house.maintenance.run(TENANT, dry_run=True)
    assert await house.maintenance.run_if_due(TENANT) is not None
    off.close()


async def test_a_tool_that_was_retired_meanwhile_is_left_alone(house: House, probe: FakeProbe) -> None:
    """If somebody ends a tool while maintenance looks at it, that is not done twice."""
    await house.promote()
    await record_calls(house, raised=3)

    class Meddler(FakeProbe):
        async def measure(self, tenant_id: str, chain: dict[str, Any], *, tool_id: str, since: datetime) -> Support:
            await house.registry.retire(tenant_id, tool_id, RetirementReason.MANUAL, by="ann")
            return await super().measure(tenant_id, chain, tool_id=tool_id, since=since)

    meddled = replace(house, probe=Meddler(), told=[])
    assert verbs(await meddled.maintenance.run(TENANT)) == []
    assert (await record_of(house)).retirement_reason is RetirementReason.MANUAL
    meddled.close()


async def test_only_tools_in_service_are_looked_at(house: House) -> None:
    """Drafts, tools in testing, quarantined and retired ones are not measured."""
    await house.register()
    chain_id = await add_chain(house.database)
    other = make_definition("other", steps=("read", "summarize"), chain_id=chain_id)
    await house.registry.register(TENANT, other, make_verdict())
    await house.registry.promote(TENANT, "other", by="ann")
    report = await house.maintenance.run(TENANT, dry_run=True)
    assert [found.record.tool_id for found in report.measures] == ["other"]
    assert report.as_json()["dry_run"] is True
