"""What is particular to each library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import FunctionTool, RunConfig, Runner, Tool, Usage, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, ToolException
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelRetry
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests

from tests.agents.libraries import PydanticAI, scripted_chat
from tests.agents.world import OWN, find_customer, jam, list_orders, outputs, remembered, shop
from tests.served import free_port, served
from twinraven import AsyncClient
from twinraven.app import TwinRaven
from twinraven.integrations import LangChainAdapter, OpenAIAgentsAdapter, PydanticAIAdapter
from twinraven.integrations.door import Behind

QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture(params=["home", "client", "async client"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[TwinRaven, Behind]]:
    async with shop(tmp_path, request.param) as place:
        yield place


async def test_langchain_without_an_event_loop(place: tuple[TwinRaven, Behind]) -> None:
    """Sync runs are watched and offered tools like async ones, on a thread of their own and beside a running loop."""
    raven, behind = place
    adapter = LangChainAdapter(behind, session_id="sync", scope="all")

    def work() -> list[Any]:
        config: Any = {"callbacks": [adapter.handler]}
        model = scripted_chat([])
        model.invoke([HumanMessage("ada?")], config=config)
        own = StructuredTool.from_function(find_customer).invoke({"email": "ada@x.org"}, config=config)
        offered = {tool.name: tool for tool in adapter.tools_now()}
        return [own, offered["list_orders"].invoke({"customer_id": "C-ada"}, config=config)]

    own, through = await asyncio.to_thread(work)
    assert own == find_customer("ada@x.org")
    assert "C-ada-2" in through
    events = await remembered(raven, "sync")
    assert [(event.tool_id, event.turn, event.outside_input) for event in events] == [
        ("find_customer", 1, "ada?"),
        ("list_orders", 1, None),
    ]


async def test_langchain_tools_called_beside_a_loop(tmp_path: Path) -> None:
    """A tool that is invoked without await where a loop runs does its work all the same."""
    async with shop(tmp_path, "home") as (raven, behind):
        adapter = LangChainAdapter(behind, session_id="s", scope="all")
        (tool,) = [tool for tool in await adapter.tools() if tool.name == "list_orders"]
        assert "C-ada-1" in tool.invoke({"customer_id": "C-ada"})
        assert len(await remembered(raven, "s")) == 1


async def test_langchain_sessions_are_named_by_the_run(tmp_path: Path) -> None:
    """A thread or session that the run's metadata or configuration names is the session, for both kinds of tools."""
    async with shop(tmp_path, "home") as (raven, behind):
        adapter = LangChainAdapter(behind, scope="all")
        offered = {tool.name: tool for tool in await adapter.tools()}
        own = StructuredTool.from_function(find_customer)

        async def work(customer: str) -> None:
            await own.ainvoke({"email": f"{customer}@x.org"})
            await offered["list_orders"].ainvoke({"customer_id": f"C-{customer}"})

        chain = RunnableLambda(work)
        callbacks: list[BaseCallbackHandler] = [adapter.handler]
        await chain.ainvoke("ada", config={"callbacks": callbacks, "configurable": {"thread_id": "thread-3"}})
        await chain.ainvoke("bob", config={"callbacks": callbacks, "metadata": {"session_id": "session-4"}})
        for session in ("thread-3", "session-4"):
            assert [event.tool_id for event in await remembered(raven, session)] == ["find_customer", "list_orders"]


