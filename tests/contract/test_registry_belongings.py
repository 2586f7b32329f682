"""The registry on both stores: what belongs to one tenant's tool, and to no other's of the same name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.registry_kit import TENANT, House, add_chain, make_definition, make_verdict
from twinraven.foundation.errors import InvalidDefinition
from twinraven.storage import Database

pytestmark = pytest.mark.tenants("acme", "other")


@pytest.fixture
def house(database: Database, tmp_path: Path) -> Generator[House]:
    house = House(database, tmp_path / "tools" / "generated")
    yield house
    house.close()


@pytest.mark.req("TR-22")
async def test_the_beginning_of_a_chains_id_is_no_chain(house: House) -> None:
    """A definition names the chain that it was learned from whole; an id that a stored one begins with is refused."""
    stored = await add_chain(house.database)
    for part in (stored[:8], stored[:-1], stored.upper().replace("-", "")):
        with pytest.raises(InvalidDefinition, match="source_chain_id"):
            await house.registry.draft(TENANT, make_definition(chain_id=part), evidence_hash="e")
        with pytest.raises(InvalidDefinition, match="source_chain_id"):
            await house.registry.register(TENANT, make_definition(chain_id=part), make_verdict())
    assert await house.registry.drafts(TENANT) == []


@pytest.mark.req("TR-21")
async def test_numbers_of_another_tenants_tool_leave_no_gap(house: House) -> None:
    """Each tenant counts its own versions, also of a tool that has the same name in both."""
    for _ in range(3):
        await house.draft(tenant_id="other")
    assert [(await house.draft()).version for _ in range(2)] == [1, 2]
    assert (await house.draft(tenant_id="other")).version == 4


@pytest.mark.req("RG-03", "RG-04")
async def test_a_record_names_the_file_of_its_current_version(house: House) -> None:
    """Promotion and rollback move the version and the file of the record together, in the row and in the metadata."""
    await house.promote()
    await house.promote(description="Searches, reads, better.")

    async def named() -> list[tuple[int, str]]:
        record = (await house.registry.tool(TENANT, "search_read")).record
        metadata = json.loads((house.folder / "search_read" / "metadata.json").read_text())
        both = (record.as_json(), metadata)
        return [(each["current_version"], each["definition_path"]) for each in both]

    assert await named() == [(2, "search_read/v2.json")] * 2
    await house.registry.rollback(TENANT, "search_read", to_version=1, by="ann")
    assert await named() == [(1, "search_read/v1.json")] * 2


@pytest.mark.req("RG-09")
async def test_uses_of_another_tenants_tool_do_not_count(house: House) -> None:
    """Calls of a tool that has the same name in another tenant count there alone, before and after they are added."""
    await house.promote()
    await house.promote(tenant_id="acme")
    for _ in range(2):
        await house.call("search_read", {"q": "x"}, tenant_id="acme")
    await asyncio.to_thread(house.collector.flush)
    for _ in range(2):
        for tenant, uses in ((TENANT, 0), ("acme", 2)):
            assert (await house.registry.tool(tenant, "search_read")).record.invocation_count == uses
            await house.registry.fold_usage(tenant)
