"""Idempotency-Key: a request that makes something, sent twice or by many at once, makes it once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.api_client import Reply
from tests.api_homes import ApiHome, SeededHome, Seeds, made, seeded_home, server_of
from tests.homes import all_text
from tests.unit.catalog.town import inputs, service_body, tool_body
from twinraven.api import all_routes
from twinraven.calls import Claim
from twinraven.serving.contract import Route
from twinraven.serving.idempotent_routes import claim_key
from twinraven.serving.metrics import HttpMetrics

_ACTS: Final = {"cancelRun", "resumeRun", "retryRun", "forkRun", "answerRun", "signalEvent", "converse"} | {
    "claimTask",
    "evaluateResult",
    "resolveDecision",
    "forkPlan",
    "savePlan",
    "publish",
    "postMessage",
    "pay",
    "fundWallet",
}
"""What is done to a run, a plan or a task needs one that stands so (a plan is saved when it is completed, and forked
from a step that it reached), and a message waits for the answer to the one before it; a key on them is kept by the same
code as on the others. Effects need an approved task, and their keys are kept with them: test_effect_limits.py."""
_ROUTES: Final[Sequence[Route]] = [
    route for route in all_routes(HttpMetrics()) if route.takes_key and route.name not in _ACTS
]
_AT_ONCE: Final = 16
_OPERATION: Final = {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"}
_BODIES: Final[dict[str, tuple[Any, ...]]] = {
    "callTool": (
        {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "s"},
        {"tool_name": "pay", "payload": {"amount": 6}, "session_id": "s"},
    ),
    "createTool": (tool_body(key="one", service="ada-service"), tool_body(key="two", service="ada-service")),
    "makeTool": tuple(
        {"key": key, "service": "ada-service", "connection_params": {"endpoint": "https://shop.example"}}
        for key in ("three", "four")
    ),
    "createService": (service_body(name="one"), service_body(name="two")),
    "makeService": ({"name": "three"}, {"name": "four"}),
    "createServiceTemplate": (service_body(name="one"), service_body(name="two")),
    "createToolTemplate": tuple(
        {"name": name, "operation": _OPERATION, "input_schema": inputs("orderId")} for name in ("one", "two")
    ),
    "recordEvents": tuple(
        {"events": [{"session_id": "new", "tool_id": "search", "input_params": {"query": word}}]} for word in "ab"
    ),
    "stateVerdict": ({"outcome": "success"}, {"outcome": "failure"}),
    "createSecret": tuple(
        {"name": name, "type": "api_key", "value": f"value-of-{name}-0451"} for name in ("one", "two")
    ),
    "addEpisode": tuple({"group_id": "g", "name": name, "content": "Ann moved."} for name in ("one", "two")),
    "createEntity": tuple({"name": name, "summary": "a thing"} for name in ("one", "two")),
    "compressEpisodes": tuple(
        {"group_id": "ada-talk", "episode_ids": ["EPISODE"], "covers_up_to_turn": turn} for turn in ("one", "two")
    ),
    "writeSummary": tuple(
        {"group_id": "ada-talk", "episode_ids": ["EPISODE"], "content": text} for text in ("one", "two")
    ),
    "addIntrospection": ({"content": "one"}, {"content": "two"}),
    "defineMetric": tuple(
        {"name": name, "scope": "tool", "aggregation": "sum", "data_type": "integer"} for name in ("one", "two")
    ),
    "reportMetric": tuple({"entity_id": "ada_tool", "value": value} for value in (1.5, 2.5)),
    "saveProcess": tuple(
        {
            "definition": {
                "id": name,
                "description": "Search",
                "steps": [{"id": "a", "tool": "search", "inputs": {"query": "x"}, "output": {"variable": "v"}}],
            }
        }
        for name in ("one", "two")
    ),
    "runProcess": tuple({"parameters": {"q": word}} for word in "ab"),
    "createConversation": ({"title": "one"}, {"title": "two"}),
    "forkConversation": ({"title": "one"}, {"title": "two"}),
    "addTurn": tuple({"speaker": "user", "content": word} for word in ("one", "two")),
    "addAlternative": ({"content": "one"}, {"content": "two"}),
    "startPlan": tuple(
        {"plan": {"goal": word, "steps": [{"step_id": "1", "description": "Search.", "tool": "search"}]}}
        for word in ("one", "two")
    ),
    "openWallet": tuple({"agent_or_campaign_id": name, "currency": "EUR"} for name in ("one", "two")),
    "addAsset": tuple(
        {"campaign_id": "CAMPAIGN", "kind": "image", "storage_uri": f"s3://pictures/{name}.png"}
        for name in ("one", "two")
    ),
    "startRun": tuple({"tool_id": "search", "parameters": {"query": word}} for word in "ab"),
    "createCampaign": ({"name": "one"}, {"name": "two"}),
    "createGoal": ({"description": "one"}, {"description": "two"}),
    "createBudget": ({"total": "1.00", "currency": "EUR"}, {"total": "2.00", "currency": "EUR"}),
    "addUser": ({"name": "uma"}, {"name": "ugo"}),
    "issueKey": ({"label": "one"}, {"label": "two"}),
}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
async def seeded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SeededHome]:
    async with seeded_home(tmp_path, server=server_of(request)) as opened:
        yield opened


@pytest.fixture
def home(seeded: SeededHome) -> ApiHome:
    return seeded.home


@pytest.fixture
def seeds(seeded: SeededHome) -> Seeds:
    return seeded.ada


def _bodies(seeds: Seeds, route: Route) -> tuple[Any, ...]:
    """Two bodies for a route, with the ids of the seeded episode and campaign where they name one."""
    written = json.dumps(_BODIES[route.name])
    for word, group, name in (("EPISODE", "episodes", "episode_id"), ("CAMPAIGN", "campaigns", "campaign_id")):
        written = written.replace(word, seeds.ids[group, name])
    return tuple(json.loads(written))


def is_replayed(reply: Reply) -> bool:
    return reply.headers.get("idempotent-replayed") == "true"


@pytest.mark.req("CH-16")
@pytest.mark.parametrize("route", _ROUTES, ids=lambda route: route.name)
async def test_sent_again_it_answers_the_same_and_makes_nothing(home: ApiHome, seeds: Seeds, route: Route) -> None:
    """The second answer is the first, marked as replayed; another body under the key is refused with 422."""
    body, other = _bodies(seeds, route)
    path = seeds.path_of(route)
    first = await seeds.door.post(path, body, Idempotency_Key="k-1")
    assert first.status == route.status, first.body
    counted = await _count(home, seeds)
    again = await seeds.door.post(path, body, Idempotency_Key="k-1")
    assert (again.status, is_replayed(first), is_replayed(again)) == (first.status, False, True)
    assert _lasting(again.json()) == _lasting(first.json())
    if not route.keeps_key and "shown_once" not in first.json():
        assert (again.body, again.headers.get("etag")) == (first.body, first.headers.get("etag"))
    refused = await seeds.door.post(path, other, Idempotency_Key="k-1")
    assert (refused.status, refused.json()["code"]) == (422, "IDEMPOTENCY_CONFLICT")
    assert refused.json()["details"]["idempotency_key"] == "k-1"
    assert await _count(home, seeds) == counted
    assert (await seeds.door.post(path, other, Idempotency_Key="k-2")).status == route.status
    assert await _count(home, seeds) != counted


@pytest.mark.req("CH-16")
@pytest.mark.parametrize("route", _ROUTES, ids=lambda route: route.name)
async def test_sent_by_many_at_once_it_happens_once(home: ApiHome, seeds: Seeds, route: Route) -> None:
    """Of many requests under one key one runs; the others get its answer, or 409 and may ask again."""
    body, _ = _bodies(seeds, route)
    path = seeds.path_of(route)
    replies = await asyncio.gather(*(seeds.door.post(path, body, Idempotency_Key="k") for _ in range(_AT_ONCE)))
    codes = Counter("made" if reply.status == route.status else reply.json()["code"] for reply in replies)
    assert set(codes) <= {"made", "CALL_IN_PROGRESS"}
    assert [is_replayed(reply) for reply in replies if reply.status == route.status].count(False) == 1
    for reply in replies:
        if reply.status != route.status:
            assert (reply.status, reply.json()["retryable"], reply.headers["retry-after"]) == (409, True, "1")
    settled = await seeds.door.post(path, body, Idempotency_Key="k")
    assert is_replayed(settled)


@pytest.mark.req("CH-16")
async def test_a_write_is_made_once_however_its_key_is_sent(home: ApiHome, seeds: Seeds) -> None:
    """A call's key may stand in the header or in the body, which mean the same; two that differ are refused."""
    body = {"tool_name": "pay", "payload": {"amount": 5}, "session_id": "s"}
    first = made(await seeds.door.post("/v1/calls", body, Idempotency_Key="k"))
    again = await seeds.door.post("/v1/calls", {**body, "idempotency_key": "k"})
    assert (again.json()["output"], is_replayed(again)) == (first["output"], True)
    assert home.till.payments == [5]
    differing = await seeds.door.post("/v1/calls", {**body, "idempotency_key": "k"}, Idempotency_Key="j")
    assert (differing.status, differing.json()["details"]["field"]) == (400, "idempotency_key")
    keyless = await seeds.door.post("/v1/calls", body)
    assert (keyless.status, keyless.json()["details"]["field"]) == (400, "idempotency_key")
    assert home.till.payments == [5]


