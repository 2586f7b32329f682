"""A home behind its REST API, with one thing of every kind that a path can name."""

from __future__ import annotations

import asyncio
import atexit
import logging
import shutil
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

import pytest

from tests.api_client import Door, Reply
from tests.governed import ApprovedTask, approved_task
from tests.homes import make_home
from tests.postgres import PostgresLogin, PostgresServer
from tests.registry_kit import make_definition, make_verdict
from tests.unit.catalog.town import inputs, service_body, tool_body
from twinraven.api import api_app
from twinraven.app import TwinRaven, open_home
from twinraven.catalog import tool
from twinraven.foundation.clock import utc_now
from twinraven.huginn import CandidateChain, RoundStore
from twinraven.serving import Authenticator
from twinraven.serving.contract import Route
from twinraven.tenancy import LOCAL, Principal


@tool(effect="read")
def search(query: str) -> dict[str, Any]:
    """Find documents."""
    return {"top_result_url": f"doc:{query}"}


@tool(effect="read")
def read(url: str) -> dict[str, Any]:
    """Read one document."""
    return {"text": f"text of {url}"}


class Till:
    """What is written to, and how often."""

    def __init__(self) -> None:
        self.payments: list[int] = []

        @tool(effect="write")
        def pay(amount: int) -> dict[str, int]:
            """Pay once."""
            logging.getLogger("shop.till").warning("paid %d", amount)
            self.payments.append(amount)
            return {"payments": len(self.payments)}

        self.pay = pay


@tool(effect="write")
def refund(order: int) -> dict[str, int]:
    """Give money back, if somebody agrees."""
    return {"order": order}


_SEEDED = "seeded"
_RULES = [{"tool": "refund", "then": "ask", "reason": "refunds need a person"}]


@dataclass(frozen=True, slots=True)
class Seeds:
    """A tenant, its administrator's door, and the ids of what the tenant has, by group of routes and parameter."""

    tenant_id: str
    user_id: str
    key: str
    door: Door
    ids: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def path_of(self, route: Route) -> str:
        """A route's path with this tenant's ids in it; KeyError where a kind of id was never seeded."""
        return route.path.format(**{name: self.ids[route.tag, name] for name in route.names})


@dataclass(frozen=True, slots=True)
class ApiHome:
    """A home and its door, opened without a key by the home's own user."""

    raven: TwinRaven
    door: Door
    till: Till

    async def tenant(self, name: str, *, role: Any = "admin") -> Seeds:
        """A new tenant with one user and one key."""
        tenant = await self.raven.tenancy.create_tenant(name)
        return await self.user(tenant.tenant_id, name, role=role)

    async def user(self, tenant_id: str, name: str, *, role: Any = "member") -> Seeds:
        """A further user of a tenant."""
        user = await self.raven.tenancy.add_user(tenant_id, name, role=role)
        issued = await self.raven.tenancy.issue_key(tenant_id, user.user_id)
        return Seeds(tenant_id, user.user_id, issued.clear, self.door.keyed(issued.clear))


@asynccontextmanager
async def api_home(
    folder: Path,
    *,
    postgres: PostgresLogin | None = None,
    needs_key: bool = False,
    functions: Iterable[Callable[..., Any]] = (),
    contents: Path | None = None,
    **sections: Any,
) -> AsyncGenerator[ApiHome]:
    """A new home behind its API, or a copy of one with the `contents` of another's folder."""
    till = Till()
    sections.setdefault("policy", {"rules": _RULES})
    place = make_home(folder, postgres=postgres, **sections)
    if contents is not None:
        shutil.copytree(contents, place, dirs_exist_ok=True)
    with open_home(place, functions=[search, read, till.pay, refund, *functions]) as raven:
        authenticator = Authenticator(raven.tenancy, without_key=None if needs_key else LOCAL)
        yield ApiHome(raven, Door(api_app(raven, authenticator)), till)


@dataclass(frozen=True, slots=True)
class SeededHome:
    """A home whose tenant `ada` has one of everything."""

    home: ApiHome
    ada: Seeds


