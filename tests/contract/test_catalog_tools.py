"""Data-defined tools on both stores: what must hold between a tool, its service, its operation and its secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.catalog.town import Town, inputs, tool_body
from twinraven.catalog import (
    CatalogFile,
    DefinedCatalog,
    ServiceChange,
    TemplateSpec,
    ToolChange,
    ToolPlacement,
    ToolSpec,
    audited,
)
from twinraven.connectors.catalog_bindings import CatalogBindings
from twinraven.foundation.errors import (
    Conflict,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    PolicyViolation,
    ToolUnavailable,
)
from twinraven.storage import Database, Transaction


@pytest.fixture
async def town(database: Database, tmp_path: Path) -> Town:
    return await Town(database, tmp_path / "keys").settle()


@pytest.mark.req("AD-05")
async def test_a_tool_has_all_its_state(town: Town) -> None:
    """What was stated is kept, parameters have the schema's defaults, and reading gives the same as creating did."""
    service = await town.serve()
    secret = await town.house.keep("shop-key")
    made = await town.equip(
        service,
        name="Get an order",
        description="One order with its lines.",
        outputSchema={"type": "object"},
        effect="read",
        sensitivity="high",
        timeoutMs=500,
        secret="shop-key",
        shared=True,
    )
    shown = made.as_json()
    assert (await town.catalog.tools.tool(town.ada, "get_order")).as_json() == shown
    assert (await town.catalog.tools.tool(town.ada, made.tool_id)).as_json() == shown
    assert shown["connection_params"] == {"endpoint": "https://shop.example", "timeout": 30}
    assert (shown["key"], shown["name"], shown["owner"]) == ("get_order", "Get an order", "local")
    assert (shown["service"], shown["secret"]) == (service.service_id, secret.secret_id)
    assert shown["operation"] == {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}
    assert (shown["input_schema"], shown["output_schema"]) == (inputs("orderId"), {"type": "object"})
    assert (shown["effect"], shown["sensitivity"], shown["timeout_ms"]) == ("read", "high", 500)
    assert (shown["enabled"], shown["shared"], shown["status"]) == (True, True, "degraded")
    assert (shown["tool_template_id"], shown["last_health_check"]) == (None, None)


_WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a parameter missing": ({"connectionParams": {}}, '"endpoint" is a required property'),
    "a parameter of the wrong kind": (
        {"connectionParams": {"endpoint": "https://x", "timeout": "long"}},
        "connection_params.timeout",
    ),
    "a parameter unknown": ({"connectionParams": {"endpoint": "https://x", "region": "eu"}}, "'region'"),
    "another protocol": ({"connectionParams": {"endpoint": "http://x"}}, "connection_params.endpoint must begin with"),
    "a password in the address": (
        {"connectionParams": {"endpoint": "https://ada:pw@x"}},
        "connection_params.endpoint has credentials",
    ),
    "an operation of another type": (
        {"operation": {"type": "graph_query", "query": "RETURN $orderId"}},
        "operation.type: a rest_api takes rest_call, not graph_query",
    ),
    "an unknown variable": (
        {"operation": {"type": "rest_call", "method": "GET", "path": "/{{orderId}}/{{line}}"}},
        "the operation uses line, which input_schema does not declare",
    ),
    "an unused input": (
        {"inputSchema": inputs("orderId", "language")},
        "input_schema declares language, which the operation does not use",
    ),
    "an input schema that is none": (
        {"inputSchema": {"type": "object", "properties": {"orderId": {"type": "textt"}}}},
        "input_schema: ",
    ),
    "an output schema that is none": ({"outputSchema": {"type": "objekt"}}, "output_schema"),
    "inputs that are no object": ({"inputSchema": {"type": "array"}}, "input_schema must describe an object"),
}


@pytest.mark.req("AD-05", "AE-07")
@pytest.mark.parametrize("wrong", _WRONG)
async def test_a_tool_that_does_not_hold_together_is_refused_by_name(town: Town, wrong: str) -> None:
    """Neither made nor changed into, and the message names what is wrong."""
    fields, told = _WRONG[wrong]
    service = await town.serve()
    tool = await town.equip(service)
    change = ToolChange.from_json(fields)
    for act in (
        lambda: town.equip(service, key="other", **fields),
        lambda: town.catalog.tools.update(town.ada, "get_order", change),
    ):
        with pytest.raises(InvalidInput) as refusal:
            await act()
        assert told in refusal.value.message
        assert refusal.value.details["field"]
    assert await town.catalog.tools.tools(town.ada) == [tool]


