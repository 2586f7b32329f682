"""Whose things are whose, on both stores: what others see, what they may use, and what they are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.catalog.town import Town
from twinraven.catalog import Catalog, HealthStatus, ServiceChange, TemplateChange, ToolChange, ToolPlacement
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, ToolUnavailable
from twinraven.storage import Database
from twinraven.tenancy import Principal

Ask = Callable[[Principal, str], Awaitable[object]]


@pytest.fixture
async def town(database: Database, tmp_path: Path) -> Town:
    return await Town(database, tmp_path / "keys").settle()


def doors_to_services(town: Town) -> dict[str, Ask]:
    """Every way to name a service."""
    catalog = town.catalog
    return {
        "get": catalog.services.service,
        "update": lambda who, ref: catalog.services.update(who, ref, ServiceChange(name="mine")),
        "delete": catalog.services.delete,
        "check": catalog.health.check_health,
        "use": lambda who, ref: town.equip(ref, who, key="mine"),
    }


def doors_to_tools(town: Town) -> dict[str, Ask]:
    catalog = town.catalog
    return {
        "get": catalog.tools.tool,
        "update": lambda who, ref: catalog.tools.update(who, ref, ToolChange(name="mine")),
        "delete": catalog.tools.delete,
    }


def doors_to_templates(town: Town) -> dict[str, Ask]:
    catalog = town.catalog
    return {
        "get": lambda who, ref: catalog.templates.template(who, "service", ref),
        "get as tool": lambda who, ref: catalog.templates.template(who, "tool", ref),
        "update": lambda who, ref: catalog.templates.update(who, "service", ref, TemplateChange(name="mine")),
        "make service": lambda who, ref: catalog.templates.make_service(who, ref, "copy"),
        "make tool": lambda who, ref: catalog.templates.make_tool(who, ref, ToolPlacement("copy", "shop")),
    }


async def answer_to(ask: Ask, who: Principal, ref: str) -> str:
    with pytest.raises(NotFound) as refusal:
        await ask(who, ref)
    return repr(refusal.value.as_json()).replace(ref, "REF")


@pytest.mark.req("AD-06")
async def test_what_is_not_yours_and_not_shared_is_not_there(town: Town) -> None:
    """Through every door, a private thing's id gives another owner and another tenant the answer of no id at all."""
    service = await town.serve()
    tool = await town.equip(service)
    template = await town.draw(name="blueprint")
    doors = [
        *((ask, service.service_id) for ask in doors_to_services(town).values()),
        *((ask, tool.tool_id) for ask in doors_to_tools(town).values()),
        *((ask, template.template_id) for ask in doors_to_templates(town).values()),
    ]
    for ask, ref in doors:
        for stranger in (town.bob, town.eve):
            assert await answer_to(ask, stranger, ref) == await answer_to(ask, stranger, "0" * 32)
    span = (utc_now() - timedelta(hours=1), utc_now())
    for stranger in (town.bob, town.eve):
        assert await answer_to(doors_to_services(town)["get"], stranger, "shop") == await answer_to(
            doors_to_services(town)["get"], stranger, "none"
        )
        assert await answer_to(doors_to_tools(town)["get"], stranger, "get_order") == await answer_to(
            doors_to_tools(town)["get"], stranger, "none"
        )
        assert await town.catalog.services.services(stranger) == []
        assert await town.catalog.tools.tools(stranger) == []
        assert await town.catalog.templates.templates(stranger, "service", include_archived=True) == []
        assert await town.catalog.health.history(stranger, *span, width=timedelta(hours=1)) == []
    assert await town.catalog.services.service(town.ada, "shop") == service
    assert await town.catalog.tools.tool(town.ada, "get_order") == tool


@pytest.mark.req("AD-06")
async def test_what_is_shared_reaches_the_tenant_and_no_further(town: Town) -> None:
    """Others of the tenant see it and may not change it; another tenant still gets the answer of no id at all."""
    service = await town.serve(shared=True)
    tool = await town.equip(service, shared=True)
    template = await town.draw(name="blueprint", shared=True)
    assert await town.catalog.services.services(town.bob) == [service]
    assert await town.catalog.services.service(town.bob, "shop") == service
    assert await town.catalog.tools.tools(town.bob) == [tool]
    assert await town.catalog.templates.templates(town.bob, "service") == [template]
    changes: list[Awaitable[object]] = [
        doors_to_services(town)["update"](town.bob, service.service_id),
        doors_to_services(town)["delete"](town.bob, service.service_id),
        doors_to_services(town)["check"](town.bob, service.service_id),
        doors_to_tools(town)["update"](town.bob, "get_order"),
        doors_to_tools(town)["delete"](town.bob, "get_order"),
        doors_to_templates(town)["update"](town.bob, template.template_id),
    ]
    for change in changes:
        with pytest.raises(PolicyViolation, match="belongs to somebody else"):
            await change
    for ask, ref in (
        *((ask, service.service_id) for ask in doors_to_services(town).values()),
        *((ask, "get_order") for ask in doors_to_tools(town).values()),
        *((ask, template.template_id) for ask in doors_to_templates(town).values()),
    ):
        assert await answer_to(ask, town.eve, ref) == await answer_to(ask, town.eve, "0" * 32)


