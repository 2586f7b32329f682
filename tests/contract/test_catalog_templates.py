"""Templates on both stores: fixed structure, whole copies, provenance, archiving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.catalog.town import CONNECTION, Town, inputs
from twinraven.catalog import (
    ServiceChange,
    Template,
    TemplateChange,
    TemplateKind,
    TemplateSpec,
    ToolChange,
    ToolPlacement,
)
from twinraven.foundation.errors import AppendOnly, Conflict, InvalidDefinition, InvalidInput, NotFound, StaleState
from twinraven.storage import Database

_TOOL: dict[str, Any] = {
    "name": "order reader",
    "description": "Reads one order.",
    "operation": {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"},
    "inputSchema": inputs("orderId"),
    "outputSchema": {"type": "object"},
    "effect": "read",
    "sensitivity": "medium",
    "timeoutMs": 900,
}
_PLACE = ToolPlacement("get_order", "shop", connection_params={"endpoint": "https://shop.example"})


@pytest.fixture
async def town(database: Database, tmp_path: Path) -> Town:
    return await Town(database, tmp_path / "keys").settle()


async def draw_tool(town: Town, **fields: Any) -> Template:
    return await town.catalog.templates.create(town.ada, TemplateSpec.from_json("tool", {**_TOOL, **fields}))


async def names(town: Town, kind: TemplateKind, *, include_archived: bool = False) -> list[str]:
    found = await town.catalog.templates.templates(town.ada, kind, include_archived=include_archived)
    return [template.name for template in found]


@pytest.mark.req("AD-08")
async def test_a_service_is_a_whole_copy_of_its_template(town: Town) -> None:
    """Type, protocol, schema and the need of a secret are copied, and the template's id stays as provenance."""
    template = await town.draw(name="web shop", description="Any web shop.", requiresSecret=True)
    assert (await town.catalog.templates.template(town.ada, "service", template.template_id)) == template
    service = await town.catalog.templates.make_service(town.ada, template.template_id, "shop", shared=True)
    assert service.structure == template.structure
    assert service.structure.connection_schema == CONNECTION
    assert (service.service_template_id, service.name, service.shared) == (template.template_id, "shop", True)
    assert (await town.catalog.services.service(town.ada, "shop")) == service


@pytest.mark.req("AD-08")
async def test_a_tool_is_a_whole_copy_of_its_template(town: Town) -> None:
    """Operation, schemas, effect, sensitivity and time-out are copied; where it runs is stated for each copy."""
    template = await draw_tool(town)
    await town.serve()
    tool = await town.catalog.templates.make_tool(town.ada, "order reader", _PLACE)
    assert tool.structure == template.structure
    assert (tool.tool_template_id, tool.description) == (template.template_id, "Reads one order.")
    assert tool.connection_params == {"endpoint": "https://shop.example", "timeout": 30}
    assert await town.catalog.tools.tool(town.ada, "get_order") == tool


@pytest.mark.req("AD-08")
@pytest.mark.parametrize(
    "field", ["type", "protocol", "connectionSchema", "requiresSecret", "operation", "inputSchema"]
)
async def test_a_templates_structure_cannot_be_asked_to_change(town: Town, field: str) -> None:
    """A change that names a part of the structure is refused by that name."""
    with pytest.raises(InvalidDefinition, match="never changes"):
        TemplateChange.from_json({field: {}})


@pytest.mark.req("AD-08")
async def test_the_database_keeps_templates_as_they_were_made(town: Town, database: Database) -> None:
    """Neither their structure nor their owner can be changed, and they cannot be deleted."""
    await town.draw(name="web shop")
    for statement in (
        "UPDATE catalog_templates SET structure = '{}'",
        "UPDATE catalog_templates SET owner_id = 'x'",
        "UPDATE catalog_templates SET kind = 'tool'",
        "DELETE FROM catalog_templates",
    ):
        with pytest.raises(AppendOnly):
            await database.write("default", lambda tx, text=statement: tx.execute(text))


@pytest.mark.req("AD-08")
async def test_name_description_and_sharing_may_change(town: Town) -> None:
    """And nothing else of the template does with them."""
    template = await town.draw(name="web shop", description="Any web shop.")
    change = TemplateChange.from_json({"name": "store", "description": None, "shared": True})
    changed = await town.catalog.templates.update(town.ada, "service", template.template_id, change, expected_version=1)
    assert (changed.name, changed.description, changed.shared, changed.state_version) == ("store", None, True, 2)
    assert (changed.structure, changed.template_id) == (template.structure, template.template_id)
    with pytest.raises(StaleState):
        await town.catalog.templates.update(
            town.ada, "service", template.template_id, TemplateChange(name="late"), expected_version=1
        )