@pytest.mark.req("AD-05")
async def test_a_secret_is_required_where_the_service_says_so(town: Town) -> None:
    """Without one the tool is not made, and it cannot be taken away later."""
    service = await town.serve(requiresSecret=True)
    with pytest.raises(InvalidDefinition) as refusal:
        await town.equip(service)
    assert refusal.value.details["field"] == "secret"
    secret = await town.house.keep("shop-key")
    tool = await town.equip(service, secret=secret.secret_id)
    assert tool.secret_id == secret.secret_id
    with pytest.raises(InvalidDefinition, match="requires one"):
        await town.catalog.tools.update(town.ada, "get_order", ToolChange(secret=None))


@pytest.mark.req("AD-05", "AD-04")
async def test_a_secret_must_be_the_tool_owners(town: Town, database: Database) -> None:
    """Somebody else's secret is not there, also if it is called shared, and the database refuses such a row."""
    service = await town.serve(shared=True)
    adas = await town.house.keep("shop-key", shared=True)
    answers: set[str] = set()
    for ref in (adas.secret_id, "shop-key", "0" * 32):
        with pytest.raises(NotFound) as refusal:
            await town.equip(service, town.bob, secret=ref)
        answers.add(refusal.value.message.replace(ref, "REF"))
    assert answers == {"no secret 'REF'"}
    bobs = await town.equip(service, town.bob)
    with pytest.raises(Conflict):
        await database.write(
            "default",
            lambda tx: tx.execute(
                "UPDATE catalog_tools SET secret_id = :secret WHERE tool_id = :tool",
                secret=adas.secret_id,
                tool=bobs.tool_id,
            ),
        )


@pytest.mark.req("AD-04")
async def test_a_secret_in_use_is_not_deleted(town: Town) -> None:
    """The vault names the tool that is bound to it; once bound elsewhere, the secret goes."""
    secret = await town.house.keep("shop-key")
    await town.equip(await town.serve(), secret="shop-key")
    with pytest.raises(Conflict, match="tool 'get_order'"):
        await town.house.vault.delete("default", "local", secret.secret_id)
    await town.catalog.tools.update(town.ada, "get_order", ToolChange(secret=None))
    await town.house.vault.delete("default", "local", secret.secret_id)


@pytest.mark.req("AD-05")
async def test_a_tool_that_a_step_calls_is_not_deleted(town: Town) -> None:
    """Whoever knows of steps is asked by key, in the same transaction, and named."""
    asked: list[tuple[str, str]] = []

    def steps(tx: Transaction, tenant_id: str, key: str) -> list[str]:
        asked.append((tenant_id, key))
        assert tx.fetch_one("SELECT 1 AS one FROM catalog_tools WHERE tool_key = :key", key=key) is not None
        return ["step 2 of process 'returns'"] if key == "get_order" else []

    town.catalog.tools.register_usage(steps)
    service = await town.serve()
    await town.equip(service)
    await town.equip(service, key="unused")
    with pytest.raises(Conflict, match="step 2 of process 'returns'"):
        await town.catalog.tools.delete(town.ada, "get_order")
    await town.catalog.tools.delete(town.ada, "unused")
    assert asked == [("default", "get_order"), ("default", "unused")]
    assert [tool.key for tool in await town.catalog.tools.tools(town.ada)] == ["get_order"]


async def test_keys_are_unique_in_a_tenant_and_nowhere_else(town: Town) -> None:
    """A key can be taken once, whoever took it, and not from a tool of another kind; another tenant may use it too."""
    service = await town.serve(shared=True)
    await town.equip(service)
    with pytest.raises(Conflict, match="keys are unique"):
        await town.equip(service, town.bob)
    await town.serve(town.eve)
    assert (await town.equip("shop", town.eve)).key == "get_order"
    taken = {"built_in"}
    others = DefinedCatalog(
        town.database,
        witness=lambda _, __: None,
        probes={},
        find_other=lambda _, key: town.catalog.source.find("default", "get_order") if key in taken else None,
    )
    with pytest.raises(Conflict, match="'built_in'"):
        await others.tools.create(town.ada, ToolSpec.from_json(tool_body(key="built_in")))