@pytest.mark.req("AD-06")
async def test_using_anothers_service_needs_it_to_be_shared(town: Town) -> None:
    """Bob's tool on Ada's service can be made once she shares it; she is told of it, and not what it is called."""
    service = await town.serve()
    with pytest.raises(NotFound, match="no service"):
        await town.equip(service, town.bob)
    await town.catalog.services.update(town.ada, "shop", ServiceChange(shared=True))
    tool = await town.equip(service, town.bob)
    with pytest.raises(Conflict, match="used by 1 of other users") as refusal:
        await town.catalog.services.delete(town.ada, "shop")
    assert "get_order" not in str(refusal.value.as_json())
    assert (tool.owner_id, tool.service_id) == (town.bob.user_id, service.service_id)
    assert (await town.equip("shop", town.bob, key="by_name")).service_id == service.service_id


@pytest.mark.req("AD-06", "AD-03")
async def test_unsharing_a_service_stops_the_tools_of_others(town: Town) -> None:
    """Theirs are down and refused, with the reason; the owner's go on; sharing again lets them go on too."""
    service = await town.serve(shared=True)
    await town.equip(service)
    await town.equip(service, town.bob, key="bobs")
    await town.equip(service, town.bob, key="bobs_disabled", enabled=False)
    await town.catalog.health.check_health(town.ada, "shop")
    await town.catalog.services.update(town.ada, "shop", ServiceChange(shared=False))
    bobs = await town.catalog.tools.tool(town.bob, "bobs")
    assert bobs.status is HealthStatus.DOWN
    assert "not shared any more" in str(bobs.error_message)
    with pytest.raises(ToolUnavailable, match="not shared any more"):
        await town.catalog.bindings.binding("default", "bobs", caller=town.bob.user_id)
    assert (await town.catalog.tools.tool(town.ada, "get_order")).status is HealthStatus.HEALTHY
    assert (await town.catalog.bindings.binding("default", "get_order", caller="local")).tool.key == "get_order"
    await town.catalog.health.check_health(town.ada, "shop")
    assert (await town.catalog.tools.tool(town.bob, "bobs")).status is HealthStatus.DOWN
    await town.catalog.services.update(town.ada, "shop", ServiceChange(shared=True))
    assert (await town.catalog.tools.tool(town.bob, "bobs")).status is HealthStatus.DEGRADED
    assert (await town.catalog.bindings.binding("default", "bobs", caller=town.bob.user_id)).service.shared
    off = await town.catalog.tools.tool(town.bob, "bobs_disabled")
    assert (off.status, off.error_message) == (HealthStatus.DOWN, "disabled")


@pytest.mark.req("AD-06")
async def test_a_tool_on_a_service_that_was_unshared_can_be_tidied_up(town: Town) -> None:
    """Its owner may rename, disable and delete it, but not bind it anew to what they cannot see."""
    service = await town.serve(shared=True)
    await town.equip(service, town.bob, key="bobs")
    await town.catalog.services.update(town.ada, "shop", ServiceChange(shared=False))
    tools = town.catalog.tools
    assert (await tools.update(town.bob, "bobs", ToolChange(name="old one", shared=True))).name == "old one"
    with pytest.raises(NotFound, match="no service"):
        await tools.update(town.bob, "bobs", ToolChange(connection_params={"endpoint": "https://b.example"}))
    assert (await tools.update(town.bob, "bobs", ToolChange(enabled=False))).status is HealthStatus.DOWN
    again = await tools.update(town.bob, "bobs", ToolChange(enabled=True))
    assert (again.status, "not shared" in str(again.error_message)) == (HealthStatus.DOWN, True)
    await tools.delete(town.bob, "bobs")


async def test_a_name_means_ones_own_service_first(town: Town) -> None:
    """A shared service of the same name does not get in the way; two shared ones must be told apart by id."""
    adas = await town.serve(shared=True)
    bobs = await town.serve(town.bob)
    assert await town.catalog.services.service(town.bob, "shop") == bobs
    carol = Principal("default", (await town.house.neighbour()).user_id, "member")
    assert await town.catalog.services.service(carol, "shop") == adas
    await town.catalog.services.update(town.bob, "shop", ServiceChange(shared=True))
    with pytest.raises(Conflict, match="use the id"):
        await town.catalog.services.service(carol, "shop")


@pytest.mark.req("AD-04", "AD-06")
async def test_a_shared_tool_with_a_secret_is_visible_and_not_runnable(town: Town) -> None:
    """It runs for its owner alone; without a secret anybody who sees it may run it."""
    service = await town.serve(shared=True)
    await town.house.keep("shop-key")
    await town.equip(service, secret="shop-key", shared=True)
    await town.equip(service, key="open", shared=True)
    await town.equip(service, key="private")
    bind, may_call = town.catalog.bindings.binding, Catalog(town.catalog.source).may_use
    assert (await town.catalog.tools.tool(town.bob, "get_order")).shared
    with pytest.raises(PolicyViolation, match="its owner's secret"):
        await bind("default", "get_order", caller=town.bob.user_id)
    bound = await bind("default", "get_order", caller="local")
    assert bound.secret_ref is not None
    assert await town.house.vault.reveal(bound.secret_ref, for_user="local", tool_owner=bound.tool.owner_id)
    assert (await bind("default", "open", caller=town.bob.user_id)).secret_ref is None
    with pytest.raises(NotFound, match="no tool 'private'"):
        await bind("default", "private", caller=town.bob.user_id)
    with pytest.raises(NotFound, match="no tool 'open'"):
        await bind(town.eve.tenant_id, "open", caller=town.eve.user_id)
    bob = town.bob.user_id
    assert [may_call("default", bob, key) for key in ("get_order", "open", "private", "of_another_source")] == [
        False,
        True,
        False,
        True,
    ]
    assert all(may_call("default", "local", key) for key in ("get_order", "open", "private"))
