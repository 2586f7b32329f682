"""Lists over HTTP: every list of the API, walked in pages of every size, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.api_client import Door
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made, make_chain, seed, seed_effects
from tests.unit.catalog.town import inputs, service_body, tool_body
from twinraven.api import all_routes
from twinraven.serving.metrics import HttpMetrics
from twinraven.serving.paging import encode_cursor
from twinraven.tenancy import Principal

_PAGED: Final = [route for route in all_routes(HttpMetrics()) if route.is_paged]
_HOSTILE: Final[dict[type, list[Any]]] = {
    int: [0, -1, 2**63 - 1, -(2**63) + 1],
    str: ["", "zzz", "\U0010ffff", "x" * 1500, "'; DROP TABLE users; --", "ffffffff-ffff-4fff-8fff-ffffffffffff"],
}
_PLAN_STEP: Final = {"step_id": "1", "description": "Search.", "tool": "search", "arguments": {"query": "x"}}
_NAMES: Final = (
    "item_id",
    "merge_id",
    "id",
    "publish_id",
    "message_id",
    "transaction_id",
    "decision_id",
    "asset_id",
    "wallet_id",
    "budget_id",
    "sign_in_id",
    "summary_id",
    "introspection_id",
    "value_id",
    "metric_id",
    "run_id",
    "episode_id",
    "entity_id",
    "event_id",
    "approval_id",
    "chain_id",
    "session_id",
    "tool_id",
    "key_id",
    "user_id",
    "task_id",
    "goal_id",
    "campaign_id",
)
"""What things are told apart by: what is most their own first, for they name what they belong to as well."""

_NUMBERED: Final = {"versions": "version", "specs": "spec_version"}
"""Lists of the versions of one thing, and what numbers those."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@pytest.fixture
async def seeds(home: ApiHome) -> Seeds:
    return await seeded(home, "ada")


async def seeded(home: ApiHome, name: str) -> Seeds:
    """A tenant with one of everything, whose task has not begun: the spec of one that is complete stays as it is."""
    found = await seed(home.raven, await home.tenant(name), name=name)
    path = f"/v1/goals/{found.ids['goals', 'goal_id']}/tasks"
    planned = made(await found.door.post(path, {"tasks": [_task_spec(0)]}))
    found.ids["tasks", "task_id"] = planned["items"][0]["task_id"]
    return found


def _task_spec(number: int) -> dict[str, Any]:
    return {"task_type": "trend_research", "description": f"Look around {number}"}


async def fill(home: ApiHome, seeds: Seeds, number: int, *, speaks: bool = True) -> None:
    """One more of everything that is listed; turns only where somebody speaks."""
    door = seeds.door
    operation = {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}
    template = {"name": f"t{number}", "operation": operation, "input_schema": inputs("orderId")}
    call = {"tool_name": "refund", "payload": {"order": 100 + number}, "session_id": f"s{number}"}
    asked = await door.post("/v1/calls", call, Idempotency_Key=f"r{number}")
    assert asked.status == 202
    begun = await door.post("/v1/runs", {"tool_id": "search", "parameters": {"query": "x"}})
    assert begun.status == 202
    await home.raven.chains.add(seeds.tenant_id, [make_chain(number)])
    makings: list[tuple[str, Any]] = [
        ("services", service_body(name=f"s{number}")),
        ("tools", tool_body(key=f"tool{number}", service="ada-service")),
        ("service-templates", service_body(name=f"t{number}")),
        ("tool-templates", template),
        ("secrets", {"name": f"s{number}", "type": "password", "value": f"long-enough-{number}"}),
        ("episodes", {"group_id": f"g{number % 2}", "name": f"n{number}", "content": "Ann moved."}),
        ("entities", {"name": f"e{number}", "summary": "a thing"}),
        ("processes", {"definition": process_body(f"p{number}")}),
        ("users", {"name": f"u{number}"}),
        ("keys", {"label": f"k{number}"}),
        ("events", {"events": [{"session_id": f"s{number}", "tool_id": "search", "input_params": {}}] * 2}),
    ]
    for kind, body in [*makings, *_further(seeds, number)]:
        made(await door.post(f"/v1/{kind}", body))
    twins = [made(await door.post("/v1/entities", {"name": f"{name}{number}", "summary": "a twin"})) for name in "xy"]
    made(await door.post(f"/v1/entities/{twins[0]['entity_id']}/merge", {"other_id": twins[1]["entity_id"]}))
    task = f"/v1/tasks/{seeds.ids['tasks', 'task_id']}"
    tag = (await door.get(task)).tag
    made(await door.post(f"{task}/specs", {"payload": _task_spec(number + 1)}, If_Match=tag))
    if speaks:
        talk = f"/v1/conversations/{seeds.ids['conversations', 'conversation_id']}/turns"
        made(await door.post(talk, {"speaker": "user", "content": "More."}))
    planned = await door.post("/v1/plans", {"plan": {"goal": "Search.", "steps": [_PLAN_STEP]}})
    assert planned.status == 202
    await seed_effects(home.raven, replace(seeds, ids={}), f"e{number}")
    signer = Principal(seeds.tenant_id, seeds.ids["users", "user_id"], "member", seeds.ids["keys", "key_id"])
    await home.raven.sign_ins.begin(signer, label=f"browser {number}")


