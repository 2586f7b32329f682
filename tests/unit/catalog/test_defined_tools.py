"""Data-defined tools as the catalogue shows them: from memory, and up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster

import twinraven.catalog
from tests.unit.catalog.town import Town, inputs
from twinraven.catalog import Catalog, DefinedTools, Effect, Sensitivity, ServiceChange, ToolChange
from twinraven.foundation.errors import NotFound
from twinraven.storage import Database


@pytest.fixture
async def town(sqlite_database: Database, tmp_path: Path) -> Town:
    return await Town(sqlite_database, tmp_path / "keys").settle()


async def test_an_entry_says_what_the_definition_says(town: Town) -> None:
    """Key, description, schemas, effect and the connector of the service's type."""
    await town.equip(
        await town.serve(),
        description="One order.",
        outputSchema={"type": "object"},
        sensitivity="high",
        timeoutMs=100,
        shared=True,
    )
    entry = Catalog(town.catalog.source).find("default", "get_order")
    assert (entry.tool_id, entry.description, entry.connector) == ("get_order", "One order.", "rest")
    assert (entry.effect, entry.effect_origin) == (Effect.READ, "inferred")
    assert (entry.sensitivity, entry.timeout_ms, entry.private_to) == (Sensitivity.HIGH, 100, None)
    assert entry.input_schema == {**inputs("orderId"), "additionalProperties": False}
    assert entry.output_schema == {"type": "object"}


_KINDS: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, str]]] = {
    "graph": (
        {"type": "neo4j_graph", "protocol": "bolt"},
        {"type": "graph_query", "query": "RETURN $x AS x"},
        {"endpoint": "bolt://graph.example"},
    ),
    "rest": (
        {"type": "rest_api", "protocol": "http"},
        {"type": "rest_call", "method": "GET", "path": "/{{x}}"},
        {"endpoint": "http://shop.example"},
    ),
    "llm": (
        {"type": "llm_provider", "protocol": "http"},
        {"type": "llm_call", "promptTemplate": "{{x}}"},
        {"endpoint": "http://model.example", "model": "small"},
    ),
    "mcp_service": (
        {"type": "mcp_server", "protocol": "stdio"},
        {"type": "mcp_call", "tool": "t", "arguments": {"x": "{{x}}"}},
        {"command": "server"},
    ),
}


@pytest.mark.parametrize("connector", list(_KINDS))
async def test_each_type_of_service_has_its_connector(town: Town, connector: str) -> None:
    """Tools on it are called through that."""
    kind, operation, params = _KINDS[connector]
    service = await town.serve(None, **kind, connectionSchema={"type": "object"})
    await town.equip(service, operation=operation, inputSchema=inputs("x"), connectionParams=params)
    entry = Catalog(town.catalog.source).find("default", "get_order")
    assert entry.connector == connector


async def test_undeclared_means_dangerous(town: Town) -> None:
    """What an operation does not show and nobody declares counts as a write; what is declared is believed."""
    service = await town.serve(type="mcp_server", protocol="stdio", connectionSchema={"type": "object"})
    call = {"type": "mcp_call", "tool": "get_thing"}
    await town.equip(service, operation=call, inputSchema={"type": "object"}, connectionParams={"command": "c"})
    entry = Catalog(town.catalog.source).find("default", "get_order")
    assert (entry.effect, entry.effect_origin, entry.writes) == (Effect.UNKNOWN, "none", True)
    await town.catalog.tools.update(town.ada, "get_order", ToolChange(effect=Effect.READ))
    entry = Catalog(town.catalog.source).find("default", "get_order")
    assert (entry.effect, entry.effect_origin, entry.writes) == (Effect.READ, "declared", False)


async def test_an_entry_that_says_the_same_stays_the_same(town: Town) -> None:
    """What others compiled for it stays valid when something else changes."""
    service = await town.serve()
    await town.equip(service)
    before = town.catalog.source.find("default", "get_order")
    await town.equip(service, key="other")
    await town.catalog.tools.update(town.ada, "get_order", ToolChange(name="Label"))
    assert town.catalog.source.find("default", "get_order") is before
    await town.catalog.tools.update(town.ada, "get_order", ToolChange(description="Other words."))
    assert town.catalog.source.find("default", "get_order") is not before


async def test_another_process_sees_a_change_when_it_looks(town: Town, sqlite_database: Database) -> None:
    """A source of its own knows what it knew until it is told to look, and then all that is committed."""
    elsewhere = DefinedTools(sqlite_database)
    assert elsewhere.entries("default") == []
    await town.equip(await town.serve())
    assert elsewhere.find("default", "get_order") is None
    elsewhere.reload("default")
    assert elsewhere.find("default", "get_order") is not None
    await town.catalog.services.update(town.ada, "shop", ServiceChange(enabled=False))
    await elsewhere.refresh("default")
    assert elsewhere.entries("default") == []
    assert elsewhere.find("default", "get_order") is not None
    await town.catalog.tools.delete(town.ada, "get_order")
    await elsewhere.refresh("default")
    assert elsewhere.find("default", "get_order") is None


async def test_looking_up_what_is_known_blocks_no_loop(town: Town, loop_guard: BlockBuster) -> None:
    """Once loaded, entries come from memory, and loading in a loop happens elsewhere."""
    await town.equip(await town.serve())
    await town.catalog.source.refresh("default")
    assert town.catalog.source.find("default", "get_order") is not None
    assert town.catalog.source.entries("default")
    assert loop_guard is not None


async def test_a_tenant_sees_its_own_tools_alone(town: Town) -> None:
    """A shared tool is shared with its tenant."""
    await town.equip(await town.serve(shared=True), shared=True)
    assert town.catalog.source.entries(town.eve.tenant_id) == []
    with pytest.raises(NotFound):
        Catalog(town.catalog.source).find(town.eve.tenant_id, "get_order")


def test_every_public_name_is_there() -> None:
    """Each name that the package promises can be imported, and no other."""
    assert all(getattr(twinraven.catalog, name) is not None for name in twinraven.catalog.__all__)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        twinraven.catalog.nothing_of_the_kind  # pyright: ignore[reportAttributeAccessIssue] # noqa: B018
