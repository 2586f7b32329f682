"""Health on both stores: what checks find, what they store, and how they keep calls away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.houses import VALUE
from tests.unit.catalog.town import CONNECTION, Town
from twinraven.catalog import (
    CHECKS_KEPT,
    Endpoint,
    Health,
    HealthChecks,
    HealthStatus,
    ServiceChange,
    ServiceType,
    ToolChange,
)
from twinraven.catalog.check_sql import add_check
from twinraven.foundation.clock import from_micros, iso
from twinraven.foundation.errors import ToolUnavailable
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

_REFUSED = ToolUnavailable("connection refused")


@pytest.fixture
async def town(database: Database, tmp_path: Path) -> Town:
    return await Town(database, tmp_path / "keys").settle()


async def states(town: Town, *keys: str) -> list[str]:
    return [(await town.catalog.tools.tool(town.ada, key)).status.value for key in keys]


@pytest.mark.req("AD-03")
async def test_a_check_sets_status_time_and_message(town: Town) -> None:
    """On the service and on its tools, for better and for worse."""
    await town.equip(await town.serve())
    checked = await town.catalog.health.check_health(town.ada, "shop")
    tool = await town.catalog.tools.tool(town.ada, "get_order")
    for item in (checked, tool):
        assert (item.status, item.error_message) == (HealthStatus.HEALTHY, None)
        assert item.last_health_check == from_micros(town.house.now)
    town.probe.found["https://shop.example"] = _REFUSED
    town.pass_by(60)
    checked = await town.catalog.health.check_health(town.ada, "shop")
    tool = await town.catalog.tools.tool(town.ada, "get_order")
    for item in (checked, tool):
        assert (item.status, item.error_message) == (HealthStatus.DOWN, "connection refused")
        assert item.last_health_check == from_micros(town.house.now)
        assert item.state_version == 1


@pytest.mark.req("AD-03")
async def test_a_tool_is_as_healthy_as_the_place_it_connects_to(town: Town) -> None:
    """Each place is probed once; a service with some places gone is degraded, with all gone down."""
    service = await town.serve()
    other = {"endpoint": "https://other.example"}
    await town.equip(service)
    await town.equip(service, key="twin")
    await town.equip(service, key="other", connectionParams=other)
    await town.equip(service, key="off", enabled=False, connectionParams={"endpoint": "https://off.example"})
    town.probe.found["https://other.example"] = OSError("no route")
    checked = await town.catalog.health.check_health(town.ada, "shop")
    assert (checked.status, checked.error_message) == (HealthStatus.DEGRADED, "OSError: no route")
    assert await states(town, "get_order", "twin", "other", "off") == ["healthy", "healthy", "down", "down"]
    looked = sorted(endpoint.params["endpoint"] for endpoint in town.probe.looked)
    assert looked == ["https://other.example", "https://shop.example"]
    town.probe.found["https://shop.example"] = Health(HealthStatus.DOWN, "503")
    checked = await town.catalog.health.check_health(town.ada, "shop")
    assert checked.status is HealthStatus.DOWN
    assert "(and 1 more of 2)" in str(checked.error_message)
    town.probe.found.clear()
    town.probe.found["https://shop.example"] = Health(HealthStatus.DEGRADED, "slow")
    assert (await town.catalog.health.check_health(town.ada, "shop")).status is HealthStatus.DEGRADED
    assert await states(town, "get_order", "other") == ["degraded", "healthy"]


@pytest.mark.req("AD-03")
async def test_each_owners_place_is_probed_with_the_owners_secret(town: Town) -> None:
    """The same address with two secrets is two places."""
    service = await town.serve(shared=True)
    await town.house.keep("key")
    await town.house.keep("key", owner=town.bob.user_id)
    adas = await town.equip(service, secret="key")
    bobs = await town.equip(service, town.bob, key="bobs", secret="key")
    await town.catalog.health.check_health(town.ada, "shop")
    seen = {
        (endpoint.owner_id, None if endpoint.secret_ref is None else endpoint.secret_ref.secret_id)
        for endpoint in town.probe.looked
    }
    assert seen == {("local", adas.secret_id), (town.bob.user_id, bobs.secret_id)}


async def test_a_service_without_tools_is_checked_where_its_defaults_lead(town: Town) -> None:
    """Where they lead nowhere, nothing is probed, and it says so."""
    fixed = {
        "type": "object",
        "required": ["endpoint"],
        "properties": {"endpoint": {"type": "string", "default": "https://a.example"}},
    }
    await town.serve(connectionSchema=fixed)
    assert (await town.catalog.health.check_health(town.ada, "shop")).status is HealthStatus.HEALTHY
    assert [endpoint.params for endpoint in town.probe.looked] == [{"endpoint": "https://a.example"}]
    await town.serve(name="bare")
    bare = await town.catalog.health.check_health(town.ada, "bare")
    assert (bare.status, bare.error_message) == (HealthStatus.DEGRADED, "no tool on it states an address to check")


@pytest.mark.req("AD-03")
async def test_a_probe_that_hangs_or_breaks_is_a_finding(town: Town) -> None:
    """It ends in time, counts as down and says what happened."""

    class Hanging:
        async def probe(self, endpoint: Endpoint) -> Health:
            await asyncio.sleep(60)
            raise AssertionError(endpoint)

    await town.equip(await town.serve())
    town.probe.found["https://shop.example"] = ZeroDivisionError("bad probe\x00" + "x" * 5000)
    broken = await town.catalog.health.check_health(town.ada, "shop")
    assert broken.error_message == "it could not be checked: ZeroDivisionError; the log says more"
    town.probe.found["https://shop.example"] = ToolUnavailable("bad service\x00" + "x" * 5000)
    wordy = await town.catalog.health.check_health(town.ada, "shop")
    assert str(wordy.error_message).startswith("bad servicexxx")
    assert len(str(wordy.error_message)) < 500
    slow = HealthChecks(
        town.catalog.health._acts,  # pyright: ignore[reportPrivateUsage]
        town.catalog.services,
        {ServiceType.REST_API: Hanging()},
        timeout_s=0.01,
    )
    checked = await slow.check_health(town.ada, "shop")
    said = "did not answer within 0.01 s (connectors.health_timeout_s)"
    assert (checked.status, checked.error_message) == (HealthStatus.DOWN, said)


@pytest.mark.req("AD-04")
async def test_a_service_that_repeats_a_secret_does_not_publish_it(town: Town) -> None:
    """What a probe says is stored and audited without the secret, wherever in the sentence it stands."""
    await town.house.keep("key")
    await town.equip(await town.serve(shared=True), secret="key")
    town.probe.found["https://shop.example"] = ToolUnavailable(f'401: "the key {VALUE} is not valid"')
    checked = await town.catalog.health.check_health(town.ada, "shop")
    tool = await town.catalog.tools.tool(town.ada, "get_order")
    assert str(checked.error_message).startswith('401: "the key ')
    assert VALUE not in f"{checked}{tool}{await town.house.audit.entries('default')}"


@pytest.mark.req("AD-03")
async def test_what_changed_while_it_was_looked_at_is_not_overwritten(town: Town) -> None:
    """A finding about the old address says nothing about the new one."""
    await town.equip(await town.serve())
    changing, probing = asyncio.Event(), asyncio.Event()

    class Slow:
        async def probe(self, endpoint: Endpoint) -> Health:
            probing.set()
            await changing.wait()
            return Health(HealthStatus.DOWN, f"{endpoint.params['endpoint']} is gone")

    town.probes[ServiceType.REST_API] = Slow()
    checking = asyncio.create_task(town.catalog.health.check_health(town.ada, "shop"))
    await probing.wait()
    moved = ToolChange(connection_params={"endpoint": "https://new.example"})
    await town.catalog.tools.update(town.ada, "get_order", moved)
    await town.catalog.services.update(town.ada, "shop", ServiceChange(enabled=False))
    changing.set()
    assert (await checking).error_message == "disabled"
    tool = await town.catalog.tools.tool(town.ada, "get_order")
    assert (tool.status, tool.error_message) == (HealthStatus.DEGRADED, "not checked yet")


async def test_only_news_is_told(town: Town) -> None:
    """The audit log hears of a change of status once, and not of every look."""
    await town.equip(await town.serve())
    for finding in (None, None, _REFUSED, _REFUSED):
        if finding is not None:
            town.probe.found["https://shop.example"] = finding
        await town.catalog.health.check_health(town.ada, "shop")
    entries = await town.house.audit.entries("default")
    told = [(entry.event_type, entry.data["status"]) for entry in entries if "health" in entry.event_type]
    assert told == [
        ("tool.health_changed", "healthy"),
        ("service.health_changed", "healthy"),
        ("tool.health_changed", "down"),
        ("service.health_changed", "down"),
    ]
    assert {entry.actor_type for entry in entries if "health" in entry.event_type} == {"system"}


async def test_a_type_that_nothing_can_check_says_so(town: Town) -> None:
    """The service stays what it was."""
    del town.probes[ServiceType.REST_API]
    before = await town.serve()
    with pytest.raises(ToolUnavailable, match="nothing here can check a rest_api"):
        await town.catalog.health.check_health(town.ada, "shop")
    assert await town.catalog.services.service(town.ada, "shop") == before
    assert await town.catalog.health.check_due("default", older_than=timedelta()) == []


@pytest.mark.req("AD-03")
async def test_regular_checks_look_at_what_was_not_looked_at_for_long(town: Town) -> None:
    """Each enabled service in turn, whoever owns it, in this tenant alone."""
    await town.equip(await town.serve())
    await town.equip(await town.serve(town.bob), town.bob, key="bobs")
    await town.serve(name="off", enabled=False)
    await town.equip(await town.serve(town.eve), town.eve)
    minute = timedelta(minutes=1)
    assert len(await town.catalog.health.check_due("default", older_than=minute)) == 2
    assert await town.catalog.health.check_due("default", older_than=minute) == []
    town.pass_by(60)
    assert len(await town.catalog.health.check_due("default", older_than=minute)) == 2
    assert {endpoint.service.tenant_id for endpoint in town.probe.looked} == {"default"}


async def test_checks_are_remembered_for_a_week(town: Town) -> None:
    """By the hour, as they were found; what was deleted or is a week old is forgotten, and others' are not seen."""
    await town.equip(await town.serve())
    begin = from_micros(town.house.now)
    for found in (Health(HealthStatus.HEALTHY), _REFUSED, Health(HealthStatus.DEGRADED, "slow")):
        town.probe.found["https://shop.example"] = found
        await town.catalog.health.check_health(town.ada, "shop")
        town.pass_by(3600)
    hour = timedelta(hours=1)

    async def history(who: Principal) -> list[dict[str, Any]]:
        found = await town.catalog.health.history(who, begin, begin + timedelta(days=9), width=hour)
        return [{"name": service.name, **summary.as_json()} for service, summary in found]

    (shop,) = await history(town.ada)
    assert [(each["healthy"], each["down"], each["degraded"]) for each in shop["buckets"]] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
    ]
    assert [each["begins_at"] for each in shop["buckets"]] == [iso(begin + hour * place) for place in range(3)]
    assert (shop["checks"], shop["healthy"]) == (3, 1)
    assert await history(town.bob) == []
    town.pass_by(CHECKS_KEPT.total_seconds() - 2 * 3600)
    await town.catalog.health.check_health(town.ada, "shop")
    assert (await history(town.ada))[0]["checks"] == 3
    await town.catalog.tools.delete(town.ada, "get_order")
    await town.catalog.services.delete(town.ada, "shop")
    assert await history(town.ada) == []


