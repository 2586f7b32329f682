"""Services on both stores, and what never changes about them and their tools."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fences import Attempt, assert_fenced, methods_of
from tests.unit.catalog.town import CONNECTION, Town, service_body
from twinraven.catalog import (
    CatalogChange,
    CatalogStore,
    DefinedCatalog,
    Health,
    HealthStatus,
    ServiceChange,
    ServiceSpec,
    SqlCatalogStore,
    ToolChange,
)
from twinraven.foundation.errors import (
    AppendOnly,
    Conflict,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    StaleState,
    StorageError,
)
from twinraven.storage import Database, Transaction

_TABLES = ("catalog_services", "catalog_tools", "catalog_templates", "catalog_version")
_PAIRS = {
    "neo4j_graph": {"bolt", "bolt+s"},
    "rest_api": {"http", "https"},
    "llm_provider": {"http", "https"},
    "mcp_server": {"stdio", "http", "https", "sse"},
}


@pytest.fixture
async def town(database: Database, tmp_path: Path) -> Town:
    return await Town(database, tmp_path / "keys").settle()


@pytest.mark.req("AD-01")
async def test_a_service_has_all_its_state(town: Town) -> None:
    """What was stated is kept, the rest has its defaults, and reading gives the same as creating did."""
    made = await town.serve(requiresSecret=True, shared=True)
    shown = made.as_json()
    assert (await town.catalog.services.service(town.ada, made.service_id)).as_json() == shown
    assert (await town.catalog.services.service(town.ada, "shop")).as_json() == shown
    assert len(bytes.fromhex(shown["id"])) == 16
    stated = {name: shown[name] for name in ("name", "owner", "type", "protocol", "requires_secret", "shared")}
    assert stated == {
        "name": "shop",
        "owner": "local",
        "type": "rest_api",
        "protocol": "https",
        "requires_secret": True,
        "shared": True,
    }
    assert (shown["connection_schema"], shown["schema_version"], shown["enabled"]) == (CONNECTION, 1, True)
    assert (shown["status"], shown["last_health_check"], shown["error_message"]) == (
        "degraded",
        None,
        "not checked yet",
    )
    assert shown["service_template_id"] is None
    assert shown["created_at"] == shown["updated_at"]


@pytest.mark.req("AD-01")
@pytest.mark.parametrize("type", _PAIRS)
async def test_only_matching_types_and_protocols_are_taken(town: Town, type: str) -> None:
    """Each type of service speaks its own protocols, and the refusal names them."""
    for protocol in ("bolt", "bolt+s", "http", "https", "stdio", "sse"):
        body = service_body(name=protocol, type=type, protocol=protocol)
        if protocol in _PAIRS[type]:
            made = await town.catalog.services.create(town.ada, ServiceSpec.from_json(body))
            assert made.structure.protocol == protocol
        else:
            with pytest.raises(InvalidDefinition) as refusal:
                await town.catalog.services.create(town.ada, ServiceSpec.from_json(body))
            assert refusal.value.details["field"] == "protocol"
            assert all(spoken in refusal.value.message for spoken in _PAIRS[type])


@pytest.mark.req("AD-01")
@pytest.mark.parametrize(
    "schema",
    [{"type": "objekt"}, {"type": "object", "properties": 3}, {"type": "object", "$ref": "#/gone"}, {"type": "string"}],
)
async def test_a_connection_schema_must_be_one(town: Town, schema: dict[str, Any]) -> None:
    """What is not JSON Schema of an object is refused by name, when a service is made and when it is changed."""
    service = await town.serve()
    for act in (
        lambda: town.serve(name="other", connectionSchema=schema),
        lambda: town.catalog.services.update(town.ada, service.service_id, ServiceChange(connection_schema=schema)),
    ):
        with pytest.raises(InvalidInput) as refusal:
            await act()
        assert refusal.value.details["field"] == "connection_schema"
    assert await town.catalog.services.service(town.ada, "shop") == service


@pytest.mark.req("AD-01")
async def test_a_schema_change_raises_its_version(town: Town) -> None:
    """The version counts changes of the schema and of nothing else; an equal schema is no change."""
    service = await town.serve()
    wider = {**CONNECTION, "properties": {**CONNECTION["properties"], "region": {"type": "string"}}}

    async def change(**fields: Any) -> int:
        changed = await town.catalog.services.update(town.ada, service.service_id, ServiceChange(**fields))
        return changed.schema_version

    assert await change(name="store") == 1
    assert await change(connection_schema=dict(reversed(CONNECTION.items()))) == 1
    assert await change(connection_schema=wider) == 2
    assert await change(connection_schema=CONNECTION) == 3
    assert (await town.catalog.services.service(town.ada, "store")).structure.connection_schema == CONNECTION


@pytest.mark.req("AD-01", "AD-03")
async def test_a_schema_that_no_longer_fits_stops_the_tools_it_does_not_fit(town: Town) -> None:
    """Their parameters are not valid any more, so they are down and say why, until the two agree again."""
    service = await town.serve()
    await town.equip(service)
    stricter: dict[str, Any] = {**CONNECTION, "required": ["endpoint", "region"], "additionalProperties": True}
    await town.catalog.services.update(town.ada, service.service_id, ServiceChange(connection_schema=stricter))
    tool = await town.catalog.tools.tool(town.ada, "get_order")
    assert tool.status is HealthStatus.DOWN
    assert "region" in str(tool.error_message)
    await town.catalog.services.update(town.ada, service.service_id, ServiceChange(connection_schema=CONNECTION))
    assert (await town.catalog.tools.tool(town.ada, "get_order")).status is HealthStatus.DEGRADED


@pytest.mark.req("AD-01")
async def test_a_service_in_use_is_not_deleted(town: Town) -> None:
    """The refusal names the tools that the owner may see and counts the others; without tools it goes."""
    service = await town.serve(shared=True)
    await town.equip(service)
    await town.equip(service, town.bob, key="bobs_tool")
    with pytest.raises(Conflict) as refusal:
        await town.catalog.services.delete(town.ada, service.service_id)
    assert "'get_order'" in refusal.value.message
    assert "1 of other users" in refusal.value.message
    assert "bobs_tool" not in refusal.value.message
    await town.catalog.tools.delete(town.ada, "get_order")
    await town.catalog.tools.delete(town.bob, "bobs_tool")
    await town.catalog.services.delete(town.ada, service.service_id)
    assert await town.catalog.services.services(town.ada) == []


@pytest.mark.req("AD-01")
async def test_a_disabled_service_is_never_healthy(town: Town, database: Database) -> None:
    """Disabling takes the health away, no check brings it back, and the database refuses the combination."""
    service = await town.serve()
    tool = await town.equip(service)
    assert (await town.catalog.health.check_health(town.ada, "shop")).status is HealthStatus.HEALTHY
    await town.catalog.services.update(town.ada, "shop", ServiceChange(enabled=False))
    assert (await town.catalog.health.check_health(town.ada, "shop")).status is HealthStatus.DOWN
    assert len(town.probe.looked) == 1
    assert (await town.serve(name="born off", enabled=False)).status is HealthStatus.DOWN
    for table, column, row in (("services", "service_id", service.service_id), ("tools", "tool_id", tool.tool_id)):
        statement = f"UPDATE catalog_{table} SET enabled = 0, status = 'healthy' WHERE {column} = :id"
        with pytest.raises(Conflict):
            await database.write("default", lambda tx, text=statement, of=row: tx.execute(text, id=of))
    again = await town.catalog.services.update(town.ada, "shop", ServiceChange(enabled=True))
    assert (again.status, again.error_message) == (HealthStatus.DEGRADED, "not checked yet")


@pytest.mark.req("AD-07")
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        *(("service", name) for name in ("id", "owner", "type", "protocol", "requiresSecret", "serviceTemplateId")),
        *(("tool", name) for name in ("id", "owner", "key", "service", "toolTemplateId")),
    ],
)
async def test_what_never_changes_cannot_be_asked_for(town: Town, kind: str, field: str) -> None:
    """A change that names owner, service or structure is refused by that name."""
    read: Any = ServiceChange.from_json if kind == "service" else ToolChange.from_json
    with pytest.raises(InvalidDefinition, match="never changes"):
        read({field: "x", "name": "new"})


@pytest.mark.req("AD-07", "AD-08")
async def test_what_never_changes_is_refused_by_the_database(town: Town, database: Database) -> None:
    """Whoever writes past the use cases cannot move a tool to another owner or service either."""
    service, other = await town.serve(shared=True), await town.serve(name="other")
    await town.equip(service)
    changes = [
        ("catalog_services", "owner_id", town.bob.user_id),
        ("catalog_services", "type", "mcp_server"),
        ("catalog_services", "protocol", "http"),
        ("catalog_services", "requires_secret", 1),
        ("catalog_tools", "owner_id", town.bob.user_id),
        ("catalog_tools", "service_id", other.service_id),
        ("catalog_tools", "tool_key", "other"),
        ("catalog_services", "service_template_id", None),
        ("catalog_tools", "tool_template_id", None),
    ]
    for table, column, value in changes:
        statement = f"UPDATE {table} SET {column} = :value"
        with pytest.raises(AppendOnly):
            await database.write("default", lambda tx, text=statement, to=value: tx.execute(text, value=to))


@pytest.mark.req("AD-07")
async def test_parameters_and_the_secret_may_change(town: Town) -> None:
    """A tool can be pointed elsewhere and given another secret; owner, service and key stay."""
    service = await town.serve()
    await town.house.keep("old")
    await town.house.keep("new")
    before = await town.equip(service, secret="old")
    change = ToolChange.from_json({"connectionParams": {"endpoint": "https://b.example"}, "secret": "new"})
    after = await town.catalog.tools.update(town.ada, "get_order", change)
    assert after.connection_params == {"endpoint": "https://b.example", "timeout": 30}
    assert after.secret_id not in (None, before.secret_id)
    assert (await town.catalog.tools.tool(town.ada, "get_order")).secret_id == after.secret_id
    assert (after.owner_id, after.service_id, after.key) == (before.owner_id, before.service_id, before.key)
    assert after.state_version == before.state_version + 1
    assert (await town.catalog.bindings.binding("default", "get_order")).params == after.connection_params
    unbound = await town.catalog.tools.update(town.ada, "get_order", ToolChange.from_json({"secret": None}))
    assert unbound.secret_id is None


@pytest.mark.req("CH-17")
async def test_an_old_version_is_refused_with_the_current_one(town: Town) -> None:
    """Whoever changed last is not overwritten by somebody who looked earlier."""
    service = await town.serve()
    await town.equip(service)
    await town.catalog.services.update(town.ada, "shop", ServiceChange(shared=True), expected_version=1)
    await town.catalog.tools.update(town.ada, "get_order", ToolChange(name="Order"), expected_version=1)
    for act in (
        lambda: town.catalog.services.update(town.ada, "shop", ServiceChange(shared=False), expected_version=1),
        lambda: town.catalog.services.delete(town.ada, "shop", expected_version=1),
        lambda: town.catalog.tools.update(town.ada, "get_order", ToolChange(name="Old"), expected_version=1),
        lambda: town.catalog.tools.delete(town.ada, "get_order", expected_version=1),
    ):
        with pytest.raises(StaleState) as refusal:
            await act()
        assert refusal.value.details == {"expected": 1, "current": 2}
    same = await town.catalog.services.update(town.ada, "shop", ServiceChange(shared=True), expected_version=2)
    assert same.state_version == 2


async def test_of_two_who_change_at_once_one_is_told(town: Town) -> None:
    """Both began from the same version; one change is made, the other refused."""
    service = (await town.serve()).service_id
    update = town.catalog.services.update
    answers = await asyncio.gather(
        *(update(town.ada, service, ServiceChange(name=f"shop {n}"), expected_version=1) for n in range(4)),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["Service", *["StaleState"] * 3]


@pytest.mark.req("AD-01")
async def test_names_are_unique_among_an_owners_services(town: Town) -> None:
    """A name that is taken is refused, when made and when renamed; another owner may use it."""
    await town.serve()
    await town.serve(name="other")
    await town.serve(town.bob)
    for act in (
        town.serve,
        lambda: town.catalog.services.update(town.ada, "other", ServiceChange(name="shop")),
    ):
        with pytest.raises(Conflict, match="named 'shop' already"):
            await act()


async def test_every_change_is_audited_in_its_transaction(town: Town, database: Database) -> None:
    """The chain tells each change with who made it, and a change that cannot be told does not happen."""
    service = await town.serve(shared=True)
    await town.equip(service, town.bob)
    await town.catalog.services.update(town.ada, "shop", ServiceChange(shared=False))
    await town.catalog.health.check("default", service.service_id)
    await town.catalog.tools.delete(town.bob, "get_order", correlation_id="why")
    await town.catalog.services.delete(town.ada, "shop")
    entries = await town.house.audit.entries("default")
    told = [(entry.event_type, entry.actor_id) for entry in entries if entry.subject_type in ("service", "tool")]
    ada, bob = town.ada.user_id, town.bob.user_id
    assert told == [
        ("service.created", ada),
        ("tool.created", bob),
        ("service.updated", ada),
        ("tool.stopped", ada),
        ("tool.deleted", bob),
        ("service.deleted", ada),
    ]
    assert entries[-2].correlation_id == "why"
    assert (await town.house.audit.verify("default")).ok

    def refuse(tx: Transaction, change: CatalogChange) -> None:
        raise StorageError("the witness cannot write")

    silent = DefinedCatalog(database, witness=refuse, probes={})
    with pytest.raises(StorageError):
        await silent.services.create(town.ada, ServiceSpec.from_json(service_body()))
    assert await town.catalog.services.services(town.ada) == []


async def test_whoever_is_not_there_owns_nothing(town: Town) -> None:
    """A user of another tenant, or none at all, is not found, and nothing is made."""
    for user_id in (town.eve.user_id, "nobody"):
        stranger = type(town.ada)("default", user_id, "member")
        with pytest.raises(NotFound, match=f"no user '{user_id}'"):
            await town.serve(stranger)


async def test_no_method_of_the_store_crosses_tenants(town: Town, database: Database) -> None:
    """Every method, given another tenant's ids, sees nothing of it and changes nothing."""
    service = await town.serve(shared=True)
    await town.house.keep("victims-key")
    tool = await town.equip(service, secret="victims-key", shared=True)
    template = await town.draw(name="victims template", shared=True)
    store, mine = SqlCatalogStore(), town.eve.tenant_id
    down = Health(HealthStatus.DOWN, "forged")
    attempts: dict[str, Attempt] = {
        "lock": lambda tx: store.lock(tx, mine),
        "raise_version": lambda tx: store.raise_version(tx, mine),
        "version": lambda tx: store.version(tx, mine),
        "service": lambda tx: store.service(tx, mine, service.service_id),
        "services_named": lambda tx: store.services_named(tx, mine, "shop"),
        "services": lambda tx: store.services(tx, mine),
        "remove_service": lambda tx: store.remove_service(tx, mine, service.service_id),
        "tool": lambda tx: store.tool(tx, mine, tool.key),
        "tools": lambda tx: store.tools(tx, mine),
        "tools_on": lambda tx: store.tools_on(tx, mine, service.service_id),
        "remove_tool": lambda tx: store.remove_tool(tx, mine, tool.tool_id),
        "keys_with_secret": lambda tx: store.keys_with_secret(tx, mine, tool.secret_id or ""),
        "template": lambda tx: store.template(tx, mine, "service", template.template_id),
        "templates": lambda tx: store.templates(tx, mine, "service"),
    }
    on_postgres: dict[str, Attempt] = {
        "add_service": lambda tx: store.add_service(tx, service),
        "add_tool": lambda tx: store.add_tool(tx, tool),
        "add_template": lambda tx: store.add_template(tx, template),
        "change_service": lambda tx: store.change_service(tx, service, from_version=1),
        "set_service_health": lambda tx: store.set_service_health(tx, service, down),
        "change_tool": lambda tx: store.change_tool(tx, tool, from_version=1),
        "set_tool_health": lambda tx: store.set_tool_health(tx, tool, down),
        "change_template": lambda tx: store.change_template(tx, template, from_version=1),
    }
    assert methods_of(CatalogStore) <= {*attempts, *on_postgres}
    if database.dialect == "postgres":
        attempts |= on_postgres
    marks = (service.service_id, tool.tool_id, template.template_id, "victim", "shop.example")
    await assert_fenced(database, attempts, intruder=mine, victim="default", tables=_TABLES, marks=marks)
