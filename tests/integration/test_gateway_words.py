"""Words, turns and sessions that clients and adapters tell the gateway: one call is one event, in the run's session."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner, Usage
from agents.mcp import MCPServerStreamableHttp
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from tests.acceptance.cli import Shell
from tests.agents.libraries import scripted_chat
from tests.gateways import OLD, home_with, http_gateway, open_client
from twinraven.app import TwinRaven, open_home
from twinraven.integrations import LangChainAdapter, OpenAIAgentsAdapter, PydanticAIAdapter
from twinraven.muninn import MuninnEvent


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with one server."""
    return home_with(tmp_path, {"old": OLD})


@pytest.fixture
def raven(shell: Shell) -> Generator[TwinRaven]:
    """The same home, seen from this process."""
    with open_home(shell.folder / ".twinraven") as opened:
        yield opened


@pytest.fixture
def gateway(shell: Shell) -> Generator[str]:
    """The address of its gateway."""
    with http_gateway(shell) as address:
        yield f"{address}/mcp"


async def events(raven: TwinRaven) -> dict[str, list[MuninnEvent]]:
    found = await raven.events.sessions("default", limit=20)
    return {one.session_id: list((await raven.events.session("default", one.session_id)).events) for one in found}


async def test_words_in_meta_become_outside_input(shell: Shell, raven: TwinRaven) -> None:
    """What a client says of the user is kept once for each thing said, with known secrets redacted."""
    shell.succeed("secrets", "set", "door", stdin=b"opensesame-7781")
    with http_gateway(shell) as address:
        async with open_client(f"{address}/mcp") as client:
            for said in ("say opensesame-7781", "say opensesame-7781", "and again"):
                meta = {"conversation_id": "c1", "twinraven/user_input": said}
                await client.call("old__echo", text="x", meta=meta)
    [session] = (await events(raven)).values()
    first, second, third = (event.outside_input for event in session)
    assert (second, third) == (None, "and again")
    assert first is not None
    assert first.startswith("say ")
    assert "opensesame" not in first


async def test_a_session_of_the_log_can_be_named(raven: TwinRaven, gateway: str) -> None:
    """A client that names session and turn finds its call there, and is told the event; others are told nothing."""
    async with open_client(gateway) as client:
        meta = {"twinraven/session_id": "ticket-17", "twinraven/turn": 4}
        told = await client.call("old__echo", text="x", meta=meta)
        untold = await client.call("old__echo", text="x", meta={"conversation_id": "c1"})
    [event] = (await events(raven))["ticket-17"]
    assert (event.turn, event.tags) == (4, [])
    assert (told.meta or {}).get("twinraven/event_id") == str(event.event_id)
    assert "twinraven/event_id" not in (untold.meta or {})


async def test_a_named_session_reuses_no_request(raven: TwinRaven, gateway: str) -> None:
    """Protocol sessions that begin their ids anew in one named session repeat no request of each other."""
    for text in ("one", "two"):
        async with open_client(gateway, mode="legacy") as client:
            result = await client.call("old__echo", text=text, meta={"twinraven/session_id": "ticket-17"})
            assert not result.is_error
    assert [event.input_params["text"] for event in (await events(raven))["ticket-17"]] == ["one", "two"]


async def test_openai_agents_tell_the_gateway(raven: TwinRaven, gateway: str) -> None:
    """A run's calls of a gateway's tools are events of its session, with the prompt before the first."""
    adapter = OpenAIAgentsAdapter(raven, session_id="ticket-1")
    script = [[function_call("old__echo", {"text": text}, call_id=text)] for text in ("a", "b")]
    model = ScriptedModel([*script, [assistant_message("done")]], default_usage=Usage(requests=1))
    server = MCPServerStreamableHttp({"url": gateway}, tool_meta_resolver=adapter.tool_meta)
    async with server:
        agent = OpenAIAgent(name="clerk", model=model, mcp_servers=[server])
        await Runner.run(await adapter.equipped(agent), "echo twice", run_config=RunConfig(tracing_disabled=True))
    found = await events(raven)
    assert list(found) == ["ticket-1"]
    assert [(event.turn, event.outside_input) for event in found["ticket-1"]] == [(1, "echo twice"), (2, None)]


@dataclass
class GatewayTools(WrapperToolset[Any]):
    """Calls a gateway's tool as an MCP toolset with the adapter's hook does."""

    adapter: PydanticAIAdapter
    client: Client

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        del tool

        async def call(name: str, args: dict[str, Any], *, metadata: dict[str, Any] | None = None) -> Any:
            result = await self.client.call_tool(name, args, meta=metadata)  # pyright: ignore[reportArgumentType]
            return result.content[0].text  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]

        return await self.adapter.process_tool_call(ctx, call, name, tool_args)


