"""Memory as built-in tools: offered by a setting, recorded and governed like every call, on both stores."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door
from tests.api_homes import ApiHome, api_home, login_of, made

_TOOLS = {"memory_search", "memory_remember", "memory_entities"}


@pytest.fixture(params=["sqlite", "postgres"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ApiHome]:
    async with api_home(tmp_path, postgres=login_of(request), knowledge={"tools": True}) as opened:
        yield opened


async def call(door: Door, tool: str, payload: dict[str, Any], **headers: str) -> Any:
    return await door.post("/v1/calls", {"tool_name": tool, "payload": payload, "session_id": "s"}, **headers)


@pytest.mark.req("AD-21")
async def test_an_agent_remembers_and_recalls(home: ApiHome) -> None:
    """What one call remembers another finds, once per key; both are calls of the log, and nobody else's."""
    ada, bob = await home.tenant("ada"), await home.tenant("bob")
    said = {"content": "We visited Lisbon with Theo.", "speaker": "Ann", "valid_at": "2024-05-01"}
    for _ in range(2):
        made(await call(ada.door, "memory_remember", said, Idempotency_Key="k"))
    found = made(await call(ada.door, "memory_search", {"query": "Who was in Lisbon?"}))["output"]["hits"]
    assert [(hit["content"], "why" in hit) for hit in found] == [(said["content"], True)]
    named = made(await call(ada.door, "memory_entities", {"name": "lisbon"}))["output"]["entities"]
    shown = made(await call(ada.door, "memory_entities", {"entity_id": named[0]["entity_id"]}))["output"]
    assert shown["sources"][0]["original_name"] == "Lisbon"
    assert made(await call(bob.door, "memory_search", {"query": "Lisbon"}))["output"] == {"hits": []}
    events = made(await ada.door.get("/v1/events?limit=50"))["items"]
    assert {event["tool_id"] for event in events} == _TOOLS


@pytest.mark.req("AD-23", "AD-29")
async def test_an_agent_says_where_to_look_and_for_how_much(home: ApiHome) -> None:
    """Group and limit of a search act, and so do those of a list of entities; a time that is stated is kept."""
    ada = await home.tenant("ada")
    for group, text in (("work", "Theo went to Lisbon."), ("home", "Clara went to Lisbon, too.")):
        said = {"content": text, "group_id": group, "name": f"{group}-1", "speaker": "Ann", "valid_at": "2024-05-01"}
        made(await call(ada.door, "memory_remember", said, Idempotency_Key=group))

    async def found(tool: str, **wish: Any) -> list[dict[str, Any]]:
        output = made(await call(ada.door, tool, wish))["output"]
        return output["hits" if tool == "memory_search" else "entities"]

    hits = await found("memory_search", query="Lisbon", group_id="home")
    assert [(hit["group_id"], hit["name"], hit["speaker"]) for hit in hits] == [("home", "home-1", "Ann")]
    assert hits[0]["valid_at"].startswith("2024-05-01")
    assert [len(await found("memory_search", query="Lisbon", limit=limit)) for limit in (1, 2)] == [1, 2]
    assert {each["group_id"] for each in await found("memory_entities", group_id="work")} == {"work"}
    assert len(await found("memory_entities", limit=1)) == 1


async def test_policy_and_schema_hold_for_memory(home: ApiHome, tmp_path: Path) -> None:
    """A rule can deny remembering, a wrong argument is refused by name, and what is not there is not found."""
    policy = {"rules": [{"tool": "memory_remember", "then": "deny", "reason": "sealed"}]}
    async with api_home(tmp_path / "governed", knowledge={"tools": True}, policy=policy) as governed:
        denied = await call(governed.door, "memory_remember", {"content": "x"}, Idempotency_Key="k")
        assert "POLICY_VIOLATION" in denied.body.decode()
    ada = await home.tenant("ada")
    refused = await call(ada.door, "memory_search", {"query": "x", "limit": 0})
    assert "limit" in str(refused.json())
    wrong = await call(ada.door, "memory_remember", {"content": "x", "valid_at": "soon"}, Idempotency_Key="j")
    assert "valid_at" in wrong.body.decode()
    missing = await call(ada.door, "memory_entities", {"entity_id": "nobody"})
    assert "NOT_FOUND" in missing.body.decode()


async def test_memory_is_offered_only_where_the_settings_say_so(home: ApiHome, tmp_path: Path) -> None:
    """`knowledge.tools` decides whether callers see the three tools."""
    assert {each["tool_id"] for each in made(await home.door.get("/v1/tools"))["items"]} >= _TOOLS
    async with api_home(tmp_path / "plain") as plain:
        assert _TOOLS.isdisjoint(each["tool_id"] for each in made(await plain.door.get("/v1/tools"))["items"])