def _further(seeds: Seeds, number: int) -> list[tuple[str, Any]]:
    """What is added to things that there are already, and what is remembered and measured."""
    ids = seeds.ids
    sources = {"group_id": "ada-talk", "episode_ids": [ids["episodes", "episode_id"]]}
    metric = {"name": f"m{number}", "scope": "tool", "aggregation": "sum", "data_type": "integer"}
    return [
        ("processes", {"definition": process_body(ids["processes", "process_id"], query=f"x{number}")}),
        ("conversations", {"title": f"c{number}"}),
        ("summaries", {**sources, "content": f"Ada moved {number} times."}),
        ("introspections", {"content": f"Ada says it {number} times."}),
        ("metric-definitions", metric),
        (f"metrics/{ids['metrics', 'metric_id']}/values", {"entity_id": "ada_tool", "value": number + 0.5}),
    ]


def process_body(name: str, *, query: str = "x") -> dict[str, Any]:
    step = {"id": "a", "tool": "search", "inputs": {"query": query}, "output": {"variable": "v"}}
    return {"id": name, "description": "Search", "steps": [step]}


async def walk(door: Door, path: str, limit: int, **query: str) -> list[str]:
    """What a walk in pages of this size shows, each as text."""
    shown: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = made(await door.get(f"{path}?{urlencode({'limit': limit, **query, **cursor})}"))
        assert len(page["items"]) <= limit
        shown.extend([name_of(item, path) for item in page["items"]])
        if page["next_cursor"] is None:
            return shown
        assert len(page["items"]) == limit
        cursor = {"cursor": page["next_cursor"]}


def name_of(item: dict[str, Any], path: str) -> str:
    names = [item[name] for name in _NAMES if name in item]
    assert names, (path, item)
    number = item.get(_NUMBERED.get(path.rpartition("/")[2], ""), "")
    return f"{names[0]} {number}"


async def test_every_list_shows_everything_once_in_pages_of_any_size(home: ApiHome, seeds: Seeds) -> None:
    """Pages of one, two, three and seven, forwards and backwards, show what one large page shows, in its order."""
    for number in range(6):
        await fill(home, seeds, number)
    for route in _PAGED:
        path = seeds.path_of(route)
        whole = await walk(seeds.door, path, 500)
        assert len(set(whole)) == len(whole)
        assert len(whole) > 6 or route.path in ("/v1/learned-tools", "/v1/workers"), route.path
        for limit in (1, 2, 3, 7):
            assert await walk(seeds.door, path, limit) == whole, (route.path, limit)
        if any(parameter.name == "newest" for parameter in route.query):
            assert await walk(seeds.door, path, 2, newest="true") == whole[::-1]


async def test_what_is_there_is_shown_once_while_more_arrives(home: ApiHome, seeds: Seeds) -> None:
    """Everything that was there when a walk began is shown exactly once, though things are added all along."""
    for number in range(3):
        await fill(home, seeds, number)
    before = {route.path: await walk(seeds.door, seeds.path_of(route), 500) for route in _PAGED}

    async def go_on() -> None:
        for number in range(3, 8):
            # What is said moves a conversation to the front of the list, which shows the last changed first.
            await fill(home, seeds, number, speaks=False)

    adding = asyncio.ensure_future(go_on())
    for route in _PAGED:
        shown = await walk(seeds.door, seeds.path_of(route), 1)
        assert len(set(shown)) == len(shown), route.path
        assert set(before[route.path]) <= set(shown), route.path
    await adding


async def test_a_forged_or_foreign_cursor_is_refused_by_name_or_harmless(home: ApiHome, seeds: Seeds) -> None:
    """Nonsense, foreign cursors and invented places: 400 that names `cursor`, or a page of one's own; never 500."""
    await fill(home, seeds, 1)
    other = await seeded(home, "bob")
    theirs = {each.path: made(await other.door.get(f"{other.path_of(each)}?limit=1"))["next_cursor"] for each in _PAGED}
    assert sum(cursor is not None for cursor in theirs.values()) > 3
    for route in _PAGED:
        target = seeds.path_of(route)
        own = set(await walk(seeds.door, target, 500))
        foreign = next(cursor for path, cursor in theirs.items() if path != route.path and cursor)
        for text in ("x", "!!", "%00", "e30", "W10", "bnVsbA", "é", foreign, "A" * 2048, "A" * 3000):
            refused = await seeds.door.get(f"{target}?{urlencode({'cursor': text})}")
            assert (refused.status, refused.json()["details"]["field"]) == (400, "cursor"), (route.path, text)
        defaults = {each.name: each.schema["default"] for each in route.all_query if "default" in each.schema}
        places = [[_HOSTILE[kind][number % len(_HOSTILE[kind])] for kind in route.cursor] for number in range(6)]
        forged = [encode_cursor(route.name, defaults, place) for place in places]
        for cursor in [*forged, *filter(None, [theirs[route.path]])]:
            reply = await seeds.door.get(f"{target}?{urlencode({'cursor': cursor})}")
            if reply.status == 400:
                assert reply.json()["details"]["field"] == "cursor"
            else:
                assert {name_of(item, target) for item in made(reply)["items"]} <= own, route.path