async def test_quantiles_of_checks_are_nearest_ranks(town: Town) -> None:
    """The median and the 95th of a hundred, of those that got an answer; of one check it is that one."""
    service = await town.serve()
    began = from_micros(town.house.now)

    def fill(tx: Transaction, times: Iterable[int], status: HealthStatus, after: timedelta) -> None:
        for number, took in enumerate(times):
            at = began + after + timedelta(seconds=number)
            add_check(tx, "default", service.service_id, Health(status, None, at), took)

    async def quantiles() -> tuple[int | None, int | None]:
        ((_, found),) = await town.catalog.health.history(
            town.ada, began, began + timedelta(days=1), width=timedelta(hours=1)
        )
        return found.p50_ms, found.p95_ms

    database = town.house.database
    await database.write("default", lambda tx: fill(tx, [7000], HealthStatus.DOWN, timedelta()))
    assert await quantiles() == (None, None)
    await database.write("default", lambda tx: fill(tx, [42], HealthStatus.HEALTHY, timedelta(hours=1)))
    assert await quantiles() == (42, 42)
    rest = [each for each in range(1, 101) if each != 42]
    await database.write("default", lambda tx: fill(tx, rest, HealthStatus.HEALTHY, timedelta(hours=2)))
    assert await quantiles() == (50, 95)


