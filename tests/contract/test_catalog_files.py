"""Catalogues in files, on both stores: applied whole or not at all, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fences import rows_of
from tests.unit.catalog.town import CONNECTION, Town, inputs
from twinraven.catalog import AppliedCatalog, CatalogFile, ServiceChange, TemplateChange, read_file
from twinraven.foundation.errors import Conflict, InvalidDefinition, NotFound, TwinRavenError
from twinraven.storage import Database
from twinraven.tenancy import Principal

_TABLES = ("catalog_services", "catalog_tools", "catalog_templates", "catalog_version", "audit_log")

_FILE = """
serviceTemplates:
  - name: web shop
    type: rest_api
    protocol: https
    requiresSecret: true
    connectionSchema: &connection
      type: object
      required: [endpoint]
      properties: {endpoint: {type: string, format: uri}, timeout: {type: integer, default: 30}}
toolTemplates:
  - name: order reader
    operation: {type: rest_call, method: GET, path: "/orders/{{orderId}}"}
    inputSchema: {type: object, required: [orderId], properties: {orderId: {type: string}}}
    effect: read
services:
  - name: shop
    template: web shop
    shared: true
  - name: model
    type: llm_provider
    protocol: http
    connectionSchema: *connection
tools:
  - key: get_order
    template: order reader
    service: shop
    secret: shop-key
    connectionParams: {endpoint: https://shop.example}
  - key: summarize
    service: model
    connectionParams: {endpoint: http://127.0.0.1:8080, model: small}
    operation: {type: llm_call, systemPrompt: Be brief., promptTemplate: "Summarize:\\n{{text}}"}
    inputSchema: {type: object, required: [text], properties: {text: {type: string}}}
"""


@pytest.fixture
async def town(database: Database, tmp_path: Path) -> Town:
    town = await Town(database, tmp_path / "keys").settle()
    await town.house.keep("shop-key")
    return town


async def put(town: Town, text: str, who: Principal | None = None, *, is_trial: bool = False) -> list[AppliedCatalog]:
    return await town.catalog.files.apply_file(who or town.ada, read_file(text), is_trial=is_trial)


def edited(**changes: tuple[str, str]) -> str:
    text = _FILE
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    return text


async def test_a_file_is_applied_and_once(town: Town, database: Database) -> None:
    """All it defines is made; applied again it changes nothing at all, not even what is audited."""
    first = await put(town, _FILE)
    assert [(one.kind, one.name, one.action) for one in first] == [
        ("service_template", "web shop", "created"),
        ("tool_template", "order reader", "created"),
        ("service", "shop", "created"),
        ("service", "model", "created"),
        ("tool", "get_order", "created"),
        ("tool", "summarize", "created"),
    ]
    bound = await town.catalog.bindings.binding("default", "get_order", caller="local")
    assert bound.params == {"endpoint": "https://shop.example", "timeout": 30}
    assert bound.service.service_template_id is not None
    before = await rows_of(database, "default", _TABLES)
    assert {one.action for one in await put(town, _FILE)} == {"unchanged"}
    assert await rows_of(database, "default", _TABLES) == before


async def test_a_trial_says_the_same_and_changes_nothing(town: Town, database: Database) -> None:
    """What a trial answers is what applying then does."""
    before = await rows_of(database, "default", _TABLES)
    tried = await put(town, _FILE, is_trial=True)
    assert await rows_of(database, "default", _TABLES) == before
    assert await put(town, _FILE) == tried
    change = edited(a=("shared: true", "shared: false"), b=("Be brief.", "Be very brief."))
    tried = await put(town, change, is_trial=True)
    assert [(one.name, one.fields) for one in tried if one.action == "updated"] == [
        ("shop", ("shared",)),
        ("summarize", ("operation",)),
    ]
    assert (await town.catalog.services.service(town.ada, "shop")).shared
    assert await put(town, change) == tried
    assert not (await town.catalog.services.service(town.ada, "shop")).shared


async def test_what_a_file_does_not_state_stays(town: Town) -> None:
    """A service that somebody switched off is not switched on by a file that does not mention it."""
    await put(town, _FILE)
    await town.catalog.services.update(town.ada, "model", ServiceChange(enabled=False))
    assert {one.action for one in await put(town, _FILE)} == {"unchanged"}
    assert not (await town.catalog.services.service(town.ada, "model")).enabled


async def test_an_archived_template_does_not_trouble_what_was_made_from_it(town: Town) -> None:
    """The file still applies where its instances exist, and is refused where they would have to be made."""
    await put(town, _FILE)
    template = (await town.catalog.templates.templates(town.ada, "service"))[0]
    await town.catalog.templates.update(town.ada, "service", template.template_id, TemplateChange(archived=True))
    assert {one.action for one in await put(town, _FILE)} == {"unchanged"}
    with pytest.raises(Conflict, match="archived"):
        await put(town, "services: [{name: late, template: web shop}]")


_FAULTS: dict[str, tuple[tuple[str, str], type[TwinRavenError], str]] = {
    "a missing secret": (("secret: shop-key", "name: x"), InvalidDefinition, "tools[0] (get_order): secret is missing"),
    "an unknown secret": (("secret: shop-key", "secret: none"), NotFound, "tools[0] (get_order): no secret 'none'"),
    "an unknown service": (("service: model", "service: mode"), NotFound, "tools[1] (summarize): no service 'mode'"),
    "an unknown template": (("template: web shop", "template: x"), NotFound, "services[0] (shop): no service template"),
    "a misspelt field": (("effect: read", "efect: read"), InvalidDefinition, "efect is not a field of a tool template"),
    "a bad parameter": (
        ("http://127.0.0.1:8080", "https://127.0.0.1:8080"),
        InvalidDefinition,
        "tools[1] (summarize): connection_params.endpoint must begin with http://",
    ),
    "a variable": (("{{text}}", "{{txt}}"), InvalidDefinition, "tools[1] (summarize): the operation uses txt"),
}


@pytest.mark.req("AD-05")
@pytest.mark.parametrize("fault", _FAULTS)
async def test_a_fault_anywhere_leaves_everything_as_it_was(town: Town, database: Database, fault: str) -> None:
    """The error names the definition and what is wrong in it, in a trial as in earnest; nothing is half applied."""
    change, kind, told = _FAULTS[fault]
    before = await rows_of(database, "default", _TABLES)
    for is_trial in (True, False):
        with pytest.raises(kind) as refusal:
            await put(town, edited(a=change), is_trial=is_trial)
        assert told in refusal.value.message
        assert refusal.value.details["definition"]
    assert await rows_of(database, "default", _TABLES) == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("protocol: http\n", "protocol: https\n"), "protocol of a service never changes"),
        (("service: model", "service: shop"), "a tool's service never changes"),
        (("GET", "HEAD"), "a template's structure never changes, and operation would"),
        (("template: order reader\n    service: shop", "template: other\n    service: shop"), "was not made from"),
    ],
)
async def test_what_never_changes_is_not_changed_by_a_file(town: Town, change: tuple[str, str], told: str) -> None:
    """A file that states it otherwise is refused by name."""
    await put(town, _FILE)
    await put(town, "toolTemplates: [{name: other, operation: {type: mcp_call, tool: t}, inputSchema: {type: object}}]")
    with pytest.raises(Conflict, match=told):
        await put(town, edited(a=change))


async def test_what_is_exported_changes_nothing_where_it_came_from(town: Town, database: Database) -> None:
    """The export holds all the user owns and nobody else's, secrets by name alone, and applies as unchanged."""
    await put(town, _FILE)
    await town.serve(town.bob, name="bobs", shared=True)
    await town.equip("bobs", key="on_bobs")
    exported = await town.catalog.files.export_file(town.ada)
    text = exported.dump()
    assert read_file(text) == exported
    assert "shop-key" in text
    assert "correct-horse" not in text
    assert [body["name"] for body in exported.services] == ["model", "shop"]
    before = await rows_of(database, "default", _TABLES)
    assert {one.action for one in await put(town, text)} == {"unchanged"}
    assert await rows_of(database, "default", _TABLES) == before


async def test_an_export_builds_the_same_catalogue_elsewhere(town: Town) -> None:
    """Another tenant that has a secret of that name gets the same services and tools."""
    await put(town, _FILE)
    text = (await town.catalog.files.export_file(town.ada)).dump()
    await town.house.keep("shop-key", tenant=town.eve.tenant_id, owner=town.eve.user_id)
    assert {one.action for one in await put(town, text, town.eve)} == {"created"}
    assert (await town.catalog.files.export_file(town.eve)).dump() == text


async def test_a_file_touches_nothing_of_others(town: Town) -> None:
    """Bob's file makes Bob's things; a key that Ada took is refused."""
    await put(town, "services: [{name: shop, type: rest_api, protocol: https, connectionSchema: {type: object}}]")
    body: dict[str, Any] = {"name": "shop", "type": "rest_api", "protocol": "https", "connection_schema": CONNECTION}
    applied = await town.catalog.files.apply_file(town.bob, CatalogFile(services=(body,)))
    assert [one.action for one in applied] == ["created"]
    assert (await town.catalog.services.service(town.ada, "shop")).structure.connection_schema == {"type": "object"}
    await town.equip("shop", town.ada, shared=True, connectionParams={"endpoint": "https://x"})
    tool = {
        "key": "get_order",
        "service": "shop",
        "connection_params": {"endpoint": "https://x"},
        "operation": {"type": "rest_call", "method": "GET", "path": "/"},
        "input_schema": inputs(),
    }
    with pytest.raises(Conflict, match="keys are unique"):
        await town.catalog.files.apply_file(town.bob, CatalogFile(tools=(tool,)))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("- name: model\n", "- name: shop\n", r"services\[0\] and services\[1\] have the same name, 'shop'"),
        ("key: summarize", "key: get_order", r"tools\[0\] and tools\[1\] have the same key, 'get_order'"),
        (
            "toolTemplates:\n",
            "toolTemplates:\n  - {name: order reader, shared: true}\n",
            r"tool_templates\[0\] and tool_templates\[1\] have the same name",
        ),
    ],
)
async def test_one_thing_is_defined_once(town: Town, old: str, new: str, named: str) -> None:
    """Two definitions of one name are refused, both are named, and nothing is made."""
    with pytest.raises(InvalidDefinition, match=named):
        await put(town, edited(a=(old, new)))
    assert await town.catalog.services.services(town.ada) == []


