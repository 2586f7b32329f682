"""The catalogue through the client, at a real server: what it defines can be called, changed and taken away again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.homes import opened_home
from tests.served import served
from tests.servers.http_server import HttpServer, Received, Reply, serving
from tests.servers.model_server import KEY, ModelServer
from twinraven import AsyncClient, Client
from twinraven.foundation.errors import Conflict, InvalidDefinition, NotFound, StaleState
from twinraven.sdk import ServiceInfo, ServiceTemplate, ToolDefinition, ToolTemplate

Ask = Callable[..., Awaitable[Any]]
"""An operation by its name, whichever client does it; a list comes whole."""

CONNECTION = {"type": "object", "required": ["endpoint"], "properties": {"endpoint": {"type": "string"}}}
ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
GET = {"type": "rest_call", "method": "GET", "path": "/orders/{{id}}"}
POST: dict[str, Any] = {"type": "rest_call", "method": "POST", "path": "/orders/{{id}}/cancel", "body": {}}


@pytest.fixture
async def shop() -> AsyncGenerator[HttpServer]:
    def answer(request: Received) -> Reply:
        return Reply(body={"asked": f"{request.method} {request.target}"})

    async with serving(answer) as server:
        yield server


@pytest.fixture
async def url(tmp_path: Path) -> AsyncGenerator[str]:
    with opened_home(tmp_path, connectors={"allow_private": ["127.0.0.0/8"]}) as raven:
        async with served(raven) as url:
            yield url
        await asyncio.to_thread(raven.collector.flush)


@pytest.fixture(params=["Client", "AsyncClient"])
async def ask(request: pytest.FixtureRequest, url: str) -> AsyncGenerator[Ask]:
    if request.param == "Client":
        with Client(url) as blocking:

            def work(operation: str, /, *args: Any, **kwargs: Any) -> Any:
                given = getattr(blocking, operation)(*args, **kwargs)
                return list(given) if hasattr(given, "__next__") else given

            yield partial(asyncio.to_thread, work)
        return
    async with AsyncClient(url) as client:

        async def awaited(operation: str, /, *args: Any, **kwargs: Any) -> Any:
            given = getattr(client, operation)(*args, **kwargs)
            return [each async for each in given] if hasattr(given, "__anext__") else await given

        yield awaited


@pytest.mark.req("AD-02")
async def test_what_is_defined_can_be_called(ask: Ask, shop: HttpServer) -> None:
    """A service and a tool on it are made, called, and gone when they are deleted, tools before their service."""
    service: ServiceInfo = await ask("add_service", "shop", "rest_api", "http", CONNECTION, shared=True)
    assert (service.name, service.type, service.shared, service.version) == ("shop", "rest_api", True, 1)
    params = {"endpoint": shop.url}
    made: ToolDefinition = await ask("add_tool", "get_order", "shop", GET, ORDER, connection_params=params)
    assert (made.key, made.service_id, made.effect, made.operation["path"]) == (
        "get_order",
        service.service_id,
        None,
        "/orders/{{id}}",
    )
    assert (await ask("call", "get_order", {"id": "7"}, session_id="s")) == {"asked": "GET /orders/7"}
    assert [each.tool_id for each in await ask("tools")] == ["get_order"]
    assert [each.service_id for each in await ask("services")] == [service.service_id]
    with pytest.raises(Conflict):
        await ask("delete_service", service.service_id)
    await ask("delete_tool", "get_order")
    await ask("delete_service", service.service_id, version=service.version)
    for missing in (ask("service", service.service_id), ask("tool_definition", "get_order")):
        with pytest.raises(NotFound):
            await missing


@pytest.mark.req("AD-02")
async def test_a_model_is_asked_by_a_tool(ask: Ask) -> None:
    """A prompt on a model's service is a tool like any other: its answer comes back, and its key from the vault."""
    async with serving(ModelServer(lambda _: "Paris.")) as server:
        await ask("add_secret", "model-key", "api_key", KEY)
        await ask("add_service", "models", "llm_provider", "http", CONNECTION, requires_secret=True)
        prompt = {"type": "llm_call", "prompt_template": "Name the capital of {{country}}."}
        params = {"endpoint": server.url, "model": "small"}
        inputs = {"type": "object", "required": ["country"], "properties": {"country": {"type": "string"}}}
        await ask("add_tool", "capital", "models", prompt, inputs, connection_params=params, secret="model-key")
        assert await ask("call", "capital", {"country": "France"}, session_id="s") == "Paris."
    assert server.received[-1].json["messages"][-1]["content"] == "Name the capital of France."


async def test_a_change_is_made_to_the_version_that_was_seen(ask: Ask, shop: HttpServer) -> None:
    """What is stated changes and the rest stays; a version that is no more is refused, and none at all is any."""
    service: ServiceInfo = await ask("add_service", "shop", "rest_api", "http", CONNECTION)
    named: ServiceInfo = await ask("change_service", service.service_id, name="store", version=1)
    assert (named.name, named.enabled, named.version) == ("store", True, 2)
    with pytest.raises(StaleState) as stale:
        await ask("change_service", service.service_id, enabled=False, version=1)
    assert stale.value.details["current"] == 2
    off: ServiceInfo = await ask("change_service", service.service_id, enabled=False)
    assert (off.name, off.enabled, off.version) == ("store", False, 3)
    with pytest.raises(StaleState):
        await ask("delete_service", service.service_id, version=2)
    await ask("change_service", service.service_id, enabled=True)
    checked: ServiceInfo = await ask("check_service", service.service_id)
    assert checked.last_health_check is not None
    assert await ask("service", service.service_id) == checked