@pytest.mark.req("AD-03")
async def test_health_gates_execution(town: Town) -> None:
    """A tool is bound while it and its service are enabled and not down; otherwise the refusal says what is wrong."""
    service = await town.serve()
    await town.equip(service)
    bind = town.catalog.bindings.binding
    assert (await bind("default", "get_order")).service == service

    async def refusal(*, passes: bool = False) -> str:
        with pytest.raises(ToolUnavailable) as refused:
            await bind("default", "get_order")
        assert refused.value.retryable == passes
        return refused.value.message

    town.probe.found["https://shop.example"] = _REFUSED
    await town.catalog.health.check_health(town.ada, "shop")
    assert "its service 'shop' is down: connection refused" in await refusal(passes=True)
    town.probe.found["https://shop.example"] = Health(HealthStatus.DEGRADED, "slow")
    await town.catalog.health.check_health(town.ada, "shop")
    assert (await bind("default", "get_order")).service.status is HealthStatus.DEGRADED
    await town.catalog.services.update(town.ada, "shop", ServiceChange(enabled=False))
    assert "its service 'shop' is disabled" in await refusal()
    await town.catalog.services.update(town.ada, "shop", ServiceChange(enabled=True))
    await town.catalog.tools.update(town.ada, "get_order", ToolChange(enabled=False))
    assert "cannot be called: disabled" in await refusal()
    await town.catalog.tools.update(town.ada, "get_order", ToolChange(enabled=True))
    await town.equip(service, key="dead", connectionParams={"endpoint": "https://dead.example"})
    town.probe.found["https://dead.example"] = _REFUSED
    await town.catalog.health.check_health(town.ada, "shop")
    assert (await bind("default", "get_order")).tool.key == "get_order"
    with pytest.raises(ToolUnavailable, match="it is down: connection refused"):
        await bind("default", "dead")