_POST: dict[str, Any] = {"type": "rest_call", "method": "POST", "path": "/orders/{{orderId}}"}


async def test_only_an_administrator_declares_a_write_to_be_a_read(town: Town) -> None:
    """A member's declaration is refused by its field, on a new tool, a change and a template; of a GET it is not."""
    tools, templates = town.catalog.tools, town.catalog.templates
    await town.serve(town.bob)
    lowered = {"operation": _POST, "effect": "read"}
    template = {"name": "search", "input_schema": inputs("orderId"), "shared": True, **lowered}
    attempts = [
        lambda: town.equip("shop", town.bob, key="new", **lowered),
        lambda: tools.update(town.bob, "declared", ToolChange.from_json({"operation": _POST})),
        lambda: tools.update(town.bob, "plain", ToolChange.from_json({"effect": "read"})),
        lambda: templates.create(town.bob, TemplateSpec.from_json("tool", template)),
    ]
    await town.equip("shop", town.bob, key="declared", effect="read")
    await town.equip("shop", town.bob, key="plain", operation=_POST)
    for attempt in attempts:
        with pytest.raises(PolicyViolation, match="effect: ") as refused:
            await attempt()
        assert refused.value.details["field"] == "effect"
    await town.serve(town.ada, name="own")
    assert (await town.equip("own", town.ada, key="own", **lowered)).structure.effect == "read"


async def test_a_member_gets_no_read_from_a_template_whose_operation_writes(town: Town) -> None:
    """Whoever names the server is not helped by what an administrator declared of another; a GET stays a read."""
    templates = town.catalog.templates
    shown = {"name": "look", "input_schema": inputs("orderId"), "effect": "read", "shared": True}
    posting = await templates.create(
        town.ada, TemplateSpec.from_json("tool", {**shown, "name": "search", "operation": _POST})
    )
    getting = await templates.create(
        town.ada, TemplateSpec.from_json("tool", {**shown, "operation": {**_POST, "method": "GET"}})
    )
    await town.serve(town.ada, shared=True)
    place = ToolPlacement("bobs", "shop", connection_params={"endpoint": "https://shop.example"})
    made = await templates.make_tool(town.bob, posting.template_id, place)
    assert (made.structure.effect, made.structure.effect_and_origin) == (None, ("write", "inferred"))
    assert (await templates.make_tool(town.ada, posting.template_id, replace(place, key="adas"))).structure.effect
    looking = await templates.make_tool(town.bob, getting.template_id, replace(place, key="bobs_look"))
    assert looking.structure.effect == "read"
    body = {"key": "filed", "template": posting.template_id, "service": "shop"}
    file = CatalogFile(tools=({**body, "connection_params": place.connection_params},))
    await town.catalog.files.apply_file(town.bob, file)
    assert (await town.catalog.tools.tool(town.bob, "filed")).structure.effect is None


async def test_a_member_who_moves_a_declared_read_to_another_server_loses_the_declaration(town: Town) -> None:
    """What was an administrator's reads no more once its owner, now a member, points it elsewhere or insists."""
    tools = town.catalog.tools
    await town.serve(town.ada)
    await town.equip("shop", town.ada, key="search", operation=_POST, effect="read")
    member = replace(town.ada, role="member")
    there = {"connection_params": {"endpoint": "https://elsewhere.example"}}
    renamed = await tools.update(member, "search", ToolChange.from_json({"name": "Search"}))
    assert (renamed.name, renamed.structure.effect) == ("Search", "read")
    with pytest.raises(PolicyViolation, match="effect: "):
        await tools.update(member, "search", ToolChange.from_json({**there, "effect": "read"}))
    restated = {"effect": "read", "connection_params": {"endpoint": "https://shop.example"}}
    assert await tools.update(member, "search", ToolChange.from_json(restated)) == renamed
    moved = await tools.update(town.ada, "search", ToolChange.from_json(there))
    assert moved.structure.effect == "read"
    back = await tools.update(member, "search", ToolChange.from_json({"connection_params": renamed.connection_params}))
    assert back.structure.effect_and_origin == ("write", "inferred")
    entry = town.catalog.source.find("default", "search")
    assert entry is not None
    assert entry.writes