@asynccontextmanager
async def seeded_home(folder: Path, *, server: PostgresServer | None = None) -> AsyncGenerator[SeededHome]:
    """A home with seeds; they are sown once in a process and store, and copied from then on."""
    seeds, contents = await asyncio.to_thread(_sown, server)
    with server.fresh_database(template=_SEEDED) if server is not None else nullcontext() as postgres:
        async with api_home(folder, postgres=postgres, contents=contents) as home:
            yield SeededHome(home, replace(seeds, door=home.door.keyed(seeds.key), ids=dict(seeds.ids)))


@cache
def _sown(server: PostgresServer | None) -> tuple[Seeds, Path]:
    """Seeds, and the folder of the home that has them; on Postgres also a template of its database."""
    folder = Path(mkdtemp(prefix="twinraven-seeded-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if server is None:
        return asyncio.run(_sow(folder, None)), folder / ".twinraven"
    with server.fresh_database() as login:
        seeds = asyncio.run(_sow(folder, login))
        server.copy_as_template(login, _SEEDED)
    return seeds, folder / ".twinraven"


async def _sow(folder: Path, postgres: PostgresLogin | None) -> Seeds:
    async with api_home(folder, postgres=postgres) as home:
        return await seed(home.raven, await home.tenant("ada"), name="ada")


async def seed(raven: TwinRaven, seeds: Seeds, *, name: str) -> Seeds:
    """Give a tenant one of everything, and note what each is called."""
    ids, door = seeds.ids, seeds.door
    await seed_catalogue(ids, door, name)
    await _seed_memory(ids, door, name)
    await _seed_knowledge(ids, door, name)
    asked = await door.post(
        "/v1/calls",
        {"tool_name": "refund", "payload": {"order": 7}, "session_id": f"{name}-session"},
        Idempotency_Key=f"{name}-refund",
    )
    ids["approvals", "approval_id"] = asked.json()["error"]["details"]["approval_id"]
    ids["inbox", "item_id"] = f"call:{ids['approvals', 'approval_id']}"
    ids["trace", "id"] = ids["approvals", "approval_id"]
    await seed_effects(raven, seeds, name)
    started = await door.post("/v1/runs", {"tool_id": "search", "parameters": {"query": "x"}})
    ids["runs", "run_id"] = started.json()["run_id"]
    step = {"step_id": "1", "description": "Search.", "tool": "search", "arguments": {"query": "x"}}
    planned = await door.post("/v1/plans", {"plan": {"goal": "Search.", "steps": [step]}})
    ids["plans", "run_id"] = planned.json()["run_id"]
    look = {"id": "look", "tool": "search", "inputs": {"query": "{step.q}"}, "output": {"variable": "found"}}
    process = {"id": f"{name}_process", "description": "Search", "initial_context": ["q"], "steps": [look]}
    saved = await door.post("/v1/processes", {"definition": process})
    ids["processes", "process_id"] = saved.json()["id"]
    await _seed_conversation(ids, door, name)
    chain = make_chain()
    await raven.chains.add(seeds.tenant_id, [chain])
    ids["chains", "chain_id"] = str(chain.chain_id)
    await _seed_learned(raven, seeds, f"{name}_learned", str(chain.chain_id))
    ids["learned-tools", "tool_id"] = f"{name}_learned"
    ids["learned-tools", "version"] = "1"
    ids["learning", "round_id"] = await _seed_round(raven, seeds)
    user = made(await door.post("/v1/users", {"name": f"{name}-colleague"}))
    ids["users", "user_id"] = user["user_id"]
    ids["keys", "key_id"] = made(await door.post("/v1/keys", {"user_id": user["user_id"]}))["key_id"]
    ids["idempotency-keys", "key"] = f"{name}-refund"
    begun, _ = await raven.sign_ins.begin(
        Principal(seeds.tenant_id, user["user_id"], "member", ids["keys", "key_id"]), label="a browser"
    )
    ids["sign-ins", "sign_in_id"] = begun.sign_in_id
    ids["audit", "entry_id"] = (await door.get("/v1/audit")).json()["items"][0]["id"]
    return seeds


async def seed_effects(raven: TwinRaven, seeds: Seeds, name: str) -> None:
    """One of everything that leaves the house, and a wallet with money."""
    ids, door = seeds.ids, seeds.door
    task = await approved_task(raven, tenant_id=seeds.tenant_id)
    await _seed_governed(raven, seeds, task)
    asset = {"campaign_id": task.campaign_id, "kind": "image", "storage_uri": "s3://x/p.png"}
    ids["assets", "asset_id"] = made(await door.post("/v1/assets", asset))["asset_id"]
    wallet = made(await door.post("/v1/wallets", {"agent_or_campaign_id": name, "currency": "EUR"}))["wallet_id"]
    ids["wallets", "wallet_id"] = wallet
    await door.post(f"/v1/wallets/{wallet}/fund", {"amount": "9.00", "idempotency_key": f"{name}-fund"})
    said = {"task_id": task.task_id, "channel": "blog", "text": "x"}
    paid = {"task_id": task.task_id, "wallet_id": wallet, "amount": "1.00", "currency": "EUR", "counterparty": "p"}
    for group, body, key in (
        ("publications", said, "publish_id"),
        ("messages", {**said, "recipient": "ann"}, "message_id"),
        ("transactions", paid, "transaction_id"),
    ):
        reply = await door.post(f"/v1/{group}", {**body, "idempotency_key": f"{name}-{group}"})
        ids[group, "effect_id"] = reply.json()[key]


async def _seed_governed(raven: TwinRaven, seeds: Seeds, task: ApprovedTask) -> None:
    """The work behind an effect: its campaign, goal, task, result and decision, and a budget."""
    ids = seeds.ids
    found = await raven.tasks.get(seeds.tenant_id, task.task_id)
    ids["campaigns", "campaign_id"], ids["goals", "goal_id"] = task.campaign_id, task.goal_id
    ids["tasks", "task_id"] = task.task_id
    ids["results", "result_id"] = found.results[-1].result_id
    ids["decisions", "decision_id"] = found.decisions[-1].decision_id
    ids["envelopes", "envelope_id"] = found.results[-1].envelope_id
    path = f"/v1/campaigns/{task.campaign_id}/budgets"
    ids["budgets", "budget_id"] = made(await seeds.door.post(path, {"total": "5.00", "currency": "EUR"}))["budget_id"]


async def beside(home: ApiHome, owner: Seeds, name: str) -> Seeds:
    """A member beside a colleague, who shares with the tenant what can be shared; the ids are the colleague's."""
    for kind in ("services", "service-templates", "tool-templates"):
        (noted,) = (value for (group, _), value in owner.ids.items() if group == kind)
        made(await owner.door.patch(f"/v1/{kind}/{noted}", {"shared": True}, If_Match="*"))
    shown = f"/v1/tools/{owner.ids['tools', 'tool_id']}/definition"
    made(await owner.door.patch(shown, {"shared": True}, If_Match="*"))
    member = await home.user(owner.tenant_id, name)
    return replace(member, ids=dict(owner.ids))


async def seed_catalogue(ids: dict[tuple[str, str], str], door: Door, name: str) -> None:
    secret = made(
        await door.post("/v1/secrets", {"name": f"{name}-secret", "type": "api_key", "value": f"{name}-{uuid4().hex}"})
    )
    ids["secrets", "secret_id"] = secret["id"]
    service = made(await door.post("/v1/services", service_body(name=f"{name}-service")))
    ids["services", "service_id"] = service["id"]
    tool_made = made(await door.post("/v1/tools", tool_body(key=f"{name}_tool", service=service["id"])))
    ids["tools", "tool_id"] = tool_made["key"]
    template = made(await door.post("/v1/service-templates", service_body(name=f"{name}-template")))
    ids["service-templates", "template_id"] = template["id"]
    body = {
        "name": f"{name}-tool-template",
        "operation": {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"},
        "input_schema": inputs("orderId"),
    }
    ids["tool-templates", "template_id"] = made(await door.post("/v1/tool-templates", body))["id"]


async def _seed_knowledge(ids: dict[tuple[str, str], str], door: Door, name: str) -> None:
    said = {"group_id": f"{name}-talk", "name": "n1", "content": f"{name.title()} moved to Lisbon.", "speaker": name}
    ids["episodes", "episode_id"] = made(await door.post("/v1/episodes", said))["episode_id"]
    first, second = [
        made(await door.post("/v1/entities", {"name": f"{name} {part}", "summary": "somebody"}))["entity_id"]
        for part in ("one", "two")
    ]
    merged = made(await door.post(f"/v1/entities/{first}/merge", {"other_id": second}))
    ids["entities", "entity_id"], ids["entity-merges", "merge_id"] = first, merged["merge_id"]
    await _seed_reflection(ids, door, name)


async def _seed_reflection(ids: dict[tuple[str, str], str], door: Door, name: str) -> None:
    sources = {"group_id": f"{name}-talk", "episode_ids": [ids["episodes", "episode_id"]]}
    summary = made(await door.post("/v1/summaries", {**sources, "content": f"{name} moved."}))
    ids["summaries", "summary_id"] = summary["summary_id"]
    begun = await door.post("/v1/compressions", sources)
    ids["compressions", "compression_id"] = begun.json()["compression_id"]
    note = made(await door.post("/v1/introspections", {"content": f"{name} prefers short answers."}))
    ids["introspections", "introspection_id"] = note["introspection_id"]
    measured = {"name": f"{name}-score", "scope": "tool", "aggregation": "avg", "data_type": "float"}
    metric = made(await door.post("/v1/metric-definitions", measured))
    ids["metric-definitions", "metric_id"] = ids["metrics", "metric_id"] = metric["metric_id"]
    made(await door.post(f"/v1/metrics/{metric['metric_id']}/values", {"entity_id": f"{name}_tool", "value": 0.5}))


async def _seed_conversation(ids: dict[tuple[str, str], str], door: Door, name: str) -> None:
    look = {"id": "look", "tool": "search", "inputs": {"query": "{step.prompt}"}, "output": {"variable": "found"}}
    talker = {"id": f"talk_with_{name}", "description": "Search", "initial_context": ["prompt"], "steps": [look]}
    made(await door.post("/v1/processes", {"definition": talker}))
    conversation = made(await door.post("/v1/conversations", {"title": f"{name}'s"}))
    ids["conversations", "conversation_id"] = conversation["id"]
    turn = made(
        await door.post(f"/v1/conversations/{conversation['id']}/turns", {"speaker": "user", "content": "Hello."})
    )
    ids["conversations", "turn_id"] = turn["id"]
    ids["conversations", "alternative_id"] = turn["alternatives"][0]["id"]


async def _seed_memory(ids: dict[tuple[str, str], str], door: Door, name: str) -> None:
    session = f"{name}-session"
    events = [
        {"session_id": session, "tool_id": "search", "input_params": {"query": "x"}, "output": {"n": number}}
        for number in range(3)
    ]
    recorded = made(await door.post("/v1/events", {"events": events}))
    ids["events", "event_id"] = recorded["event_ids"][0]
    ids["sessions", "session_id"] = session


async def _seed_round(raven: TwinRaven, seeds: Seeds) -> str:
    """A round of learning that is over, so that another can be started."""
    store = RoundStore(raven.database)
    begun = await store.start(seeds.tenant_id, by=seeds.user_id)
    await store.finish(seeds.tenant_id, begun.round_id, "done", outcome={"proposals": []})
    return str(begun.round_id)


async def _seed_learned(raven: TwinRaven, seeds: Seeds, slug: str, chain_id: str) -> None:
    definition = make_definition(slug, chain_id=chain_id)
    draft = await raven.registry.draft(seeds.tenant_id, definition, evidence_hash=slug)
    await raven.registry.register(seeds.tenant_id, draft.definition, make_verdict())
    await raven.registry.promote(seeds.tenant_id, slug, by=seeds.user_id)


def make_chain(number: int = 0) -> CandidateChain:
    """A chain as mining finds it; those with higher numbers were found earlier."""
    return CandidateChain(
        chain_id=uuid4(),
        tools=("search", "read"),
        support=0.5,
        confidence=0.9,
        avg_latency_ms=12,
        failure_rate=0.0,
        sample_event_ids=(),
        discovered_at=utc_now() - timedelta(minutes=number),
        mining_config={"algorithm": "contiguous"},
    )


def made(reply: Reply) -> Any:
    """What was made; anything but success is told."""
    assert reply.status in (200, 201), reply.body
    return reply.json()


def server_of(request: pytest.FixtureRequest) -> PostgresServer | None:
    """The server of the store that a fixture with the parameters sqlite and postgres is made for."""
    return request.getfixturevalue("postgres_server") if request.param == "postgres" else None


def login_of(request: pytest.FixtureRequest) -> PostgresLogin | None:
    """The store that a fixture with the parameters sqlite and postgres is made for."""
    return request.getfixturevalue("postgres_login") if request.param == "postgres" else None
