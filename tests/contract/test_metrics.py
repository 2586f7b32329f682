"""Metrics through the API and an opened home, on both stores: typed, unchangeable, summed up, let go of in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.api_homes import ApiHome, api_home, login_of, made
from twinraven.foundation.errors import AppendOnly
from twinraven.metrics import SeriesQuery
from twinraven.storage import Transaction

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


def wanted(name: str = "rating", **more: Any) -> dict[str, Any]:
    return {"name": name, "scope": "tool", "aggregation": "sum", "data_type": "integer", **more}


@pytest.mark.req("AD-28")
async def test_values_are_typed_and_summed_up_in_every_way(home: ApiHome) -> None:
    """Values of the metric's type alone are taken, of things that exist, and summed up by time and dimension."""
    ada = await home.tenant("ada")
    metric = made(await ada.door.post("/v1/metric-definitions", wanted()))["metric_id"]
    values = f"/v1/metrics/{metric}/values"
    told = ((0, 5, "ann"), (10, 1, "bob"), (20, 3, "bob"), (30, 2, "eve"), (70, 3, "ann"), (120, 50, "ann"))
    for minute, value, user in told:
        at = (NOON + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")
        dimensions = {"user": user, "half": str(minute // 30 % 2)}
        body = {"entity_id": "search", "value": value, "timestamp": at, "dimensions": dimensions}
        made(await ada.door.post(values, body))
    window = "since=2026-05-01T12:00:00Z&until=2026-05-01T14:00:00Z"
    for way, summed in (
        ("sum", [11, 3]),
        ("avg", [2.75, 3.0]),
        ("min", [1, 3]),
        ("max", [5, 3]),
        ("count", [4, 1]),
        ("last", [2, 3]),
    ):
        found = made(await ada.door.get(f"/v1/metrics/{metric}/series?{window}&aggregation={way}"))["items"]
        assert [point["value"] for point in found] == summed, way
        assert found[0]["start"] == "2026-05-01T12:00:00.000000Z"
    for asked, summed in (
        ("dimension=user=ann", [5, 3]),
        ("dimension=user=ann,half=0", [5, 3]),
        ("dimension=user=bob,half=1", []),
        ("dimension=half=1", [2]),
        ("bucket_s=7200", [14]),
    ):
        found = made(await ada.door.get(f"/v1/metrics/{metric}/series?{window}&{asked}"))["items"]
        assert [point["value"] for point in found] == summed, asked
    made(await ada.door.post(values, {"entity_id": "read", "value": 9, "timestamp": "2026-05-01T12:05:00Z"}))
    listed = made(await ada.door.get(f"{values}?{window}&entity_id=search"))["items"]
    assert [each["value"] for each in listed] == [5, 1, 3, 2, 3]
    assert listed[0]["dimensions"] == {"user": "ann", "half": "0"}
    summed = made(await ada.door.get(f"/v1/metrics/{metric}/series?{window}&aggregation=sum&entity_id=search"))["items"]
    assert [point["value"] for point in summed] == [11, 3]
    for wrong in (1.5, True, "3", 2**60):
        refused = await ada.door.post(values, {"entity_id": "search", "value": wrong})
        assert (refused.status, refused.json()["details"]["field"]) == (400, "value"), wrong
    assert (await ada.door.post(values, {"entity_id": "nothing", "value": 1})).status == 404
    assert (await ada.door.post("/v1/metrics/none/values", {"entity_id": "search", "value": 1})).status == 404


@pytest.mark.req("AD-28")
async def test_definitions_are_for_administrators_and_keep_their_values(home: ApiHome) -> None:
    """Names are unique in a scope, members define nothing, values go only with cascade or when their time is over."""
    ada = await home.tenant("ada")
    member = await home.user(ada.tenant_id, "mia")
    assert (await member.door.post("/v1/metric-definitions", wanted())).status == 403
    metric = made(await ada.door.post("/v1/metric-definitions", wanted(retention_days=30)))["metric_id"]
    taken = await ada.door.post("/v1/metric-definitions", wanted())
    assert (taken.status, taken.json()["details"].get("field")) == (409, "name")
    other = made(await ada.door.post("/v1/metric-definitions", wanted(scope="process")))["metric_id"]
    summed_times = wanted("seen", data_type="timestamp", aggregation="sum")
    assert (await ada.door.post("/v1/metric-definitions", summed_times)).status == 400
    recent = (datetime.now(UTC) - timedelta(days=29)).isoformat().replace("+00:00", "Z")
    for more in ({}, {"timestamp": recent}):
        made(await ada.door.post(f"/v1/metrics/{metric}/values", {"entity_id": "search", "value": 7, **more}))
    old = {"entity_id": "search", "value": 1, "timestamp": "2020-01-01T00:00:00Z"}
    made(await ada.door.post(f"/v1/metrics/{metric}/values", old))
    raven, tenant = home.raven, ada.tenant_id
    for sql in ("UPDATE metric_values SET value = 0", "DELETE FROM metric_values"):
        with pytest.raises(AppendOnly):
            await raven.database.write(tenant, lambda tx, sql=sql: _run(tx, sql))
    assert await raven.metrics.prune(tenant) == 1
    kept = f"/v1/metric-definitions/{metric}/delete"
    assert (await ada.door.post(kept, {})).status == 409
    assert made(await ada.door.post(kept, {"cascade": True})) == {"values": 2}
    assert made(await ada.door.post(f"/v1/metric-definitions/{other}/delete", {})) == {"values": 0}
    changed = made(await ada.door.post("/v1/metric-definitions", wanted("again")))["metric_id"]
    body = {"description": "d", "aggregation": "max", "retention_days": 3}
    shown = made(await ada.door.post(f"/v1/metric-definitions/{changed}/change", body))
    assert {name: shown[name] for name in body} == body
    changes = f"/v1/metric-definitions/{changed}/change"
    assert made(await ada.door.post(changes, {"description": "e"}))["retention_days"] == 3
    made(await ada.door.post("/v1/metric-definitions", wanted("taken")))
    assert (await ada.door.post(changes, {"name": "taken"})).status == 409
    seen = made(await ada.door.post("/v1/metric-definitions", {**summed_times, "aggregation": "last"}))["metric_id"]
    assert (await ada.door.post(f"/v1/metric-definitions/{seen}/change", {"aggregation": "sum"})).status == 400
    for target in (changes, f"/v1/metric-definitions/{changed}/delete"):
        assert (await member.door.post(target, {})).status == 403
    forever = made(await ada.door.post(f"/v1/metric-definitions/{changed}/change", {"retention_days": None}))
    assert forever["retention_days"] is None


@pytest.mark.req("AD-28")
async def test_the_system_measures_itself(home: ApiHome) -> None:
    """Calls are metrics from the first one on, each counted once however often somebody looks."""
    ada = await home.tenant("ada")
    call = {"tool_name": "search", "payload": {"query": "x"}, "session_id": "s"}
    for _ in range(3):
        made(await ada.door.post("/v1/calls", call))
    for _ in range(2):
        listed = made(await ada.door.get("/v1/metric-definitions?scope=tool"))["items"]
        [calls] = [each for each in listed if each["name"] == "calls"]
        now = datetime.now(UTC)
        wish = SeriesQuery(now - timedelta(days=1), now + timedelta(minutes=1), 86_400, "search")
        points = await home.raven.metrics.series(ada.tenant_id, calls["metric_id"], wish)
        assert sum(int(point.value) for point in points) == 3


@pytest.mark.req("AD-28")
async def test_a_long_log_is_measured_in_parts_beside_the_requests(
    home: ApiHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer waits only so long and says that it does not hold everything yet; in the end each call counts once."""
    monkeypatch.setattr("twinraven.app.system_figures._AT_ONCE", 2)
    ada = await home.tenant("ada")
    for number in range(7):
        call = {"tool_name": "search", "payload": {"query": "x"}, "session_id": f"s{number}"}
        made(await ada.door.post("/v1/calls", call))
    listed = made(await ada.door.get("/v1/metric-definitions?scope=tool"))["items"]
    [calls] = [each["metric_id"] for each in listed if each["name"] == "calls"]
    monkeypatch.setattr("twinraven.api.resources.metrics._PATIENCE_S", 0)
    asked = f"/v1/metrics/{calls}/series?entity_id=search&bucket_s=86400"
    first = made(await ada.door.get(asked))
    assert first["is_counting"]
    async with asyncio.timeout(60):
        while (found := made(await ada.door.get(asked)))["is_counting"]:
            pass
    assert sum(int(point["value"]) for point in found["items"]) == 7
    for number in range(5):
        call = {"tool_name": "search", "payload": {"query": "y"}, "session_id": f"s{number}"}
        made(await ada.door.post("/v1/calls", call))
    await home.raven.metrics.collect(ada.tenant_id)
    now = datetime.now(UTC)
    wish = SeriesQuery(now - timedelta(days=1), now + timedelta(minutes=1), 86_400, "search")
    points = await home.raven.metrics.series(ada.tenant_id, calls, wish, collects=False)
    assert sum(int(point.value) for point in points) == 12


@pytest.mark.req("AD-28")
async def test_the_systems_own_metrics_are_there_from_the_start(home: ApiHome) -> None:
    """Calls, turns saved, run and queue times, tokens and cost are there before anything is measured."""
    ada = await home.tenant("ada")
    listed = made(await ada.door.get("/v1/metric-definitions"))["items"]
    tools = {each["name"]: each for each in listed if each["scope"] == "tool"}
    assert tools.keys() == {"calls", "failed_calls", "call_ms", "turns_saved", "tokens", "cost"}
    assert {each["name"] for each in listed if each["scope"] == "process"} == {"run_ms", "queue_ms"}
    gone = f"/v1/metric-definitions/{tools['cost']['metric_id']}/delete"
    assert made(await ada.door.post(gone, {})) == {"values": 0}
    left = made(await ada.door.get("/v1/metric-definitions?scope=tool"))["items"]
    assert {each["name"] for each in left} == tools.keys() - {"cost"}


def _run(tx: Transaction, sql: str) -> None:
    tx.execute(sql)
