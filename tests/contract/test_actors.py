"""Who acted, as each door knows it: on the events of calls and in the audit chain, on both stores."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.acceptance.cli import Shell
from tests.api_homes import ApiHome, Seeds, api_home, login_of, make_chain
from tests.gateways import OLD, home_with, http_gateway, open_client, stdio_gateway
from tests.registry_kit import make_definition, make_verdict
from twinraven.app import TwinRaven, open_home
from twinraven.audit import AuditFilter
from twinraven.cli.people import user_name
from twinraven.foundation.actors import Actor, agent, person
from twinraven.muninn import EventFilter
from twinraven.registry import RetirementReason

DESK = '''
from twinraven import tool

@tool(effect="write")
def ship(order: int) -> int:
    """Ship an order."""
    return order
'''
SEEN = {"session_id": "s", "tool_id": "search", "input_params": {"query": "x"}}


@pytest.fixture(params=["sqlite", "postgres"])
async def home(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[ApiHome]:
    """A home behind its REST API, on each store in turn."""
    async with api_home(tmp_path, postgres=login_of(request)) as opened:
        yield opened


async def agent_of(home: ApiHome, tenant_id: str = "default", *, role: Any = "member") -> Seeds:
    """An agent with a key, made as an administrator makes one."""
    user = await home.raven.tenancy.add_user(tenant_id, "planner", kind="agent", role=role)
    issued = await home.raven.tenancy.issue_key(tenant_id, user.user_id)
    return Seeds(tenant_id, user.user_id, issued.clear, home.door.keyed(issued.clear))


async def actors_of_calls(raven: TwinRaven, tenant_id: str = "default") -> dict[str, list[Actor | None]]:
    found: dict[str, list[Actor | None]] = {}
    for event in await raven.events.events(tenant_id, EventFilter()):
        found.setdefault(event.session_id, []).append(event.actor)
    return found


async def actors_in_chain(raven: TwinRaven, event_type: str) -> list[tuple[str, str | None]]:
    entries = await raven.audit.entries("default", AuditFilter(event_type=event_type))
    return [(entry.actor_type, entry.actor_id) for entry in entries]


async def pay(door: Any, session_id: str) -> None:
    body = {"tool_name": "pay", "payload": {"amount": 1}, "session_id": session_id}
    reply = await door.post("/v1/calls", body, Idempotency_Key=session_id)
    assert reply.status == 200, reply.body


async def test_a_call_is_made_for_whom_the_key_stands_for(home: ApiHome) -> None:
    """An agent's call, a person's and the home's own are told apart, in the log and in the chain."""
    planner, ada = await agent_of(home), await home.user("default", "ada")
    for door, session in ((planner.door, "by-agent"), (ada.door, "by-person"), (home.door, "at-home")):
        await pay(door, session)
    expected = [agent(planner.user_id), person(ada.user_id), person("local")]
    calls = await actors_of_calls(home.raven)
    assert [calls[session] for session in ("by-agent", "by-person", "at-home")] == [[each] for each in expected]
    for event_type in ("call.intended", "call.succeeded"):
        assert await actors_in_chain(home.raven, event_type) == expected
    assert (await home.raven.audit.verify("default")).ok


async def test_a_recorded_call_is_the_recorders_own(home: ApiHome) -> None:
    """Unless the body says otherwise, a call that was made elsewhere was made for the recorder."""
    planner = await agent_of(home)
    assert (await planner.door.post("/v1/events", {"events": [SEEN]})).status == 201
    shown = (await planner.door.get("/v1/sessions/s")).json()["events"]
    assert [(event["actor_type"], event["actor_id"]) for event in shown] == [("agent", planner.user_id)]


async def test_only_an_administrator_states_another_actor(home: ApiHome) -> None:
    """A member speaks for nobody else, nobody speaks for the system, and what is refused leaves nothing behind."""
    planner, root = await agent_of(home), await home.user("default", "root", role="admin")
    refused = await planner.door.post("/v1/events", {"events": [SEEN, {**SEEN, "actor": "person:eve"}]})
    assert (refused.status, refused.json()["code"]) == (403, "POLICY_VIOLATION")
    system = await root.door.post("/v1/events", {"events": [{**SEEN, "actor": "system:cron"}]})
    assert (system.status, system.json()["code"]) == (400, "VALIDATION_FAILED")
    assert await actors_of_calls(home.raven) == {}
    own = {**SEEN, "actor": f"agent:{planner.user_id}"}
    assert (await planner.door.post("/v1/events", {"events": [own]})).status == 201
    stated = [{**SEEN, "session_id": name, "actor": name} for name in ("node:warehouse", "agent:billing", "eve")]
    assert (await root.door.post("/v1/events", {"events": stated})).status == 201
    assert await actors_of_calls(home.raven) == {
        "s": [agent(planner.user_id)],
        "node:warehouse": [Actor("node", "warehouse")],
        "agent:billing": [agent("billing")],
        "eve": [person("eve")],
    }


async def test_a_key_is_no_actor(home: ApiHome) -> None:
    """An API key given as an actor is refused without being repeated."""
    root = await home.user("default", "root", role="admin")
    reply = await root.door.post("/v1/events", {"events": [{**SEEN, "actor": f"agent:{root.key}"}]})
    assert (reply.status, reply.json()["details"]["field"]) == (400, "events[0].actor")
    assert root.key.encode() not in reply.body