@pytest.mark.req("AD-08")
async def test_archiving_hides_a_template_from_lists_alone(town: Town) -> None:
    """It is left out of lists unless they ask for archived ones, found by its id, and can be brought back."""
    template = await town.draw(name="web shop")
    await town.draw(name="other")
    update, archive = town.catalog.templates.update, TemplateChange(archived=True)
    await update(town.ada, "service", template.template_id, archive)
    assert await names(town, "service") == ["other"]
    assert await names(town, "service", include_archived=True) == ["other", "web shop"]
    found = await town.catalog.templates.template(town.ada, "service", template.template_id)
    assert (found.archived, found.structure) == (True, template.structure)
    with pytest.raises(Conflict, match="archived"):
        await town.catalog.templates.make_service(town.ada, template.template_id, "late")
    await update(town.ada, "service", template.template_id, TemplateChange(archived=False))
    assert await names(town, "service") == ["other", "web shop"]


@pytest.mark.req("AD-08")
async def test_instances_never_notice(town: Town) -> None:
    """Renaming and archiving templates leaves their copies byte for byte as they were, working and changeable."""
    blueprint, reader = await town.draw(name="web shop"), await draw_tool(town)
    service = await town.catalog.templates.make_service(town.ada, "web shop", "shop")
    tool = await town.catalog.templates.make_tool(town.ada, "order reader", _PLACE)
    gone = TemplateChange(name="gone", archived=True)
    await town.catalog.templates.update(town.ada, "service", blueprint.template_id, gone)
    await town.catalog.templates.update(town.ada, "tool", reader.template_id, gone)
    assert await town.catalog.services.service(town.ada, "shop") == service
    assert await town.catalog.tools.tool(town.ada, "get_order") == tool
    assert (await town.catalog.bindings.binding("default", "get_order")).tool == tool
    changed = await town.catalog.tools.update(town.ada, "get_order", ToolChange(timeout_ms=1))
    assert (changed.structure.timeout_ms, changed.tool_template_id) == (1, reader.template_id)
    schema = {"type": "object"}
    await town.catalog.services.update(town.ada, "shop", ServiceChange(connection_schema=schema))
    kept = await town.catalog.templates.template(town.ada, "service", blueprint.template_id)
    assert kept.structure == blueprint.structure


@pytest.mark.req("AD-08", "AD-06")
async def test_a_shared_template_serves_others(town: Town) -> None:
    """What Bob makes of Ada's template is Bob's, and stays his when she archives it or no longer shares it."""
    template = await town.draw(name="web shop", shared=True)
    service = await town.catalog.templates.make_service(town.bob, template.template_id, "bobs shop")
    assert (service.owner_id, service.service_template_id) == (town.bob.user_id, template.template_id)
    await town.catalog.templates.update(town.ada, "service", template.template_id, TemplateChange(shared=False))
    assert await town.catalog.services.service(town.bob, "bobs shop") == service
    update = town.catalog.templates.update
    archived = await update(town.ada, "service", template.template_id, TemplateChange(shared=True, archived=True))
    assert await town.catalog.templates.templates(town.bob, "service") == []
    assert await town.catalog.templates.templates(town.bob, "service", include_archived=True) == [archived]
    await update(town.ada, "service", template.template_id, TemplateChange(shared=False, archived=False))
    with pytest.raises(NotFound):
        await town.catalog.templates.make_service(town.bob, template.template_id, "another")


@pytest.mark.req("AD-08")
async def test_a_template_that_does_not_hold_together_is_refused(town: Town) -> None:
    """What a service or a tool could not be, its template cannot be either."""
    with pytest.raises(InvalidInput, match="a rest_api speaks http or https"):
        await town.draw(name="odd", protocol="bolt")
    with pytest.raises(InvalidInput, match="which input_schema does not declare"):
        await draw_tool(town, inputSchema=inputs())
    await town.draw(name="web shop")
    with pytest.raises(Conflict, match="named 'web shop' already"):
        await town.draw(name="web shop")


@pytest.mark.req("AD-08")
async def test_a_tools_template_must_fit_the_service(town: Town) -> None:
    """An operation for another type of service is refused when the copy is placed."""
    await draw_tool(town)
    await town.serve(type="mcp_server", protocol="stdio")
    with pytest.raises(InvalidDefinition, match="a mcp_server takes mcp_call, not rest_call"):
        await town.catalog.templates.make_tool(town.ada, "order reader", _PLACE)