async def test_langchain_tells_the_model_of_handled_errors(tmp_path: Path) -> None:
    """A tool that turns its error into an answer failed all the same; one of the catalogue answers with the code."""

    def refuse(why: str) -> str:
        """Say no."""
        raise ToolException(f"no: {why}")

    async with shop(tmp_path, "home") as (raven, behind):
        adapter = LangChainAdapter(behind, session_id="s", scope="all")
        offered = {tool.name: tool for tool in await adapter.tools()}
        own = StructuredTool.from_function(refuse, handle_tool_error=True)
        config: Any = {"callbacks": [adapter.handler]}
        call: Any = {"type": "tool_call", "id": "1", "name": "refuse", "args": {"why": "late"}}
        answer = await own.ainvoke(call, config=config)
        assert isinstance(answer, ToolMessage)
        assert (answer.status, answer.text) == ("error", "no: late")
        jammed = await offered["jam"].ainvoke({**call, "name": "jam", "args": {"tray": 1}}, config=config)
        assert isinstance(jammed, ToolMessage)
        assert jammed.status == "error"
        assert "TOOL_FAILED" in jammed.text
        one, two = await remembered(raven, "s")
        assert (one.raised, two.raised, two.tool_id) == (True, True, "jam")
        assert await outputs(raven, [one]) == [{"error": "no: late"}]


async def run_openai(adapter: OpenAIAgentsAdapter, tools: list[Tool], *calls: tuple[str, dict[str, Any]]) -> Any:
    steps = [*([function_call(name, args, call_id=name)] for name, args in calls), [assistant_message("done")]]
    agent = OpenAIAgent(name="a", model=ScriptedModel(steps, default_usage=Usage(requests=1)), tools=tools)
    return await Runner.run(await adapter.equipped(agent), "go", run_config=QUIET)


async def test_openai_agents_keep_their_way_with_errors(tmp_path: Path) -> None:
    """Each way to handle a failure gives what it gives unwatched, and the record has what was really raised."""
    async with shop(tmp_path, "home") as (raven, behind):
        adapter = OpenAIAgentsAdapter(behind, session_id="s")
        polite = function_tool(jam, name_override="polite", failure_error_function=lambda _, error: f"sorry: {error}")
        harsh = function_tool(jam, name_override="harsh", failure_error_function=None)
        result = await run_openai(adapter, [function_tool(jam), polite], ("jam", {"tray": 1}), ("polite", {"tray": 2}))
        said = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
        assert said == ["An error occurred while running the tool. Please try again.", "sorry: paper jam in tray 2"]
        with pytest.raises(Exception, match="harsh") as raised:
            await run_openai(adapter, [harsh], ("harsh", {"tray": 3}))
        assert "tray 3" in str(raised.value.__cause__ or raised.value)
        events = await remembered(raven, "s")
        assert [(event.tool_id, event.error_code) for event in events] == [
            ("jam", "ValueError"),
            ("polite", "ValueError"),
            ("harsh", "ValueError"),
        ]
        assert await outputs(raven, events) == [{"error": f"paper jam in tray {tray}"} for tray in (1, 2, 3)]


async def test_openai_agents_tools_without_a_decorator_are_watched(tmp_path: Path) -> None:
    """A tool made by hand is watched, arguments that are no JSON included; the agent itself stays as it was."""

    async def echo(context: Any, text: str) -> str:
        del context
        return text

    async with shop(tmp_path, "home") as (raven, behind):
        adapter = OpenAIAgentsAdapter(behind)
        tool = FunctionTool("echo", "Says it again.", {"type": "object", "properties": {}}, echo)
        agent = OpenAIAgent(
            name="a",
            model=ScriptedModel([[function_call("echo", '{"a": 1}', call_id="1")], [assistant_message("done")]]),
            tools=[tool],
        )
        equipped = await adapter.equipped(agent)
        assert agent.tools == [tool]
        await Runner.run(equipped, "go", run_config=RunConfig(tracing_disabled=True, group_id="group-4"))
        (event,) = await remembered(raven, "group-4")
        assert (event.tool_id, event.input_params) == ("echo", {"a": 1})
        assert adapter.observed(await adapter.tools()) == await adapter.tools()


