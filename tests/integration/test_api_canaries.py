"""A secret's value, sent to every place of the API that takes a text, never comes back and is nowhere in the clear."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.api_client import Reply
from tests.api_homes import ApiHome, Seeds, api_home, login_of, made, seed
from tests.api_samples import BODIES
from tests.homes import all_text
from tests.unit.catalog.town import inputs, service_body, tool_body
from twinraven.api import all_routes
from twinraven.serving.metrics import HttpMetrics
from twinraven.vault import clean_log

CANARY: Final = "canary-4f9c2e7a-sings"
_SEARCH: Final = {"tool_name": "search", "payload": {"query": "x"}, "session_id": "s"}
_EVENT: Final[dict[str, Any]] = {"session_id": "s", "tool_id": "search", "input_params": {}}
_OPERATION: Final = {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


def bodies() -> list[tuple[str, str, Any]]:
    """Requests with the value in one place of the body each."""
    events: list[dict[str, Any]] = [
        {"session_id": CANARY},
        {"tool_id": CANARY},
        {"input_params": {"key": CANARY, CANARY: 1}},
        {"output": [CANARY]},
        {"error": f"denied for {CANARY}", "error_code": CANARY},
        {"tags": [CANARY]},
        {"task_id": CANARY},
        {"outside_input": f"use {CANARY}"},
        {"timestamp": CANARY},
        {"event_id": CANARY},
        {CANARY: 1},
    ]
    calls: list[dict[str, Any]] = [
        {"tool_name": CANARY},
        {"session_id": CANARY},
        {"payload": {CANARY: 1}},
        {"payload": {"query": {"deep": CANARY}}},
        {"tags": [CANARY]},
        {"correlation_id": CANARY},
        {"idempotency_key": CANARY},
        {"task_id": CANARY, "campaign_id": CANARY, "goal_id": CANARY, "skill_id": CANARY, "id": CANARY},
        {"outside_input": CANARY},
        {"created_at": CANARY},
        {"side_effect": CANARY},
        {"unlisted": {"deep": [CANARY], CANARY: 1}},
        {"tool_name": "refund", "payload": {"order": 1}, "idempotency_key": "k0", "unlisted": CANARY},
    ]
    # What a tool answers is the caller's; so the value goes to tools that do not repeat it.
    calls.append({"tool_name": "refund", "payload": {"order": CANARY}, "idempotency_key": "k1"})
    template = {"name": "t", "operation": _OPERATION, "input_schema": inputs("orderId")}
    return [
        *(("POST", "/v1/events", {"events": [{**_EVENT, **odd}]}) for odd in events),
        *(("POST", "/v1/calls", {**_SEARCH, **odd}) for odd in calls),
        ("POST", "/v1/users", {"name": CANARY}),
        ("POST", "/v1/users", {"name": "u", "role": CANARY}),
        ("POST", "/v1/keys", {"label": f"for {CANARY}"}),
        ("POST", "/v1/keys", {"user_id": CANARY}),
        ("POST", "/v1/secrets", {"name": CANARY, "type": "api_key", "value": "another-long-value"}),
        ("POST", "/v1/secrets", {"name": "n", "type": CANARY, "value": "another-long-value"}),
        ("POST", "/v1/services", service_body(name=CANARY)),
        ("POST", "/v1/services", service_body(name="n1", type=CANARY)),
        ("POST", "/v1/services", service_body(name="n2", connectionSchema={"type": "object", "title": CANARY})),
        ("POST", "/v1/services", service_body(name="n3", **{CANARY: 1})),
        ("POST", "/v1/tools", tool_body(key="c1", service=CANARY)),
        ("POST", "/v1/tools", tool_body(key=CANARY, service="ada-service")),
        ("POST", "/v1/tools", tool_body(key="c2", service="ada-service", description=CANARY)),
        ("POST", "/v1/tools", tool_body(key="c3", service="ada-service", name=CANARY)),
        ("POST", "/v1/tools", tool_body(key="c4", service="ada-service", secret=CANARY)),
        (
            "POST",
            "/v1/tools",
            tool_body(key="c5", service="ada-service", connectionParams={"endpoint": f"https://{CANARY}.example"}),
        ),
        ("POST", "/v1/service-templates", service_body(name=CANARY)),
        ("POST", "/v1/service-templates", service_body(name="n", description=CANARY)),
        ("POST", "/v1/tool-templates", {**template, "name": CANARY}),
        ("POST", "/v1/tool-templates", {**template, "description": CANARY}),
    ]


def placed(seeds: Seeds) -> list[tuple[str, str, Any]]:
    """The same, in requests about things that are there."""
    ids = seeds.ids
    learned = f"/v1/learned-tools/{ids['learned-tools', 'tool_id']}"
    approval = f"/v1/approvals/{ids['approvals', 'approval_id']}"
    return [
        ("PATCH", f"/v1/services/{ids['services', 'service_id']}", {"name": CANARY}),
        ("PATCH", f"/v1/tools/{ids['tools', 'tool_id']}/definition", {"description": CANARY}),
        ("PATCH", f"/v1/service-templates/{ids['service-templates', 'template_id']}", {"name": CANARY}),
        ("PATCH", f"/v1/tool-templates/{ids['tool-templates', 'template_id']}", {"description": CANARY}),
        ("PATCH", f"/v1/secrets/{ids['secrets', 'secret_id']}", {"name": CANARY}),
        ("POST", f"/v1/service-templates/{ids['service-templates', 'template_id']}/services", {"name": CANARY}),
        ("POST", f"/v1/tool-templates/{ids['tool-templates', 'template_id']}/tools", {"key": CANARY, "service": "x"}),
        ("POST", f"{learned}/reject", {"reason": CANARY, "version": 1}),
        ("POST", f"{learned}/promote", {"as": CANARY}),
        ("POST", f"{learned}/quarantine", {"reason": CANARY}),
        ("POST", f"{learned}/retire", {"note": CANARY}),
        ("POST", f"{approval}/deny", {"note": CANARY}),
    ]


def everywhere(sample: Any, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A body with the value in place of each of its texts, and of each text that its schema has besides."""
    for name, stated in schema.get("properties", {}).items():
        kinds = stated.get("type", ())
        if "string" in ([kinds] if isinstance(kinds, str) else kinds) or isinstance(sample.get(name), str):
            yield {**sample, name: CANARY}
        elif isinstance(sample.get(name), dict):
            inside = {key: {"type": "string"} for key, value in sample[name].items() if isinstance(value, str)}
            yield from ({**sample, name: inner} for inner in everywhere(sample[name], {"properties": inside}))