async def test_a_secret_in_an_actors_id_is_redacted(home: ApiHome) -> None:
    """The id of an actor is cleaned like every other name."""
    root = await home.user("default", "root", role="admin")
    secret = {"name": "bank", "type": "api_key", "value": "correct-horse-battery-staple"}
    assert (await root.door.post("/v1/secrets", secret)).status == 201
    stated = {**SEEN, "actor": "agent:correct-horse-battery-staple"}
    assert (await root.door.post("/v1/events", {"events": [stated]})).status == 201
    (found,) = (await actors_of_calls(home.raven))["s"]
    assert found is not None
    assert found.type == "agent"
    assert str(found.id).startswith("[secret:")


async def test_decisions_about_learned_tools_name_who_made_them(home: ApiHome) -> None:
    """A promotion by an agent's key, a secret it keeps, and what maintenance does by itself are three kinds of acts."""
    planner, raven = await agent_of(home, role="admin"), home.raven
    chain = make_chain()
    await raven.chains.add("default", [chain])
    definition = make_definition("tidy", chain_id=str(chain.chain_id))
    draft = await raven.registry.draft("default", definition, evidence_hash="tidy")
    await raven.registry.register("default", draft.definition, make_verdict())
    promoted = await planner.door.post("/v1/learned-tools/tidy/promote", {"version": 1}, If_Match="*")
    assert promoted.status in (200, 201), promoted.body
    kept = {"name": "bank", "type": "api_key", "value": "correct-horse-battery-staple"}
    assert (await planner.door.post("/v1/secrets", kept)).status == 201
    await raven.registry.retire("default", "tidy", RetirementReason.MANUAL, by="system", note="unused")
    assert await actors_in_chain(raven, "secret.created") == [agent(planner.user_id)]
    steps = await raven.audit.entries("default", AuditFilter(subject_type="learned_tool"))
    told = {(step.actor_type, step.actor_id) for step in steps}
    assert told == {agent(planner.user_id), ("system", "system")}


async def test_the_kind_of_a_user_is_set_once(home: ApiHome) -> None:
    """An administrator adds an agent over REST, its key says what it is, and the kind cannot be changed."""
    root = await home.user("default", "root", role="admin")
    made = (await root.door.post("/v1/users", {"name": "planner", "kind": "agent"})).json()
    assert made["kind"] == "agent"
    issued = (await root.door.post("/v1/keys", {"user_id": made["user_id"]})).json()
    me = (await home.door.keyed(issued["shown_once"]).get("/v1/me")).json()
    assert (me["user_id"], me["kind"]) == (made["user_id"], "agent")
    changed = await root.door.patch(f"/v1/users/{made['user_id']}", {"kind": "person"}, If_Match="*")
    assert changed.status == 400


@pytest.fixture
def shell(tmp_path: Path, storage_settings: dict[str, Any]) -> Shell:
    """A home with one server, on each store in turn."""
    made = home_with(tmp_path, {"old": OLD}, storage=storage_settings)
    made.succeed("db", "upgrade")
    return made


async def test_an_agent_behind_the_gateway_is_recorded_as_one(shell: Shell) -> None:
    """By its key it is known by its id; without one, on HTTP or as the program that started us, as the home's agent."""
    key = shell.json("keys", "create", "--agent", "planner")
    again = shell.json("keys", "create", "--agent", "planner")
    assert again["user_id"] == key["user_id"]
    with http_gateway(shell) as address:
        keyed = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key['key']}"}, timeout=20)
        async with keyed, open_client(streamable_http_client(f"{address}/mcp", http_client=keyed)) as client:
            await client.call("old__echo", text="with a key")
        async with open_client(f"{address}/mcp") as client:
            await client.call("old__echo", text="without")
    async with open_client(stdio_gateway(shell)) as client:
        await client.call("old__echo", text="as a child")
    with open_home(shell.folder / ".twinraven") as raven:
        expected = [agent(key["user_id"]), agent("local"), agent("local")]
        events = await raven.events.events("default", EventFilter(tool_id="old__echo"))
        made = {event.input_params["text"]: event.actor for event in events}
        assert [made[text] for text in ("with a key", "without", "as a child")] == expected
        # The server's tools may write, so each call leaves its intent in the chain.
        assert await actors_in_chain(raven, "call.intended") == expected
        assert (await actors_in_chain(raven, "user.added"))[-1] == person(user_name())


async def test_a_call_from_the_command_line_is_a_persons(tmp_path: Path, storage_settings: dict[str, Any]) -> None:
    """Whoever sits at the terminal is named by the operating system, in the log, in the chain and where it is shown."""
    (tmp_path / "desk.py").write_text(DESK)
    settings = {"storage": storage_settings, "tools": {"modules": ["desk"]}}
    (tmp_path / "twinraven.yaml").write_text(json.dumps(settings))
    shell = Shell(tmp_path)
    shell.succeed("init")
    shell.succeed("db", "upgrade")
    shell.succeed("call", "ship", "--param", "order=1", "--session", "s1")
    (event,) = shell.json("events", "list")
    assert (event["actor_type"], event["actor_id"]) == ("person", user_name())
    shown = shell.json("events", "show", event["event_id"])
    assert (shown["actor_type"], shown["actor_id"]) == ("person", user_name())
    assert f"person:{user_name()}" in shell.succeed("sessions", "show", "s1").text
    entries = shell.json("audit", "show")
    told = {(entry["actor_type"], entry["actor_id"]) for entry in entries if entry["event_type"].startswith("call.")}
    assert told == {("person", user_name())}
