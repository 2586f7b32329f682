"""Who may see and call what: every door is asked the same questions and gives the same answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.api_homes import api_home
from tests.gateways import Watched, open_client, promote_tool
from tests.unit.catalog.town import service_body, tool_body
from twinraven.app import TwinRaven
from twinraven.catalog import ServiceSpec, ToolEntry, ToolSpec, tool
from twinraven.cli import main
from twinraven.flow import StepDefinition
from twinraven.foundation.errors import TwinRavenError
from twinraven.gateway import Gateway
from twinraven.integrations.door import HomeDoor, TurnPosition
from twinraven.registry import LearnedTools
from twinraven.tenancy import Principal

Said = tuple[str, str]
"""A stable code and its words."""

CODES = {
    "nothing": "NOT_FOUND",
    "bobs_tool": "NOT_FOUND",
    "composite": "NOT_FOUND",
    "bound_tool": "POLICY_VIOLATION",
    "off_tool": "TOOL_UNAVAILABLE",
    "up__log": "TOOL_QUARANTINED",
}


GIVEN = {"search", "read", "pay", "refund"}
"""Functions that are given to the open home alone, so that the command line cannot have them."""


@tool(effect="read")
def look_up(q: str) -> dict[str, str]:
    """Look something up."""
    return {"found": q}


@dataclass
class Doors:
    """One home, and every way in to it as the home's own user."""

    raven: TwinRaven
    ways: dict[str, Callable[[str], Awaitable[Said | None]]]
    lists: dict[str, Callable[[], Awaitable[set[str]]]]


@asynccontextmanager
async def opened(folder: Path, capsys: pytest.CaptureFixture[str]) -> AsyncGenerator[Doors]:
    async with api_home(folder, tools={"modules": [__name__]}) as home:
        raven = home.raven
        bob = await home.user("default", "bob")
        await _furnish(raven, Principal("default", bob.user_id, "member"))
        async with Gateway(raven).running() as server, open_client(server.mcp) as client:
            command = _Command(folder / ".twinraven", capsys)
            inside = HomeDoor(raven)
            yield Doors(
                raven,
                {
                    "rest": lambda name: _by_rest(home.door, name),
                    "gateway": lambda name: _by_gateway(client, name),
                    "command": command.call,
                    "python": lambda name: _by_python(inside, name),
                },
                {
                    "rest": lambda: _listed_by_rest(home.door),
                    "gateway": client.names,
                    "command": command.listed,
                    "python": lambda: _listed_by_python(inside),
                },
            )


async def _furnish(raven: TwinRaven, bob: Principal) -> None:
    """What the home's own user may not call, each for another reason."""
    await raven.defined.services.create(bob, ServiceSpec.from_json(service_body(name="shop", shared=True)))
    value = "sk-1234567890abcdef"
    await raven.vault.create("default", bob.user_id, name="shop-key", type="api_key", value=value)
    for key, more in (
        ("bobs_tool", {}),
        ("bound_tool", {"shared": True, "secret": "shop-key"}),
        ("off_tool", {"shared": True, "enabled": False}),
    ):
        await raven.defined.tools.create(bob, ToolSpec.from_json(tool_body(key=key, **more)))
    steps = [StepDefinition(0, "look_up", {"q": "$.parameters.q"}), StepDefinition(1, "bobs_tool", {"orderId": "7"})]
    await promote_tool(raven, *steps, tool_id="composite")
    twice = StepDefinition(1, "look_up", {"q": "$.parameters.q"})
    await promote_tool(raven, steps[0], twice, tool_id="harmless")
    log: dict[str, Any] = {"name": "log", "inputSchema": {"type": "object"}}
    await raven.upstream_tools.observe("default", "up", [log])
    await raven.upstream_tools.observe("default", "up", [{**log, "inputSchema": {"type": "object", "required": ["x"]}}])


def _params(name: str) -> dict[str, Any]:
    return {"orderId": "7"} if name in ("bobs_tool", "bound_tool", "off_tool") else {"q": "x"}


async def _by_rest(door: Any, name: str) -> Said | None:
    reply = await door.post("/v1/calls", {"tool_name": name, "payload": _params(name), "session_id": "s"})
    body = reply.json()
    error = body if "detail" in body else body["error"]
    return None if error is None else (error["code"], error.get("detail") or error["message"])


async def _by_gateway(client: Watched, name: str) -> Said | None:
    try:
        result = await client.call(name, **_params(name))
    except MCPError as error:
        data: Any = error.error.data
        return data["code"], error.error.message
    told = (result.meta or {}).get("twinraven/error")
    return None if told is None else (told["code"], told["message"])


async def _by_python(door: HomeDoor, name: str) -> Said | None:
    try:
        await door.call(name, _params(name), TurnPosition("s"))
    except TwinRavenError as error:
        return error.code, error.message
    return None


async def _listed_by_rest(door: Any) -> set[str]:
    items = (await door.get("/v1/tools")).json()["items"]
    return {item["tool_id"] for item in items if item["callable"]}


async def _listed_by_python(door: HomeDoor) -> set[str]:
    return {offer.tool_id for offer in await door.offers("all")}


@dataclass
class _Command:
    """The command line, in this process."""

    home: Path
    capsys: pytest.CaptureFixture[str]

    async def call(self, name: str) -> Said | None:
        code, _, complaint = await self._run("call", name, "--params", json.dumps(_params(name)), "--output", "json")
        if code == 0:
            return None
        error = json.loads(complaint)["error"]
        return error["code"], error["message"]

    async def listed(self) -> set[str]:
        _, said, _ = await self._run("tools", "list", "--output", "json")
        return {tool["tool_id"] for tool in json.loads(said) if tool["callable"]}

    async def _run(self, *words: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = await asyncio.to_thread(main, ["--home", str(self.home), *words])
        said = self.capsys.readouterr()
        return code, said.out, said.err


async def test_every_door_refuses_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tool that is not there, not theirs, made of such, not theirs to run, disabled or held back: the same words."""
    async with opened(tmp_path, capsys) as doors:
        answers = {way: {name: await ask(name) or ("", "") for name in CODES} for way, ask in doors.ways.items()}
    for way, said in answers.items():
        assert {name: code for name, (code, _) in said.items()} == CODES, way
        assert said == answers["rest"], way
    missing = {name: words for name, (code, words) in answers["rest"].items() if code == "NOT_FOUND"}
    assert missing == {name: f"no tool {name!r}" for name in missing}


async def test_every_door_lists_alike_and_looks_up_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tools are offered everywhere and can be called; from door to answer a tool is found one time."""
    async with opened(tmp_path, capsys) as doors:
        lists = {way: await ask() - GIVEN - {"batch_reads"} for way, ask in doors.lists.items()}
        assert lists == {way: {"look_up", "harmless"} for way in lists}
        assert {way: await ask("harmless") for way, ask in doors.ways.items()} == dict.fromkeys(doors.ways)
        found: list[str] = []
        find = LearnedTools.find

        def counted(self: LearnedTools, tenant_id: str, tool_id: str) -> ToolEntry | None:
            found.append(tool_id)
            return find(self, tenant_id, tool_id)

        monkeypatch.setattr(LearnedTools, "find", counted)
        for way, ask in doors.ways.items():
            assert await ask("harmless") is None
            assert found == ["harmless"], way
            found.clear()
