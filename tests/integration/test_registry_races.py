"""Eight processes on one registry: one winner each, no gap, no lost use, and agreement in the end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresLogin
from tests.registry_kit import TENANT, House, RealClock
from tests.workers import ForkedProcess
from twinraven.registry import RetirementReason
from twinraven.storage import Database, open_database

RACERS = 8


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A migrated database that several processes can open."""
    if request.param == "postgres":
        login: PostgresLogin = request.getfixturevalue("postgres_login")
        return login.url
    address: str = request.getfixturevalue("sqlite_url")
    database = open_database(address)
    database.migrate()
    database.close()
    return address


class Race:
    """The start line for processes that share a database, and the registry they meet at."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.database: Database = open_database(url)
        self.house = House(self.database, folder, clock=RealClock())

    def line_up(self, role: str, times: int, *, count: int = RACERS) -> list[ForkedProcess]:
        arguments = (self.url, str(self.folder), role, str(times))
        return [ForkedProcess("tests.registry_racer", *arguments) for _ in range(count)]

    async def run(self, *racers: ForkedProcess) -> list[Any]:
        """Start all at once and gather their answers."""
        answers = await asyncio.gather(*(asyncio.to_thread(racer.communicate, "go\n") for racer in racers))
        assert [racer.returncode for racer in racers] == [0] * len(racers), answers
        return [json.loads(answer) for answer, _ in answers]

    async def agrees(self) -> bool:
        await self.house.registry.recover(TENANT)
        return await self.house.verification.verify(TENANT) == []

    def close(self) -> None:
        self.house.close()
        self.database.close()


@pytest.mark.req("TR-21")
async def test_versions_have_no_gaps_between_processes(url: str, tmp_path: Path, *, full_scale: bool) -> None:
    """Numbers given to eight synthesisers of one chain are all there and all different."""
    race = Race(url, tmp_path / "tools")
    times = 50 if full_scale else 5
    answers = await race.run(*race.line_up("synthesize", times))
    assert sorted(number for answer in answers for number in answer) == list(range(1, RACERS * times + 1))
    race.close()


@pytest.mark.req("RG-14", "RG-03")
async def test_each_version_is_promoted_by_one_process(url: str, tmp_path: Path, *, full_scale: bool) -> None:
    """Of eight who promote the same versions one after another, each version has one winner, and the last serves."""
    race = Race(url, tmp_path / "tools")
    times = 20 if full_scale else 4
    for number in range(times):
        await race.house.register(description=f"Version {number}.")
    answers = await race.run(*race.line_up("promote", times))
    winners = [[answer[number] for answer in answers].count("done") for number in range(times)]
    assert max(winners) == 1
    tool = await race.house.registry.tool(TENANT, "search_read")
    promoted = [each.version for each in tool.versions if each.promoted_at is not None]
    assert [number + 1 for number, count in enumerate(winners) if count] == promoted
    assert [each.version for each in tool.versions if each.is_in_service] == [tool.record.current_version] == [times]
    assert await race.agrees()
    race.close()


@pytest.mark.req("RG-14", "RG-08")
async def test_a_tool_is_retired_by_one_process(url: str, tmp_path: Path) -> None:
    """Of eight who retire a tool, one does; those who promote meanwhile come before it or not at all."""
    race = Race(url, tmp_path / "tools")
    await race.house.promote()
    for number in range(3):
        await race.house.register(description=f"Version {number}.")
    answers = await race.run(*race.line_up("retire", 1), *race.line_up("promote", 4, count=3))
    assert answers[:RACERS].count(["done"]) == 1
    assert {code for answer in answers[:RACERS] for code in answer} == {"done", "ILLEGAL_TRANSITION"}
    tool = await race.house.registry.tool(TENANT, "search_read")
    assert tool.record.retirement_reason is RetirementReason.MANUAL
    assert not any(each.is_in_service for each in tool.versions)
    assert await race.agrees()
    race.close()


@pytest.mark.req("RG-09")
async def test_no_use_is_lost_between_processes(url: str, tmp_path: Path, *, full_scale: bool) -> None:
    """Calls made by eight processes, while versions come and counts are added up, are all counted once."""
    race = Race(url, tmp_path / "tools")
    await race.house.promote()
    times = 12_500 if full_scale else 100
    running = asyncio.create_task(race.run(*race.line_up("use", times)))
    seen = [0]
    while not running.done():
        await race.house.registry.fold_usage(TENANT)
        record = (await race.house.registry.tool(TENANT, "search_read")).record
        seen.append(record.invocation_count)
        if len(seen) % 5 == 0:
            await race.house.promote(description=f"Version {len(seen)}.")
        await asyncio.sleep(0.1)
    assert await running == [times] * RACERS
    record = (await race.house.registry.tool(TENANT, "search_read")).record
    assert record.invocation_count == RACERS * times
    assert seen == sorted(seen)
    assert await race.agrees()
    race.close()


@pytest.mark.req("RG-09")
async def test_a_process_that_is_killed_takes_no_use_with_it(url: str, tmp_path: Path) -> None:
    """Every call that was answered before a process died is counted afterwards, and nothing that was not recorded."""
    race = Race(url, tmp_path / "tools")
    await race.house.promote()
    (racer,) = race.line_up("use_until_killed", 100_000, count=1)
    racer.stdin.write("go\n")
    racer.stdin.flush()
    answered = 0
    while answered < 40:
        answered = int(await asyncio.to_thread(racer.stdout.readline))
    racer.kill()
    rest, _ = await asyncio.to_thread(racer.communicate)
    answered = int((rest.split() or [str(answered)])[-1])
    record = (await race.house.registry.tool(TENANT, "search_read")).record
    recorded = await race.database.read(
        TENANT,
        lambda tx: tx.fetch_one(
            "SELECT count(*) AS n FROM muninn_event_log WHERE tenant_id = :t AND tool_id = 'search_read'", t=TENANT
        ),
    )
    assert recorded is not None
    assert answered <= record.invocation_count == recorded["n"]
    race.close()