async def test_pydantic_ai_asks_again_and_defers_as_it_would(tmp_path: Path) -> None:
    """A tool that asks the model to try again failed; one that is deferred was not called."""
    async with shop(tmp_path, "home") as (raven, behind):
        adapter = PydanticAIAdapter(behind, session_id="s")
        tries = iter([ModelRetry("which ada?"), None])

        def ask(name: str) -> str:
            """Ask."""
            trouble = next(tries)
            if trouble is not None:
                raise trouble
            return f"found {name}"

        def wait(name: str) -> str:
            """Wait for somebody."""
            raise CallDeferred

        script = iter([("ask", {"name": "ada"}), ("ask", {"name": "ada k."}), ("wait", {"name": "ada"})])

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            del messages, info
            name, args = next(script)
            return ModelResponse([ToolCallPart(name, args)])

        agent = PydanticAgent(
            FunctionModel(model),
            tools=[ask, wait],
            output_type=[str, DeferredToolRequests],
            capabilities=[adapter.capability()],
        )
        result = await agent.run("go")
        assert isinstance(result.output, DeferredToolRequests)
        events = await remembered(raven, "s")
        assert [(event.tool_id, event.error_code) for event in events] == [("ask", "ModelRetry"), ("ask", None)]


async def test_pydantic_ai_tools_can_be_offered_alone(tmp_path: Path) -> None:
    """As a toolset the catalogue is offered without watching; pydantic-ai's own test model can call all of it."""
    async with shop(tmp_path, "home") as (raven, behind):
        adapter = PydanticAIAdapter(behind, session_id="s", scope="all")
        agent = PydanticAgent(TestModel(call_tools=["find_customer", "list_orders"]), toolsets=[adapter.toolset()])
        await agent.run("go")
        events = await remembered(raven, "s")
        assert {event.tool_id for event in events} == {"find_customer", "list_orders"}
        assert {event.turn for event in events} == {1}


async def test_pydantic_ai_conversations_are_sessions(tmp_path: Path) -> None:
    """Two runs of one conversation are one session, and the second begins with what was said then."""
    async with shop(tmp_path, "home") as (raven, behind):
        adapter = PydanticAIAdapter(behind)

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            del info
            has_called = not isinstance(messages[-1].parts[-1], TextPart) and messages[-1].parts[-1].part_kind != (
                "user-prompt"
            )
            if has_called:
                return ModelResponse([TextPart("done")])
            return ModelResponse([ToolCallPart("list_orders", {"customer_id": "C-ada"})])

        agent = PydanticAgent(FunctionModel(model), tools=list(OWN), capabilities=[adapter.capability()])
        first = await agent.run("ada?")
        await agent.run("again?", message_history=first.all_messages())
        (session,) = await raven.events.sessions("default", limit=5)
        events = await remembered(raven, session.session_id)
        assert [event.outside_input for event in events] == ["ada?", "again?"]
        assert [event.turn for event in events] == [1, 2]
        assert list_orders("C-ada") in await outputs(raven, events)


async def test_a_server_that_goes_away_costs_an_agent_nothing(tmp_path: Path) -> None:
    """The agent works on with its own tools; when the server is back, what it did meanwhile is recorded."""
    library, port = PydanticAI(), free_port()
    turns = [[("find_customer", {"email": "ada@x.org"})], [("list_orders", {"customer_id": "C-ada"})]]
    async with shop(tmp_path, "home") as (raven, _), AsyncClient(f"http://127.0.0.1:{port}") as client:
        adapter = library.adapter(client, session_id="s")
        heard = [await library.run(adapter, f"ada {number}?", turns) for number in range(3)]
        assert [(one.error, len(one.results)) for one in heard] == [(None, 2)] * 3
        async with served(raven, port=port):
            assert await adapter.flush() == 0
            assert await adapter.flush() == 0
        events = await remembered(raven, "s")
        assert [event.tool_id for event in events] == ["find_customer", "list_orders"] * 3
        assert [event.outside_input for event in events if event.outside_input] == ["ada 0?", "ada 1?", "ada 2?"]