async def test_a_binding_says_whose_tool_it_is(town: Town) -> None:
    """Also where somebody else calls it, so that failures are counted for its owner."""
    await town.serve(town.bob, shared=True)
    await town.equip("shop", town.bob, shared=True)
    source = CatalogBindings(lambda: town.catalog.bindings, town.house.vault)
    bound = await source.binding("default", "get_order", caller=town.ada.user_id)
    assert (bound.tenant_id, bound.owner_id) == ("default", town.bob.user_id)


async def test_a_tool_is_bound_as_it_was_approved_or_not_at_all(town: Town) -> None:
    """Where the stored tool is another one than the caller's entry, the call is refused and the entry renewed."""
    source, bindings = town.catalog.source, town.catalog.bindings
    await town.serve()
    await town.equip("shop")
    seen = source.find("default", "get_order")
    assert seen is not None
    assert (await bindings.binding("default", "get_order", definition=seen.definition)).tool.key == "get_order"
    elsewhere = DefinedCatalog(town.database, witness=audited(town.house.audit), probes=town.probes)
    change = ToolChange.from_json({"connection_params": {"endpoint": "https://elsewhere.example"}})
    await elsewhere.tools.update(town.ada, "get_order", change)
    with pytest.raises(ToolUnavailable, match="changed after this call was approved"):
        await bindings.binding("default", "get_order", definition=seen.definition)
    renewed = source.find("default", "get_order")
    assert renewed is not None
    assert (await bindings.binding("default", "get_order", definition=renewed.definition)).tool.key == "get_order"


@pytest.mark.req("AD-05")
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"endpoint": "https://x:99999"}, "endpoint"),
        ({"endpoint": "https://shop.example", "auth": {"type": "banana"}}, "auth"),
        ({"endpoint": "https://shop.example", "idempotency_header": "Host"}, "idempotency_header"),
        ({"endpoint": "https://shop.example", "health_path": ["a"]}, "health_path"),
        ({}, "endpoint"),
    ],
)
async def test_what_could_never_be_called_is_not_kept(town: Town, params: dict[str, Any], field: str) -> None:
    """New, changed, from a template or from a file: the refusal names the field, and nothing is there."""
    tools, place = town.catalog.tools, {"key": "placed", "service": "shop", "connection_params": params}
    await town.serve(connectionSchema={"type": "object"})
    await town.equip("shop")
    body = {"name": "reader", "operation": tool_body()["operation"], "input_schema": inputs("orderId")}
    template = await town.catalog.templates.create(town.ada, TemplateSpec.from_json("tool", body))
    filed = {**body, "key": "filed", "service": "shop", "connection_params": params}
    file = CatalogFile(tools=(filed,))
    attempts = [
        lambda: town.equip("shop", key="new", connectionParams=params),
        lambda: tools.update(town.ada, "get_order", ToolChange(connection_params=params)),
        lambda: town.catalog.templates.make_tool(town.ada, template.template_id, ToolPlacement.from_json(place)),
        lambda: town.catalog.files.apply_file(town.ada, file),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidDefinition, match=f"connection_params.{field}") as refused:
            await attempt()
        assert refused.value.details["field"] == f"connection_params.{field}"
    assert [tool.key for tool in await tools.tools(town.ada)] == ["get_order"]


@pytest.mark.parametrize(
    ("default", "is_kept"),
    [("https://shop.example", True), ("https://{{region}}.example", True), ("https://a b", False), (5, False)],
)
async def test_a_schema_may_fill_in_what_a_call_could_use(town: Town, default: object, is_kept: bool) -> None:
    """A default that could never be used is refused on services, on a change and on templates; a placeholder is not."""
    services = town.catalog.services
    schema = {"type": "object", "properties": {"endpoint": {"default": default}, "retries": {"default": 3}}}
    await town.serve(name="other")
    attempts = [
        lambda: town.serve(connectionSchema=schema),
        lambda: services.update(town.ada, "other", ServiceChange(connection_schema=schema)),
        lambda: town.draw(connectionSchema=schema),
    ]
    for attempt in attempts:
        if is_kept:
            await attempt()
            continue
        with pytest.raises(InvalidDefinition, match="connection_schema has a default") as refused:
            await attempt()
        assert refused.value.details["field"] == "connection_schema"