async def test_a_name_and_a_change_are_enough_for_what_is_there(town: Town) -> None:
    """Of what exists a file states only what it wants changed; a new one has to be whole."""
    short = """
serviceTemplates: [{name: web shop, shared: true}]
toolTemplates: [{name: order reader, description: Reads.}]
services: [{name: shop, shared: false}, {name: model, shared: true}]
tools: [{key: get_order, enabled: false}, {key: summarize, description: Shorter.}]
"""
    with pytest.raises(InvalidDefinition, match="type is missing"):
        await put(town, short)
    await put(town, _FILE)
    before = await town.catalog.services.service(town.ada, "model")
    assert [(one.name, one.fields) for one in await put(town, short)] == [
        ("web shop", ("shared",)),
        ("order reader", ("description",)),
        ("shop", ("shared",)),
        ("model", ("shared",)),
        ("get_order", ("enabled",)),
        ("summarize", ("description",)),
    ]
    assert (await town.catalog.services.service(town.ada, "model")).structure == before.structure
    assert {one.action for one in await put(town, short)} == {"unchanged"}
    with pytest.raises(Conflict, match="protocol of a service never changes"):
        await put(town, "services: [{name: model, protocol: https}]")
    with pytest.raises(InvalidDefinition, match="type must be one of"):
        await put(town, "services: [{name: model, type: banana}]")