@pytest.mark.req("CH-16")
async def test_a_request_that_failed_frees_its_key(seeds: Seeds) -> None:
    """What was refused can be corrected and sent under the same key."""
    refused = await seeds.door.post("/v1/services", service_body(name="ada-service"), Idempotency_Key="k")
    assert refused.status == 409
    made(await seeds.door.post("/v1/services", service_body(name="free"), Idempotency_Key="k"))


@pytest.mark.req("CH-16")
async def test_a_request_whose_process_died_is_not_made_again_blindly(home: ApiHome, seeds: Seeds) -> None:
    """While it may run, 409 and try again; nobody can say what came of it: 409 and look first."""
    claims = home.raven.claims
    target, body = "/v1/users", {"name": "uma"}
    made(await seeds.door.post(target, body, Idempotency_Key="k"))
    held = Claim(seeds.tenant_id, claim_key(seeds.user_id, "k"), await _owner(home, seeds))
    await claims.settle(held, "unknown", {"error": {"code": "EFFECT_UNKNOWN"}})
    unknown = await seeds.door.post(target, body, Idempotency_Key="k")
    assert (unknown.status, unknown.json()["code"], unknown.json()["retryable"]) == (409, "EFFECT_UNKNOWN", False)


@pytest.mark.req("CH-16")
async def test_no_key_of_a_call_is_the_key_of_a_request(home: ApiHome, seeds: Seeds) -> None:
    """A member who calls a tool under whatever an administrator's key is called takes nothing from them."""
    member = await home.user(seeds.tenant_id, "mallory")
    call = {"tool_name": "pay", "payload": {"amount": 1}, "session_id": "s"}
    guesses = (f"api:{seeds.user_id}:victim", claim_key(seeds.user_id, "victim"))
    replies = [await member.door.post("/v1/calls", {**call, "idempotency_key": guess}) for guess in guesses]
    assert [reply.json().get("status") == "success" for reply in replies] == [True, False]
    made(await seeds.door.post("/v1/users", {"name": "zed"}, Idempotency_Key="victim"))


