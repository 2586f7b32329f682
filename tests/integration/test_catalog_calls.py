"""Data-defined tools called through the one path, at a real server on loopback."""

from __future__ import annotations

from asyncio import StreamWriter
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.houses import VALUE
from tests.servers.http_server import HttpServer, Received, Reply, Write, serving
from tests.unit.catalog.town import Town, inputs
from twinraven.calls import CallContext, Calls, Claims, SkillInvocationRequest, SkillInvocationResponse
from twinraven.catalog import Catalog, HealthStatus, ServiceChange, ServiceType, ToolChange, read_file
from twinraven.connectors import AddressGuard, AddressRules, HttpDelivery, HttpLimits, HttpTransport
from twinraven.connectors.catalog_bindings import CatalogBindings, CatalogProbe
from twinraven.connectors.rest import RestConnector
from twinraven.foundation.errors import NotFound
from twinraven.muninn import Collector, MuninnEvent, SqlEventStore
from twinraven.storage import Database

_FILE = """
services:
  - name: shop
    type: rest_api
    protocol: http
    requiresSecret: true
    shared: true
    connectionSchema:
      type: object
      required: [endpoint]
      properties: {endpoint: {type: string, format: uri}, health_path: {type: string, default: /health}}
tools:
  - key: get_order
    service: shop
    secret: shop-key
    shared: true
    connectionParams: {endpoint: ENDPOINT}
    operation: {type: rest_call, method: GET, path: "/orders/{{orderId}}", query: {expand: "{{expand}}"}}
    inputSchema: {type: object, required: [orderId], properties: {orderId: {type: string}, expand: {type: string}}}
    outputSchema: {type: object, required: [state]}
  - key: cancel_order
    service: shop
    secret: shop-key
    connectionParams: {endpoint: ENDPOINT}
    operation: {type: rest_call, method: POST, path: "/orders/{{orderId}}/cancel", body: {reason: "{{reason}}"}}
    inputSchema: {type: object, required: [orderId], properties: {orderId: {type: string}, reason: {type: string}}}
"""


class Office:
    """A town whose catalogue is called through the one path."""

    def __init__(self, town: Town, database: Database) -> None:
        self.town = town
        self.store = SqlEventStore(database)
        self.collector = Collector(database, redact=town.house.redactor.redact)
        rules = AddressRules.of(["127.0.0.0/8"])
        limits = HttpLimits(connect_timeout_ms=1_000, attempts=1)
        delivery = HttpDelivery(HttpTransport(AddressGuard(rules), limits=limits))
        catalog = town.catalog
        self.connector = RestConnector(CatalogBindings(lambda: catalog.bindings, town.house.vault), delivery)
        town.probes[ServiceType.REST_API] = CatalogProbe(self.connector, town.house.vault)
        self.entries = Catalog(catalog.source)
        self.calls = Calls(self.entries, self.collector, Claims(database), [self.connector])

    async def call(
        self, tool: str, *, caller: str = "local", key: str | None = None, **payload: Any
    ) -> SkillInvocationResponse:
        request = SkillInvocationRequest(tool_name=tool, payload=payload, idempotency_key=key)
        return await self.calls.invoke(request, CallContext("session", caller=caller))

    async def events(self) -> tuple[MuninnEvent, ...]:
        self.collector.flush()
        return (await self.store.session("default", "session")).events


def answer(request: Received) -> Reply:
    if request.headers.get("authorization") != f"Bearer {VALUE}":
        return Reply(401)
    return Reply(200, {"state": "sent", "target": request.target})


async def hang_up(writer: StreamWriter) -> None:
    writer.close()


def broken(request: Received) -> Write:
    return hang_up


@pytest.fixture
def closing(sqlite_database: Database) -> Generator[list[Office]]:
    offices: list[Office] = []
    yield offices
    for office in offices:
        office.collector.close()


@pytest.fixture
async def server() -> AsyncGenerator[HttpServer]:
    async with serving(answer) as server:
        yield server


@pytest.fixture
async def office(
    sqlite_database: Database, tmp_path: Path, server: HttpServer, closing: list[Office]
) -> AsyncGenerator[Office]:
    town = await Town(sqlite_database, tmp_path / "keys").settle()
    await town.house.keep("shop-key")
    await town.catalog.files.apply_file(town.ada, read_file(_FILE.replace("ENDPOINT", server.url)))
    office = Office(town, sqlite_database)
    closing.append(office)
    yield office
    await office.connector.aclose()


def message(response: SkillInvocationResponse) -> str:
    assert response.error is not None
    return f"{response.error['code']}: {response.error['message']}"


