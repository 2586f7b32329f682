"""What passes through the gateway beside calls: progress, log messages, questions, instructions and odd fields."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError

from tests.acceptance.cli import Shell
from tests.gateways import home_with, http_gateway, stdio_gateway
from tests.servers import talker
from tests.servers.talker import INSTRUCTIONS, NEWEST, QUESTIONS

OLDER = {"command": sys.executable, "args": [str(Path(talker.__file__))]}
NEWER = {"command": sys.executable, "args": [str(Path(talker.__file__)), "--revision", NEWEST]}
ANSWERS: dict[str, dict[str, Any]] = {
    "sample": {"role": "assistant", "model": "m1", "content": {"type": "text", "text": "Because."}},
    "elicit": {"action": "accept", "content": {"name": "Ada"}},
    "roots": {"roots": [{"uri": "file:///work", "name": "work"}]},
}


@dataclass
class Able:
    """A client that can do everything, and what it was told."""

    client: Client
    logged: list[tuple[str, Any]] = field(default_factory=list[Any])
    progress: list[tuple[float, float | None, str | None]] = field(default_factory=list[Any])

    async def call(self, tool: str, **arguments: Any) -> types.CallToolResult:
        async def note(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, total, message))

        return await self.client.call_tool(tool, arguments, progress_callback=note)

    async def said(self, tool: str, **arguments: Any) -> Any:
        result = await self.call(tool, **arguments)
        block = result.content[0]
        assert isinstance(block, types.TextContent)
        assert not result.is_error, block.text
        return json.loads(block.text) if block.text.startswith("{") else block.text


@asynccontextmanager
async def able(way: Any, mode: str, *, can_answer: bool = True) -> AsyncGenerator[Able]:
    found: list[Able] = []

    async def sample(context: Any, params: Any) -> types.CreateMessageResult:
        del context
        assert params.max_tokens == 9
        return types.CreateMessageResult.model_validate(ANSWERS["sample"])

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        del context
        assert params.message == "Who are you?"
        return types.ElicitResult.model_validate(ANSWERS["elicit"])

    async def roots(context: Any) -> types.ListRootsResult:
        del context
        return types.ListRootsResult.model_validate(ANSWERS["roots"])

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        found[0].logged.append((params.level, params.data))

    callbacks: dict[str, Any] = {"logging_callback": log}
    if can_answer:
        callbacks |= {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}
    async with Client(way, mode=mode, log_level="info" if mode == "auto" else None, **callbacks) as client:
        found.append(Able(client))
        yield found[0]


def talking_home(folder: Path, **sections: Any) -> Shell:
    return home_with(folder, {"older": OLDER, "newer": NEWER}, **sections)


async def check_everything(seen: Able, mode: str) -> None:
    for server in ("older", "newer"):
        for question, answer in ANSWERS.items():
            told = await seen.said(f"{server}__{question}")
            assert {name: told[name] for name in answer} == answer, (server, question)
        seen.progress.clear()
        assert await seen.said(f"{server}__count", n=3) == "done"
        assert seen.progress == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
        if mode == "legacy":
            await _raw(seen.client, "logging/setLevel", {"level": "info"})
        seen.logged.clear()
        assert await seen.said(f"{server}__log") == "logged"
        assert seen.logged == [("info", {"a": "info"}), ("error", {"a": "error"})], server


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_servers_ask_and_say_reaches_the_client(tmp_path: Path, mode: str) -> None:
    """Sampling, elicitation, roots, progress and log messages pass between clients and servers of both eras."""
    shell = talking_home(tmp_path)
    async with able(stdio_gateway(shell), mode) as seen:
        assert INSTRUCTIONS in (seen.client.instructions or "")
        await check_everything(seen, mode)
        assert await seen.said("older__research") == "found it"
    asked = [entry for entry in shell.json("audit", "show") if entry["event_type"] == "upstream.client_asked"]
    told = [shell.json("audit", "show", entry["id"])["data_json"] for entry in asked[:6]]
    assert {data["method"] for data in told} == {QUESTIONS[name][0] for name in ANSWERS}
    assert "Ada" not in json.dumps([asked, told])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_questions_pass_over_http(tmp_path: Path, mode: str) -> None:
    """The same over HTTP, where many clients share the servers."""
    with http_gateway(talking_home(tmp_path)) as address:
        async with able(f"{address}/mcp", mode) as seen:
            await check_everything(seen, mode)


async def test_a_client_that_cannot_answer(tmp_path: Path) -> None:
    """A server is told what its client can do, and a question that nobody can answer is an error of its own."""
    async with able(stdio_gateway(talking_home(tmp_path)), "legacy", can_answer=False) as seen:
        told = await seen.said("older__elicit")
        assert "does not support elicitation" in told["error"]["message"]
        for server in ("older", "newer"):
            assert (await seen.said(f"{server}__about"))["capabilities"] == {}
        result = await seen.call("newer__elicit")
        assert result.is_error
        assert "does not support elicitation" in str(result.content)


async def test_questions_can_be_switched_off_and_are_counted(tmp_path: Path) -> None:
    """The operator decides what servers may ask for, and how often."""
    shell = talking_home(tmp_path, gateway={"sampling": False, "max_questions": 0})
    async with able(stdio_gateway(shell), "legacy") as seen:
        assert "sampling" not in (await seen.said("older__about"))["capabilities"]
        assert "does not support sampling" in str(await seen.said("older__sample"))
        assert "0 times" in str(await seen.said("older__elicit"))


async def test_a_call_goes_on_while_it_reports_progress(tmp_path: Path) -> None:
    """A call may last longer than its time as long as it shows that it is at work, and not beyond the longest time."""
    limits = {"default_timeout_ms": 1500, "longest_ms": 6000}
    shell = home_with(tmp_path, {"older": OLDER}, calls=limits)
    async with able(stdio_gateway(shell), "auto") as seen:
        assert await seen.said("older__count", n=4, pause=0.7) == "done"
        result = await seen.call("older__count", n=30, pause=0.7)
        assert "EFFECT_UNKNOWN" in str(result)


async def test_answers_keep_fields_that_nobody_knows(tmp_path: Path) -> None:
    """What a server says beside the fields of the protocol reaches the client, whatever their revisions."""
    async with able(stdio_gateway(talking_home(tmp_path)), "auto") as seen:
        for server in ("older", "newer"):
            raw = await _raw_call(seen.client, f"{server}__named")
            assert raw["content"] == [{"type": "text", "text": "out", "name": "STDOUT"}]
            assert raw["vendor"] == {"cost": 1}


async def test_numbers_as_strings(tmp_path: Path) -> None:
    """Strings that spell what a plain schema asks for are read so, and the record says it; others are refused."""
    shell = home_with(tmp_path, {"older": OLDER})
    async with able(stdio_gateway(shell), "auto") as seen:
        told = await seen.said("older__typed", n="3", x="-1.5", flag="true", text="7", odd="8")
        assert told == {"n": 3, "x": -1.5, "flag": True, "text": "7", "odd": "8"}
        assert "VALIDATION_FAILED" in str(await seen.call("older__typed", n="three"))
    events = [shell.json("events", "show", event["event_id"]) for event in shell.json("events", "list")]
    assert [event["tags"] for event in events if event["input_params"].get("n") == 3] == [["coerced-arguments"]]


async def test_a_client_runs_a_call_as_a_task(tmp_path: Path) -> None:
    """A client of revision 2025-11-25 begins any call as a task, asks about it, fetches its result, and cancels."""
    async with able(stdio_gateway(home_with(tmp_path, {"older": OLDER})), "legacy") as seen:

        async def send(method: str, **params: Any) -> dict[str, Any]:
            return await _raw(seen.client, method, params)

        begun = await send("tools/call", name="older__count", arguments={"n": 1, "pause": 0.3}, task={"ttl": 60_000})
        task_id = begun["task"]["taskId"]
        assert begun["task"]["status"] == "working"
        assert (await send("tasks/result", taskId=task_id))["content"][0]["text"] == "done"
        assert (await send("tasks/get", taskId=task_id))["status"] == "completed"
        long = await send("tools/call", name="older__count", arguments={"n": 100, "pause": 0.5}, task={})
        assert (await send("tasks/cancel", taskId=long["task"]["taskId"]))["status"] == "cancelled"
        listed = (await send("tasks/list"))["tasks"]
        assert {task["status"] for task in listed} == {"completed", "cancelled"}
        with pytest.raises(MCPError, match="no such task"):
            await send("tasks/get", taskId="another")


async def _raw_call(client: Client, tool: str) -> dict[str, Any]:
    return await _raw(client, "tools/call", {"name": tool, "arguments": {}})


async def _raw(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What stands on the wire: the SDK's client would leave out what it does not know."""
    session: Any = client.session
    data, options = {"method": method, "params": params}, CallOptions()
    session._stamp(data, options)
    return await session._dispatcher.send_raw_request(method, data["params"], options)