async def test_a_clear_key_is_shown_once_and_kept_nowhere(home: ApiHome, seeds: Seeds, tmp_path: Path) -> None:
    """The value of an API key stands in the first answer alone: not in its replay, not in a table, not in a file."""
    first = made(await seeds.door.post("/v1/keys", {"label": "agent"}, Idempotency_Key="k"))
    clear: str = first["shown_once"]
    again = await seeds.door.post("/v1/keys", {"label": "agent"}, Idempotency_Key="k")
    assert again.json() == {**first, "shown_once": None}
    assert is_replayed(again)
    assert (await home.door.keyed(clear).get("/v1/me")).json()["key_id"] == first["key_id"]
    listed = await seeds.door.get("/v1/keys")
    audited = await seeds.door.get("/v1/audit?event_type=api_key.issued")
    assert len(audited.json()["items"]) == 3
    # The part before the dot is shown on purpose: people tell keys apart by it.
    secret_part = clear.encode().removeprefix(first["prefix"].rstrip("…").encode())
    assert len(secret_part) > 20
    for text in (listed.body, audited.body, all_text(home.raven).encode()):
        assert secret_part not in text
    await asyncio.to_thread(_search_files, tmp_path, secret_part)


def _search_files(folder: Path, text: bytes) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if text in path.read_bytes()] == []


async def _count(home: ApiHome, seeds: Seeds) -> list[int]:
    """How many things of every kind there are; of events only those in the session that is recorded from outside."""
    listed = (
        "services",
        "tools",
        "service-templates",
        "tool-templates",
        "secrets",
        "users",
        "keys",
        "events",
        "episodes",
        "entities",
        "processes",
        "runs",
        "plans",
        "campaigns",
        "goals",
        "budgets",
        "wallets",
        "assets",
        "conversations",
        "summaries",
        "introspections",
        "metric-definitions",
        f"metrics/{seeds.ids['metrics', 'metric_id']}/values",
    )
    targets = [f"/v1/{kind}?limit=500{'&session_id=new' if kind == 'events' else ''}" for kind in listed]
    sizes = [len((await seeds.door.get(target)).json()["items"]) for target in targets]
    outcome = (await seeds.door.get("/v1/sessions/ada-session")).json()["outcome"]
    said = f"/v1/conversations/{seeds.ids['conversations', 'conversation_id']}/turns?limit=500"
    alternatives = [each for turn in (await seeds.door.get(said)).json()["items"] for each in turn["alternatives"]]
    return [*sizes, len(alternatives), len(home.till.payments), hash(outcome)]


def _lasting(body: Any) -> Any:
    """An answer without what is shown once; of a call, which is an event each time, what came of it."""
    if "request_id" in body:
        return {name: body[name] for name in ("status", "output", "payload", "error")}
    return {**body, "shown_once": None}


async def _owner(home: ApiHome, seeds: Seeds) -> str:
    row = await home.raven.database.read(
        seeds.tenant_id,
        lambda tx: tx.fetch_one(
            "SELECT owner FROM idempotency_claims WHERE tenant_id = :tenant AND idempotency_key = :key",
            tenant=seeds.tenant_id,
            key=claim_key(seeds.user_id, "k"),
        ),
    )
    assert row is not None
    return row["owner"]
