"""Two machines on one database, each with a folder of its own: one order of versions, one in service, equal files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.homes import make_home
from tests.postgres import PostgresLogin
from tests.registry_kit import TENANT, add_chain, make_definition, make_verdict, read, search
from twinraven.app import TwinRaven, open_home
from twinraven.foundation.errors import TwinRavenError
from twinraven.registry import RetirementReason
from twinraven.registry.locks import ToolLocks
from twinraven.registry.tool_folders import ToolFolders

TOOL = "search_read"


@pytest.fixture(params=[{}], ids=["default"])
def machines(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_login: PostgresLogin
) -> Generator[tuple[TwinRaven, TwinRaven]]:
    homes = [make_home(tmp_path / name, postgres=postgres_login, registry=request.param) for name in ("one", "two")]
    with open_home(homes[0], functions=[search, read]) as one, open_home(homes[1], functions=[search, read]) as two:
        yield one, two


async def register(raven: TwinRaven, words: str) -> int:
    """A new version, tested; gives its number."""
    chain = await add_chain(raven.database, "search", "read")
    made = make_definition(TOOL, chain_id=chain, description=words)
    draft = (await raven.registry.draft(TENANT, made, evidence_hash=str(uuid4()))).definition
    await raven.registry.register(TENANT, draft, make_verdict())
    return draft.version


async def promote(raven: TwinRaven, version: int) -> str:
    try:
        await raven.registry.promote(TENANT, TOOL, version=version, by="ann")
    except TwinRavenError as error:
        return error.code
    return "done"


async def check(raven: TwinRaven) -> None:
    """The files of this machine say what the rows say."""
    await raven.registry.recover(TENANT)
    assert await raven.verification.verify(TENANT) == []
    tool = await raven.registry.tool(TENANT, TOOL)
    folder = raven.home / raven.settings.registry.storage_dir / TOOL
    files = {path.name: path.read_text() for path in folder.iterdir()}
    metadata = json.loads(files.pop("metadata.json"))
    assert files == {f"v{each.version}.json": each.text for each in tool.versions}
    assert metadata["current_version"] == tool.record.current_version
    assert [each["status"] for each in metadata["versions"]] == [each.status for each in tool.versions]


@pytest.mark.req("RG-16", "RG-14")
async def test_two_machines_race_for_every_version(machines: tuple[TwinRaven, TwinRaven]) -> None:
    """Numbers have no gap, each version is promoted once, the last one serves, and both folders hold the same."""
    numbers = await asyncio.gather(*(register(machines[number % 2], f"Version {number}.") for number in range(6)))
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
    for version in range(1, 7):
        outcomes = await asyncio.gather(*(promote(each, version) for each in (*machines, *machines)))
        assert sorted(outcomes) == ["ILLEGAL_TRANSITION"] * 3 + ["done"]
    for raven in machines:
        tool = await raven.registry.tool(TENANT, TOOL)
        assert [each.version for each in tool.versions if each.is_in_service] == [6] == [tool.record.current_version]
        await raven.learned.refresh(TENANT)
        assert raven.learned.definition(TENANT, TOOL).version == 6
        await check(raven)
    ends = (raven.registry.retire(TENANT, TOOL, RetirementReason.MANUAL, by="ann") for raven in machines)
    ended = await asyncio.gather(*ends, return_exceptions=True)
    assert sum(isinstance(each, TwinRavenError) for each in ended) == 1


@pytest.mark.req("RG-16")
@pytest.mark.parametrize("machines", [{"require_approval": False}], indirect=True, ids=["at_once"])
async def test_what_one_machine_puts_in_service_the_other_serves(machines: tuple[TwinRaven, TwinRaven]) -> None:
    """A version that is registered and promoted in one act is offered by both machines, each time one does so."""
    one, two = machines
    for number, raven in enumerate((one, two, one), start=1):
        assert await register(raven, f"Version {number}.") == number
        for each in machines:
            await each.learned.refresh(TENANT)
            assert each.learned.definition(TENANT, TOOL).version == number
        await check(raven)


@pytest.mark.req("RG-16")
async def test_readers_take_no_lock(machines: tuple[TwinRaven, TwinRaven], postgres_login: PostgresLogin) -> None:
    """Whoever holds the tool's files and its row keeps nobody from reading it."""
    one, two = machines
    await register(one, "Version 1.")
    await promote(one, 1)
    locks = ToolLocks(ToolFolders(one.home / one.settings.registry.storage_dir))
    (lock,) = await locks.acquire(TENANT, [TOOL])
    with psycopg.connect(postgres_login.admin_url) as holder:
        holder.execute("SELECT * FROM tool_records FOR UPDATE")
        async with asyncio.timeout(20):
            for raven in (one, two):
                assert (await raven.registry.tool(TENANT, TOOL)).record.current_version == 1
                await raven.learned.refresh(TENANT)
                assert raven.catalog.find(TENANT, TOOL).tool_id == TOOL
    lock.finish()