async def test_what_may_be_missing_is_taken_away_by_none(ask: Ask, shop: HttpServer) -> None:
    """A declared effect, a time limit and a secret are kept unless they are stated, and None ends them."""
    await ask("add_service", "shop", "rest_api", "http", CONNECTION)
    secret = await ask("add_secret", "shop-key", "api_key", "value-of-the-shop-key")
    options: dict[str, Any] = {"effect": "write", "timeout_ms": 900, "secret": "shop-key"}
    params = {"endpoint": shop.url}
    made: ToolDefinition = await ask("add_tool", "cancel", "shop", POST, ORDER, connection_params=params, **options)
    assert (made.effect, made.timeout_ms, made.secret_id) == ("write", 900, secret.secret_id)
    kept: ToolDefinition = await ask("change_tool", "cancel", description="Cancel an order.", sensitivity="high")
    assert (kept.effect, kept.timeout_ms, kept.secret_id) == ("write", 900, secret.secret_id)
    assert (kept.description, kept.sensitivity) == ("Cancel an order.", "high")
    bare: ToolDefinition = await ask("change_tool", "cancel", effect=None, timeout_ms=None, secret=None)
    assert (bare.effect, bare.timeout_ms, bare.secret_id, bare.version) == (None, None, None, 3)
    await ask("delete_secret", secret.secret_id, version=secret.version)


async def test_a_tool_that_writes_from_now_on_is_called_as_one(ask: Ask, shop: HttpServer) -> None:
    """What the client believed of a tool ends with the client's own change: the next call has a key and goes out."""
    await ask("add_service", "shop", "rest_api", "http", CONNECTION)
    params = {"endpoint": shop.url}
    await ask("add_tool", "order", "shop", POST, ORDER, connection_params=params, effect="read")
    await ask("call", "order", {"id": "1"}, session_id="s")
    await ask("change_tool", "order", effect="write")
    assert (await ask("tool_definition", "order")).effect == "write"
    first = await ask("invoke", "order", {"id": "2"}, session_id="s")
    assert (first.status, first.side_effect) == ("success", "write")


@pytest.mark.req("AD-08")
async def test_blueprints_are_copied_and_archived(ask: Ask, shop: HttpServer) -> None:
    """What is made from a blueprint says where it came from; an archived one leaves the list and can be read."""
    of_services: ServiceTemplate = await ask(
        "add_service_template", "any shop", "rest_api", "http", CONNECTION, description="A shop."
    )
    of_tools: ToolTemplate = await ask(
        "add_tool_template", "an order", GET, ORDER, timeout_ms=700, description="An order."
    )
    service: ServiceInfo = await ask("make_service", of_services.template_id, "shop")
    placed: dict[str, Any] = {"connection_params": {"endpoint": shop.url}, "description": "One order."}
    made: ToolDefinition = await ask("make_tool", of_tools.template_id, "get_order", "shop", **placed)
    assert made.description == "One order."
    closed: ServiceInfo = await ask("make_service", of_services.template_id, "closed", enabled=False, shared=True)
    assert [(each.enabled, each.shared) for each in (service, closed)] == [(True, False), (False, True)]
    assert (service.service_template_id, made.tool_template_id) == (of_services.template_id, of_tools.template_id)
    assert (made.timeout_ms, made.operation) == (700, of_tools.operation)
    assert (await ask("call", "get_order", {"id": "7"}, session_id="s")) == {"asked": "GET /orders/7"}
    for kind, template in (("service", of_services), ("tool", of_tools)):
        renamed = await ask(f"change_{kind}_template", template.template_id, name="other", description=None, version=1)
        assert (renamed.name, renamed.description, renamed.version) == ("other", None, 2)
        await ask(f"archive_{kind}_template", template.template_id, version=2)
        assert await ask(f"{kind}_templates") == []
        assert [each.archived for each in await ask(f"{kind}_templates", archived=True)] == [True]
        back = await ask(f"change_{kind}_template", template.template_id, archived=False)
        assert back == await ask(f"{kind}_template", template.template_id)
        assert back.archived is False


async def test_a_definition_that_makes_no_sense_names_its_field(ask: Ask) -> None:
    """What the server refuses is raised as the error it is inside the house."""
    with pytest.raises(InvalidDefinition) as refused:
        await ask("add_service", "shop", "rest_api", "bolt", CONNECTION)
    assert refused.value.details["field"] == "protocol"


async def test_people_are_let_in_and_locked_out(ask: Ask) -> None:
    """A user's role and access change by the version that was seen, and the audit log has an entry for each."""
    user = await ask("add_user", "uma")
    assert (user.role, user.active) == ("member", True)
    locked = await ask("change_user", user.user_id, role="admin", active=False, version=user.version)
    assert (locked.role, locked.active) == ("admin", False)
    with pytest.raises(StaleState):
        await ask("change_user", user.user_id, active=True, version=user.version)
    assert await ask("user", user.user_id) == locked
    entries = await ask("audit", newest=True)
    assert await ask("audit_entry", entries[0].id) == entries[0]
