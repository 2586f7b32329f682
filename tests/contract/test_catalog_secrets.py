"""Definitions on both stores: none of them may hold the value of a secret in clear."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.homes import all_text, opened_home
from tests.postgres import PostgresLogin
from tests.unit.catalog.town import CONNECTION, Town, inputs, service_body, tool_body
from twinraven.app import TwinRaven
from twinraven.catalog import (
    ServiceChange,
    ServiceSpec,
    TemplateChange,
    TemplateSpec,
    ToolChange,
    ToolSpec,
)
from twinraven.foundation.errors import InvalidDefinition
from twinraven.storage import Database
from twinraven.tenancy import LOCAL

CANARY = "canary-5f1d9c02b7"
_OPERATION = {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}

Attempt = Callable[[Town], Coroutine[Any, Any, Any]]


@pytest.fixture
async def town(database: Database, tmp_path: Path) -> Town:
    town = await Town(database, tmp_path / "keys").settle()
    await town.house.keep("shop-key", CANARY)
    return town


def _tool(**fields: Any) -> Attempt:
    async def make(town: Town) -> None:
        await town.serve()
        await town.catalog.tools.create(town.ada, ToolSpec.from_json(tool_body(**fields)))

    return make


def _changed_tool(**fields: Any) -> Attempt:
    async def change(town: Town) -> None:
        await town.equip(await town.serve())
        await town.catalog.tools.update(town.ada, "get_order", ToolChange.from_json(fields))

    return change


def _changed_service(**fields: Any) -> Attempt:
    async def change(town: Town) -> None:
        await town.serve()
        await town.catalog.services.update(town.ada, "shop", ServiceChange.from_json(fields))

    return change


def _template(**fields: Any) -> Attempt:
    async def make(town: Town) -> None:
        body = {"name": "reader", "operation": _OPERATION, "inputSchema": inputs("orderId"), **fields}
        await town.catalog.templates.create(town.ada, TemplateSpec.from_json("tool", body))

    return make


async def _changed_template(town: Town) -> None:
    template = await town.draw(name="web")
    change = TemplateChange.from_json({"description": CANARY})
    await town.catalog.templates.update(town.ada, "service", template.template_id, change)


_PLACES: dict[str, tuple[Attempt, str]] = {
    "a service's name": (lambda town: town.serve(name=CANARY), "name"),
    "a service's schema": (
        lambda town: town.serve(connectionSchema={**CONNECTION, "default": {"keys": ["a", f"x{CANARY}"]}}),
        "connection_schema.default.keys[1]",
    ),
    "a member's own name": (
        lambda town: town.serve(connectionSchema={**CONNECTION, "default": {CANARY: 1}}),
        "connection_schema.default",
    ),
    "a changed schema": (
        _changed_service(connectionSchema={**CONNECTION, "description": CANARY}),
        "connection_schema.description",
    ),
    "a tool's parameters": (
        _tool(connectionParams={"endpoint": f"https://shop.example/{CANARY}"}),
        "connection_params.endpoint",
    ),
    "a tool's operation": (_tool(operation={**_OPERATION, "headers": {"X-Key": CANARY}}), "operation.headers.X-Key"),
    "a tool's description": (_tool(description=f"use {CANARY}"), "description"),
    "a tool's schema": (_tool(outputSchema={"const": CANARY}), "output_schema.const"),
    "a changed operation": (
        _changed_tool(operation={**_OPERATION, "query": {"key": CANARY}}),
        "operation.query.key",
    ),
    "a tool template": (_template(operation={**_OPERATION, "query": {"key": CANARY}}), "operation.query.key"),
    "a service template": (lambda town: town.draw(description=CANARY), "description"),
    "a changed template": (_changed_template, "description"),
}


@pytest.mark.req("AD-04")
@pytest.mark.parametrize("place", _PLACES)
async def test_a_secret_in_clear_is_refused_by_the_name_of_its_field(town: Town, place: str) -> None:
    """Wherever a definition holds the value, the refusal names the field and not the value, and nothing is kept."""
    attempt, field = _PLACES[place]
    with pytest.raises(InvalidDefinition, match="holds the value of a secret") as refused:
        await attempt(town)
    assert refused.value.details["field"] == field
    assert CANARY not in str(refused.value.as_json())
    kept = [one.as_json() for one in await town.catalog.services.services(town.ada)]
    kept += [one.as_json() for one in await town.catalog.tools.tools(town.ada)]
    for kind in ("service", "tool"):
        kept += [one.as_json() for one in await town.catalog.templates.templates(town.ada, kind)]
    assert CANARY not in str(kept)


async def test_what_was_there_before_the_secret_can_still_be_switched(town: Town) -> None:
    """A change is judged by what it states: an old definition can be switched off although a secret came later."""
    await town.equip(await town.serve(), description="opens with sesame-street-1")
    await town.house.keep("door", "sesame-street-1")
    changed = await town.catalog.tools.update(town.ada, "get_order", ToolChange.from_json({"enabled": False}))
    assert changed.enabled is False
    with pytest.raises(InvalidDefinition, match="description holds the value"):
        await town.catalog.tools.update(
            town.ada, "get_order", ToolChange.from_json({"description": "still sesame-street-1"})
        )


async def test_another_tenants_secret_is_no_reason(town: Town) -> None:
    """Whether a value is somebody else's secret cannot be found out by trying to define it."""
    assert (await town.serve(town.eve, name=CANARY)).name == CANARY


@pytest.fixture(params=["sqlite", "postgres"])
async def raven(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[TwinRaven]:
    login: PostgresLogin | None = None
    if request.param == "postgres":
        login = request.getfixturevalue("postgres_login")
    with opened_home(tmp_path, postgres=login) as raven:
        yield raven


@pytest.mark.req("AD-04")
async def test_no_row_of_a_home_holds_the_canary(raven: TwinRaven) -> None:
    """A definition that holds the value is refused, and no table has it afterwards but sealed."""
    await raven.vault.create("default", "local", name="shop-key", type="api_key", value=CANARY)
    body = service_body(connectionSchema={**CONNECTION, "examples": [{"endpoint": CANARY}]})
    with pytest.raises(InvalidDefinition, match=r"connection_schema\.examples\[0\]\.endpoint"):
        await raven.defined.services.create(LOCAL, ServiceSpec.from_json(body))
    assert await raven.defined.services.services(LOCAL) == []
    assert CANARY not in all_text(raven)