def sampled(seeds: Seeds) -> list[tuple[str, str, Any]]:
    """The same for every route that takes a body, from the table of routes; what a tool answers is the caller's."""
    return [
        (route.method, seeds.path_of(route), body)
        for route in all_routes(HttpMetrics())
        if route.body is not None and route.name != "callTool"
        for body in everywhere(BODIES[route.name], route.body)
    ]


async def test_the_value_of_a_secret_never_comes_back_and_is_nowhere_in_the_clear(
    home: ApiHome, tmp_path: Path
) -> None:
    """In bodies, names, paths, queries and headers: not in an answer, a log, a table, a file, a metric or the audit."""
    log = io.StringIO()
    with clean_log(lambda: home.raven.redactor, log):
        logging.getLogger("twinraven.api").warning("the log is %s", "open")
        seeds = await seed(home.raven, await home.tenant("ada"), name="ada")
        made(await seeds.door.post("/v1/secrets", {"name": "bird", "type": "password", "value": CANARY}))
        replies = await _send_everything(seeds)
        replies += [await seeds.door.get(f"{route.path}?limit=500") for route in _listed()]
        replies.append(await home.door.get("/metrics"))
    assert "the log is open" in log.getvalue()
    assert {reply.status // 100 for reply in replies} <= {2, 3, 4}
    told = [reply for reply in replies if CANARY in f"{reply.body!r}{reply.headers}"]
    assert [(reply.status, reply.body[:300]) for reply in told] == []
    assert CANARY not in log.getvalue()
    stored = await asyncio.to_thread(all_text, home.raven)
    assert [line[:300] for line in stored.split("\n") if CANARY in line] == []
    await asyncio.to_thread(_search_files, tmp_path)


async def _send_everything(seeds: Seeds) -> list[Reply]:
    door = seeds.door
    replies = [
        await door.ask(method, target, body, headers={"if-match": "*"})
        for method, target, body in (*bodies(), *placed(seeds), *sampled(seeds))
    ]
    for route in all_routes(HttpMetrics()):
        path = route.path
        for name in route.names:
            path = path.replace("{" + name + "}", quote(CANARY))
        body: Any = {} if route.body is not None else None
        replies.append(await door.ask(route.method, path, body, headers={"if-match": "*"}))
        replies += [await door.get(f"{path}?{each.name}={CANARY}") for each in route.all_query]
    for target in (f"/{CANARY}", f"/v1/{CANARY}/x", f"/v1/me?{CANARY}=1", f"/v1/me?x={CANARY}&x=1", f"//{CANARY}"):
        replies.append(await door.get(target))
    for header in ("x-correlation-id", "idempotency-key", "if-match", "if-none-match", "content-type", "origin"):
        for method, target, body in (("POST", "/v1/users", {"name": header}), ("GET", "/v1/me", None)):
            replies.append(await door.ask(method, target, body, headers={header: CANARY}))
    replies.append(await door.get("/v1/events/live", Last_Event_ID=CANARY))
    replies.append(await door.ask(CANARY.upper(), "/v1/me"))
    replies.append(await door.ask(CANARY, "/v1/me"))
    broken = f'{{"name": "{CANARY}", '.encode()
    replies.append(await door.ask("POST", "/v1/users", body=broken, headers={"content-type": "application/json"}))
    replies.append(await door.keyed(CANARY).get("/v1/me"))
    return replies


def _listed() -> list[Any]:
    return [route for route in all_routes(HttpMetrics()) if route.is_paged]


def _search_files(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if CANARY.encode() in path.read_bytes()] == []