@pytest.mark.req("AD-03")
async def test_what_is_down_comes_back_by_itself(town: Town) -> None:
    """A call that finds it dead for a while has it looked at once more, however many calls there are."""
    await town.equip(await town.serve())
    town.probe.found["https://shop.example"] = _REFUSED
    await town.catalog.health.check_health(town.ada, "shop")
    bind = town.catalog.bindings.binding
    town.probe.found.clear()
    with pytest.raises(ToolUnavailable):
        await bind("default", "get_order")
    assert len(town.probe.looked) == 1
    town.pass_by(31)
    bound = await asyncio.gather(*(bind("default", "get_order") for _ in range(5)))
    assert {each.service.status for each in bound} == {HealthStatus.HEALTHY}
    assert len(town.probe.looked) == 2


async def test_defaults_that_came_later_reach_the_connector(town: Town) -> None:
    """A parameter that the schema gained after the tool was made has its default in the call."""
    await town.equip(await town.serve())
    wider = {**CONNECTION, "properties": {**CONNECTION["properties"], "region": {"type": "string", "default": "eu"}}}
    await town.catalog.services.update(town.ada, "shop", ServiceChange(connection_schema=wider))
    bound = await town.catalog.bindings.binding("default", "get_order")
    assert bound.params == {"endpoint": "https://shop.example", "timeout": 30, "region": "eu"}
