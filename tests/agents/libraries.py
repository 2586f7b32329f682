"""The three libraries, each with a model of its own kind that follows a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agents import Agent as OpenAIAgent
from agents import RunConfig, Runner, Usage, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.agents.world import OWN, Heard, Turn
from twinraven.integrations import LangChainAdapter, OpenAIAgentsAdapter, PydanticAIAdapter
from twinraven.integrations.door import Behind

models.ALLOW_MODEL_REQUESTS = False
DONE = "That is all."


class PydanticAI:
    """pydantic-ai with a FunctionModel."""

    def adapter(self, behind: Behind, **options: Any) -> PydanticAIAdapter:
        return PydanticAIAdapter(behind, **options)

    async def run(self, adapter: PydanticAIAdapter, said: str, turns: Sequence[Turn]) -> Heard:
        heard = Heard()
        script = iter(turns)

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            heard.offered.append({tool.name for tool in info.function_tools})
            last = messages[-1]
            assert isinstance(last, ModelRequest)
            heard.results += [part.content for part in last.parts if isinstance(part, ToolReturnPart)]
            calls = next(script, ())
            return ModelResponse([ToolCallPart(name, args) for name, args in calls] or [TextPart(DONE)])

        agent = PydanticAgent(FunctionModel(model), tools=list(OWN), capabilities=[adapter.capability()])
        await _noting(heard, lambda: agent.run(said))
        return heard


class OpenAIAgents:
    """OpenAI Agents with its ScriptedModel."""

    def adapter(self, behind: Behind, **options: Any) -> OpenAIAgentsAdapter:
        return OpenAIAgentsAdapter(behind, **options)

    async def run(self, adapter: OpenAIAgentsAdapter, said: str, turns: Sequence[Turn]) -> Heard:
        heard = Heard()
        numbers = iter(range(1000))
        steps = [
            *([function_call(name, args, call_id=f"call-{next(numbers)}") for name, args in turn] for turn in turns),
            [assistant_message(DONE)],
        ]
        model = ScriptedModel(steps, default_usage=Usage(requests=1))
        agent = OpenAIAgent(name="clerk", model=model, tools=[function_tool(function) for function in OWN])
        config = RunConfig(tracing_disabled=True)

        async def work() -> None:
            result = await Runner.run(await adapter.equipped(agent), said, run_config=config)
            heard.results = [
                _unpacked(item.output) for item in result.new_items if item.type == "tool_call_output_item"
            ]

        await _noting(heard, work)
        heard.offered = [{tool.name for tool in call.tools} for call in model.calls]
        return heard


class ScriptedChat(BaseChatModel):
    """A chat model of LangChain that follows a script."""

    script: Iterator[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **rest: Any,
    ) -> ChatResult:
        del messages, stop, run_manager, rest
        return ChatResult(generations=[ChatGeneration(message=next(self.script))])


def scripted_chat(turns: Sequence[Turn]) -> ScriptedChat:
    numbers = iter(range(1000))
    answers = [
        AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{next(numbers)}"} for name, args in turn])
        for turn in turns
    ]
    return ScriptedChat(script=iter([*answers, AIMessage(DONE)]))


class LangChain:
    """LangChain's core with the smallest loop that is an agent."""

    def adapter(self, behind: Behind, **options: Any) -> LangChainAdapter:
        return LangChainAdapter(behind, **options)

    async def run(self, adapter: LangChainAdapter, said: str, turns: Sequence[Turn]) -> Heard:
        heard = Heard()
        model = scripted_chat(turns)
        own: list[BaseTool] = [StructuredTool.from_function(function) for function in OWN]
        tools = {tool.name: tool for tool in [*own, *await adapter.tools()]}
        messages: list[BaseMessage] = [HumanMessage(said)]

        async def work() -> None:
            while True:
                heard.offered.append(set(tools))
                answer = await model.ainvoke(messages, config={"callbacks": [adapter.handler]})
                messages.append(answer)
                if not answer.tool_calls:
                    return
                for call in answer.tool_calls:
                    result = await tools[call["name"]].ainvoke(
                        {**call, "type": "tool_call"}, config={"callbacks": [adapter.handler]}
                    )
                    assert isinstance(result, ToolMessage)
                    messages.append(result)
                    heard.results.append(_unpacked(result.text))

        await _noting(heard, work)
        return heard


async def _noting(heard: Heard, work: Callable[[], Any]) -> None:
    try:
        await work()
    except Exception as error:  # noqa: BLE001 - whatever ends a run is what the test looks at
        heard.error = error


def _unpacked(said: Any) -> Any:
    try:
        return json.loads(said) if isinstance(said, str) else said
    except ValueError:
        return said


LIBRARIES = {"pydantic-ai": PydanticAI(), "openai-agents": OpenAIAgents(), "langchain": LangChain()}