@pytest.mark.req("AD-02")
async def test_a_file_becomes_tools_that_can_be_called(office: Office, server: HttpServer) -> None:
    """Arguments and the secret arrive at the server, the answer comes back checked, and no record holds the secret."""
    done = await office.call("get_order", orderId="a/7", expand="lines")
    assert done.output == {"state": "sent", "target": "/orders/a%2F7?expand=lines"}
    assert (done.side_effect, done.error) == ("read", None)
    written = await office.call("cancel_order", key="k1", orderId="7")
    assert written.side_effect == "write"
    assert server.received[-1].json == {}
    again = await office.call("cancel_order", key="k1", orderId="7")
    assert (again.replayed, len(server.received)) == (True, 2)
    assert VALUE not in repr(await office.events())


async def test_arguments_are_checked_before_anything_is_sent(office: Office, server: HttpServer) -> None:
    """What is missing and what is misspelt are both refused by name."""
    assert "orderId" in message(await office.call("get_order"))
    assert "expnd" in message(await office.call("get_order", orderId="7", expnd="lines"))
    assert server.received == []


@pytest.mark.req("AD-03")
async def test_a_service_that_dies_is_found_out_and_kept_away_from(office: Office, server: HttpServer) -> None:
    """A check sees it, calls are refused with the reason and recorded, a write's key stays free, and it comes back."""
    checks, services = office.town.catalog.health, office.town.catalog.services
    assert (await checks.check_health(office.town.ada, "shop")).status is HealthStatus.HEALTHY
    assert [request.target for request in server.received] == ["/health"]
    server.handler = broken
    dead = await checks.check_health(office.town.ada, "shop")
    assert dead.status is HealthStatus.DOWN
    sent = len(server.received)
    refused = await office.call("cancel_order", key="k2", orderId="7")
    assert "TOOL_UNAVAILABLE: tool 'cancel_order' cannot be called: its service 'shop' is down" in message(refused)
    assert len(server.received) == sent
    server.handler = answer
    office.town.pass_by(31)
    retried = await office.call("cancel_order", key="k2", orderId="7")
    assert (retried.error, retried.replayed) == (None, False)
    assert (await services.service(office.town.ada, "shop")).status is HealthStatus.HEALTHY
    assert [event.outcome.value for event in await office.events()] == ["failure", "partial"]


@pytest.mark.req("AD-03")
async def test_what_is_disabled_is_not_called(office: Office, server: HttpServer) -> None:
    """The refusal says whether it was the tool or its service, and the tool is not offered meanwhile."""
    catalog, ada = office.town.catalog, office.town.ada
    await catalog.tools.update(ada, "get_order", ToolChange(enabled=False))
    assert "tool 'get_order' cannot be called: disabled" in message(await office.call("get_order", orderId="7"))
    assert [entry.tool_id for entry in office.entries.entries("default")] == ["cancel_order"]
    await catalog.tools.update(ada, "get_order", ToolChange(enabled=True))
    await catalog.services.update(ada, "shop", ServiceChange(enabled=False))
    assert "its service 'shop' is disabled" in message(await office.call("get_order", orderId="7"))
    assert office.entries.entries("default") == []
    await catalog.services.update(ada, "shop", ServiceChange(enabled=True))
    assert (await office.call("get_order", orderId="7")).error is None


@pytest.mark.req("AD-04")
async def test_anothers_secret_serves_no_call(office: Office, server: HttpServer) -> None:
    """A shared tool can be seen by others, but a call of theirs reaches nothing."""
    bob = office.town.bob.user_id
    assert office.entries.resolve("default", "get_order", bob).tool_id == "get_order"
    assert "serves its owner alone" in message(await office.call("get_order", caller=bob, orderId="7"))
    assert server.received == []


@pytest.mark.req("AD-06")
async def test_a_private_tool_is_not_there_for_others(office: Office) -> None:
    """Looking it up for another user, or from another tenant, gives the answer of no tool at all."""
    entries, town = office.entries, office.town
    assert entries.resolve("default", "cancel_order", "local").private_to == "local"
    for tenant, caller in (("default", town.bob.user_id), (town.eve.tenant_id, town.eve.user_id)):
        answers: set[str] = set()
        for name in ("cancel_order", "concel_order"):
            with pytest.raises(NotFound) as refusal:
                entries.resolve(tenant, name, caller)
            answers.add(repr(refusal.value.as_json()).replace(name, "NAME"))
        assert len(answers) == 1
    offered = [entry.tool_id for entry in entries.visible("default", town.bob.user_id)]
    assert offered == ["get_order"]


async def test_a_change_is_in_force_at_the_next_call(office: Office, server: HttpServer) -> None:
    """Another path, another schema and another address need no restart."""
    change = ToolChange.from_json(
        {
            "operation": {"type": "rest_call", "method": "GET", "path": "/v2/{{id}}"},
            "inputSchema": inputs("id"),
        }
    )
    await office.town.catalog.tools.update(office.town.ada, "get_order", change)
    assert (await office.call("get_order", id="7")).output["target"] == "/v2/7"
    assert "orderId" in message(await office.call("get_order", orderId="7"))
