"""Lists over HTTP: every list of the API, walked in pages of every size, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.api_client import Door
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made, make_chain, seed
from tests.unit.catalog.town import inputs, service_body, tool_body
from twinraven.api import all_routes
from twinraven.api.metrics import Metrics
from twinraven.api.pages import encode_cursor

_PAGED: Final = [route for route in all_routes(Metrics()) if route.is_paged]
_HOSTILE: Final[dict[type, list[Any]]] = {
    int: [0, -1, 2**63 - 1, -(2**63) + 1],
    str: ["", "zzz", "\U0010ffff", "x" * 1500, "'; DROP TABLE users; --", "ffffffff-ffff-4fff-8fff-ffffffffffff"],
}


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


@pytest.fixture
async def seeds(home: ApiHome) -> Seeds:
    return await seed(home.raven, await home.tenant("ada"), name="ada")


async def fill(home: ApiHome, seeds: Seeds, number: int) -> None:
    """One more of everything that is listed."""
    door = seeds.door
    operation = {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}
    template = {"name": f"t{number}", "operation": operation, "input_schema": inputs("orderId")}
    call = {"tool_name": "refund", "payload": {"order": 100 + number}, "session_id": f"s{number}"}
    asked = await door.post("/v1/calls", call, Idempotency_Key=f"r{number}")
    assert asked.status == 202
    await home.raven.chains.add(seeds.tenant_id, [make_chain(number)])
    makings: list[tuple[str, Any]] = [
        ("services", service_body(name=f"s{number}")),
        ("tools", tool_body(key=f"tool{number}", service="ada-service")),
        ("service-templates", service_body(name=f"t{number}")),
        ("tool-templates", template),
        ("secrets", {"name": f"s{number}", "type": "password", "value": f"long-enough-{number}"}),
        ("users", {"name": f"u{number}"}),
        ("keys", {"label": f"k{number}"}),
        ("events", {"events": [{"session_id": f"s{number}", "tool_id": "search", "input_params": {}}] * 2}),
    ]
    for kind, body in makings:
        made(await door.post(f"/v1/{kind}", body))


async def walk(door: Door, path: str, limit: int, **query: str) -> list[str]:
    """What a walk in pages of this size shows, each as text."""
    shown: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = made(await door.get(f"{path}?{urlencode({'limit': limit, **query, **cursor})}"))
        assert len(page["items"]) <= limit
        shown.extend(map(name_of, page["items"]))
        if page["next_cursor"] is None:
            return shown
        assert len(page["items"]) == limit
        cursor = {"cursor": page["next_cursor"]}


def name_of(item: dict[str, Any]) -> str:
    ids = ("id", "event_id", "approval_id", "chain_id", "session_id", "tool_id", "key_id", "user_id")
    return str(next(item[name] for name in ids if name in item))


async def test_every_list_shows_everything_once_in_pages_of_any_size(home: ApiHome, seeds: Seeds) -> None:
    """Pages of one, two, three and seven, forwards and backwards, show what one large page shows, in its order."""
    for number in range(6):
        await fill(home, seeds, number)
    for route in _PAGED:
        whole = await walk(seeds.door, route.path, 500)
        assert len(set(whole)) == len(whole)
        assert len(whole) > 6 or route.path == "/v1/learned-tools", route.path
        for limit in (1, 2, 3, 7):
            assert await walk(seeds.door, route.path, limit) == whole, (route.path, limit)
        if any(parameter.name == "newest" for parameter in route.query):
            assert await walk(seeds.door, route.path, 2, newest="true") == whole[::-1]


async def test_what_is_there_is_shown_once_while_more_arrives(home: ApiHome, seeds: Seeds) -> None:
    """Everything that was there when a walk began is shown exactly once, though things are added all along."""
    for number in range(3):
        await fill(home, seeds, number)
    before = {route.path: await walk(seeds.door, route.path, 500) for route in _PAGED}

    async def go_on() -> None:
        for number in range(3, 8):
            await fill(home, seeds, number)

    adding = asyncio.ensure_future(go_on())
    for route in _PAGED:
        shown = await walk(seeds.door, route.path, 1)
        assert len(set(shown)) == len(shown), route.path
        assert set(before[route.path]) <= set(shown), route.path
    await adding


async def test_a_forged_or_foreign_cursor_is_refused_by_name_or_harmless(home: ApiHome, seeds: Seeds) -> None:
    """Nonsense, foreign cursors and invented places: 400 that names `cursor`, or a page of one's own; never 500."""
    await fill(home, seeds, 1)
    other = await seed(home.raven, await home.tenant("bob"), name="bob")
    theirs = {each.path: (await other.door.get(f"{each.path}?limit=1")).json()["next_cursor"] for each in _PAGED}
    assert sum(cursor is not None for cursor in theirs.values()) > 3
    for route in _PAGED:
        own = set(await walk(seeds.door, route.path, 500))
        foreign = next(cursor for path, cursor in theirs.items() if path != route.path and cursor)
        for text in ("x", "!!", "%00", "e30", "W10", "bnVsbA", "é", foreign, "A" * 2048, "A" * 3000):
            refused = await seeds.door.get(f"{route.path}?{urlencode({'cursor': text})}")
            assert (refused.status, refused.json()["details"]["field"]) == (400, "cursor"), (route.path, text)
        defaults = {each.name: each.schema["default"] for each in route.all_query if "default" in each.schema}
        places = [[_HOSTILE[kind][number % len(_HOSTILE[kind])] for kind in route.cursor] for number in range(6)]
        forged = [encode_cursor(route.name, defaults, place) for place in places]
        for cursor in [*forged, *filter(None, [theirs[route.path]])]:
            reply = await seeds.door.get(f"{route.path}?{urlencode({'cursor': cursor})}")
            if reply.status == 400:
                assert reply.json()["details"]["field"] == "cursor"
            else:
                assert {name_of(item) for item in made(reply)["items"]} <= own, route.path