def old__echo(text: str) -> str:
    """Stands for the gateway's tool."""
    return text


async def test_pydantic_ai_tells_the_gateway(raven: TwinRaven, gateway: str) -> None:
    """A run's calls of a gateway's tools are recorded there alone, in the run's session, with the prompt."""
    adapter = PydanticAIAdapter(raven, session_id="ticket-2")

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse([TextPart("done")] if turn == 2 else [ToolCallPart("old__echo", {"text": f"t{turn}"})])

    async with Client(gateway) as client:
        tools = GatewayTools(FunctionToolset[Any]([old__echo]), adapter, client)
        agent = PydanticAgent(FunctionModel(model), toolsets=[tools], capabilities=[adapter.capability()])
        await agent.run("echo twice")
    found = await events(raven)
    assert list(found) == ["ticket-2"]
    assert [(event.turn, event.outside_input) for event in found["ticket-2"]] == [(1, "echo twice"), (2, None)]


@dataclass(frozen=True)
class Request:
    """A tool call as LangChain's MCP client hands it to interceptors."""

    args: dict[str, Any]
    headers: dict[str, Any] | None = None

    def override(self, **changes: Any) -> Request:
        return replace(self, **changes)


async def _langchain_run(adapter: LangChainAdapter, address: str) -> None:
    """One turn of an agent whose tool is a gateway's, called through the adapter's interceptor."""

    async def handle(request: Request) -> Any:
        async with httpx2.AsyncClient(headers=request.headers or {}, timeout=90) as http:
            transport = streamable_http_client(address, http_client=http)
            async with Client(transport) as client:
                return await client.call_tool("old__echo", request.args)

    async def echo(text: str) -> Any:
        """Echoes."""
        result = await adapter.interceptor(Request({"text": text}), handle)
        blocks = [
            {"type": "text", "text": block.text, "id": f"lc_{index}"} for index, block in enumerate(result.content)
        ]
        return blocks, None

    tool = StructuredTool.from_function(coroutine=echo, name="old__echo", response_format="content_and_artifact")
    config: Any = {"callbacks": [adapter.handler]}
    model = scripted_chat([[("old__echo", {"text": "grüße"})]])
    answer = await model.ainvoke([HumanMessage("echo für mich\nbitte")], config=config)
    await tool.ainvoke({**answer.tool_calls[0], "type": "tool_call"}, config=config)


async def test_langchain_tells_the_gateway(raven: TwinRaven, gateway: str) -> None:
    """A gateway's tool under LangChain leaves one event, in the run's session, with the prompt in full."""
    await _langchain_run(LangChainAdapter(raven, session_id="ticket-3"), gateway)
    found = await events(raven)
    assert list(found) == ["ticket-3"]
    [event] = found["ticket-3"]
    assert (event.turn, event.outside_input) == (1, "echo für mich\nbitte")


@pytest.mark.parametrize(
    ("content", "artifact", "output"),
    [
        ([{"type": "text", "text": '{"total": 2}', "id": "lc_1"}], None, {"total": 2}),
        ([{"type": "text", "text": '{"total": 2}', "id": "lc_1"}], {"structured_content": {"total": 2}}, {"total": 2}),
        ([{"type": "text", "text": "two lines", "id": "lc_1"}], None, "two lines"),
        (
            [{"type": "text", "text": "a", "id": "lc_1"}, {"type": "text", "text": "b", "id": "own"}],
            None,
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "id": "own"}],
        ),
        ("plain", None, "plain"),
    ],
)
async def test_langchain_records_the_value_inside_blocks(
    raven: TwinRaven, content: Any, artifact: Any, output: Any
) -> None:
    """Of an MCP tool's content blocks the decoded value is kept, and no id that LangChain made up."""

    async def find() -> Any:
        """Finds."""
        return content, artifact

    tool = StructuredTool.from_function(coroutine=find, name="find", response_format="content_and_artifact")
    adapter = LangChainAdapter(raven, session_id="ticket-4")
    call: Any = {"type": "tool_call", "name": "find", "args": {}, "id": "1"}
    message = await tool.ainvoke(call, config={"callbacks": [adapter.handler]})
    assert isinstance(message, ToolMessage)
    [event] = (await raven.events.session("default", "ticket-4")).events
    kept = await raven.events.outputs("default", [event.output_hash or ""])
    assert kept[event.output_hash or ""] == output
