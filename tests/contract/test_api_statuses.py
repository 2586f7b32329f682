"""Every status that a member can provoke is one that the document names for its route.

A member meets answers that whoever owns everything never sees: what a colleague shares may be looked at and not
changed, and some things only an administrator may say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.api_client import Reply
from tests.api_homes import ApiHome, Seeds, api_home, beside, made, seed, seed_catalogue
from tests.api_samples import BODIES
from tests.unit.catalog.town import inputs, tool_body
from twinraven.api import all_routes, openapi_document
from twinraven.serving.contract import Route
from twinraven.serving.metrics import HttpMetrics

_ROUTES: Final = [route for route in all_routes(HttpMetrics()) if route.media == "application/json"]
_PATHS: Final[dict[str, Any]] = openapi_document(_ROUTES)["paths"]
_WRITE: Final = {"type": "rest_call", "method": "POST", "path": "/"}
_MATCHES: Final[tuple[dict[str, str], ...]] = ({}, {"if-match": "*"}, {"if-match": '"99"'}, {"if-match": "x"})


@pytest.fixture
async def home(tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path) as opened:
        yield opened


@pytest.fixture
async def member(home: ApiHome) -> Seeds:
    """A member beside a colleague who shares what can be shared."""
    return await beside(home, await seed(home.raven, await home.tenant("ada"), name="ada"), "mia")


def check_documented(route: Route, reply: Reply) -> None:
    described: dict[str, Any] = _PATHS[route.path][route.method.lower()]["responses"]
    assert str(reply.status) in described, (route.name, reply.status, reply.body)
    if reply.status >= 400:
        assert reply.json()["code"] in described[str(reply.status)]["description"], (route.name, reply.body)


async def test_whatever_a_member_asks_is_answered_as_the_document_says(member: Seeds) -> None:
    """Each route, for a colleague's thing, for one's own and for nothing, with sound and odd bodies and tags."""
    own = replace(member, ids=dict(member.ids))
    await seed_catalogue(own.ids, own.door, "mia")
    seen: Counter[int] = Counter()
    for route in _ROUTES:
        for path in dict.fromkeys([member.path_of(route), own.path_of(route), nowhere(route)]):
            for body in bodies(route):
                for headers in _MATCHES if route.matching != "no" else _MATCHES[:1]:
                    reply = await member.door.ask(route.method, path, body, headers=headers)
                    check_documented(route, reply)
                    seen[reply.status] += 1
    assert set(seen) >= {200, 201, 400, 403, 404, 412, 428}


async def test_what_a_rule_forbids_a_member_is_documented_as_forbidden(member: Seeds) -> None:
    """A write declared a read, as a tool and as a template, and a look at a colleague's service are 403 by name."""
    ids = member.ids
    lowered = {"operation": _WRITE, "effect": "read", "inputSchema": inputs()}
    service = ids["services", "service_id"]
    asked: list[tuple[str, str, Any]] = [
        ("createTool", "/v1/tools", tool_body(key="mine", service=service) | lowered),
        ("createToolTemplate", "/v1/tool-templates", {"name": "mine", **lowered}),
        ("checkService", f"/v1/services/{service}/checks", None),
        ("changeService", f"/v1/services/{service}", {"enabled": False}),
        ("changeTool", f"/v1/tools/{ids['tools', 'tool_id']}/definition", {"enabled": False}),
    ]
    by_name = {route.name: route for route in _ROUTES}
    for name, path, body in asked:
        reply = await member.door.ask(by_name[name].method, path, body, headers={"if-match": "*"})
        assert (reply.status, reply.json()["code"]) == (403, "POLICY_VIOLATION"), name
        check_documented(by_name[name], reply)


async def test_a_template_of_an_administrators_is_for_members_as_it_is(home: ApiHome) -> None:
    """What an administrator called a read in a shared template, a member may make tools of: no 403 there."""
    owner = await home.tenant("ada")
    template = {"name": "t", "operation": _WRITE, "effect": "read", "input_schema": inputs(), "shared": True}
    shared = made(await owner.door.post("/v1/tool-templates", template))
    member = await home.user(owner.tenant_id, "mia")
    made(await member.door.post("/v1/services", BODIES["createService"] | {"name": "own"}))
    placed = BODIES["makeTool"] | {"service": "own"}
    assert (await member.door.post(f"/v1/tool-templates/{shared['id']}/tools", placed)).status == 201


def bodies(route: Route) -> Iterator[Any]:
    if route.body is None:
        yield None
        return
    yield BODIES[route.name]
    yield {}
    yield []
    yield {"unheard_of": 1}


def nowhere(route: Route) -> str:
    return route.path.format(**dict.fromkeys(route.names, "00000000-0000-4000-8000-000000000000"))
