"""The pages on the client and on agents: what they show runs, and prints what they say."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.usage import Usage
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.agents.libraries import ScriptedChat
from tests.agents.world import find_customer, list_orders, shop
from tests.gateways import promote_tool
from tests.homes import opened_home
from tests.served import served
from twinraven.app import TwinRaven
from twinraven.catalog import tool
from twinraven.flow import StepDefinition

_PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
_CALLS: Sequence[tuple[str, dict[str, str]]] = (
    ("find_customer", {"email": "ada@x.org"}),
    ("list_orders", {"customer_id": "C-ada"}),
)
_ANSWER = "Two orders: C-ada-1 and C-ada-2."


def examples(page: str) -> Iterator[tuple[str, str]]:
    """Each piece of code, and what the page says that it prints."""
    text = (_PAGES / page).read_text("utf-8")
    found = re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL)
    for number, (kind, body) in enumerate(found):
        if kind == "python":
            printed = found[number + 1] if number + 1 < len(found) else ("", "")
            yield body, printed[1] if printed[0] == "text" else ""


async def printed_by(code: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    compiled = compile(code, "<page>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(out):
        running = eval(compiled, names)
        if inspect.isawaitable(running):
            await running
    return out.getvalue()


@tool(effect="read")
def get_order(order_id: int) -> dict[str, Any]:
    """An order."""
    if order_id == 404:
        raise LookupError("no order 404")
    return {"order_id": order_id, "status": "shipped"}


@tool(effect="write")
def refund(order_id: int) -> dict[str, int]:
    """Give money back."""
    return {"refunded": order_id}


async def test_the_page_on_the_client(tmp_path: Path) -> None:
    """A reader who types what the page says sees what the page shows."""
    with opened_home(tmp_path, [get_order, refund]) as raven:
        async with served(raven) as url:
            names: dict[str, Any] = {}
            for code, said in examples("use-the-client.md"):
                mine = code.replace("http://127.0.0.1:8765", url)
                assert await asyncio.to_thread(_print, mine, names) == said
            names["client"].close()


def _print(code: str, names: dict[str, Any]) -> str:
    return asyncio.run(printed_by(code, names))


def pydantic_model() -> FunctionModel:
    script = iter(_CALLS)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        call = next(script, None)
        return ModelResponse([TextPart(_ANSWER) if call is None else ToolCallPart(*call)])

    return FunctionModel(answer)


def openai_model() -> ScriptedModel:
    steps = [[function_call(name, args, call_id=name)] for name, args in _CALLS]
    return ScriptedModel([*steps, [assistant_message(_ANSWER)]], default_usage=Usage(requests=1))


class _Chat(ScriptedChat):
    def bind_tools(self, tools: Any, **rest: Any) -> Runnable[LanguageModelInput, AIMessage]:
        del tools, rest
        return self


def langchain_model() -> _Chat:
    answers = [AIMessage("", tool_calls=[{"name": name, "args": args, "id": name}]) for name, args in _CALLS]
    return _Chat(script=iter([*answers, AIMessage(_ANSWER)]))


_MODELS: dict[str, Callable[[], Any]] = {
    "pydantic_ai": pydantic_model,
    "from agents": openai_model,
    "langchain_core": langchain_model,
}


async def learn(raven: TwinRaven) -> None:
    await promote_tool(
        raven,
        StepDefinition(0, "find_customer", {"email": "$.parameters.q"}),
        StepDefinition(1, "list_orders", {"customer_id": "$.steps[0].output.customer_id"}),
        tool_id="find_customer_list_orders",
    )


async def test_the_page_on_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each library's example runs as it stands, with a model that does what the page says of it."""
    set_tracing_disabled(True)
    async with shop(tmp_path, "home") as (raven, _):
        monkeypatch.setattr("twinraven.open_home", lambda: raven)
        names: dict[str, Any] = {}
        for code, said in examples("connect-an-agent.md"):
            if "offers()" in code:
                await learn(raven)
            for word, model in _MODELS.items():
                if word in code:
                    names["model"] = model()
            assert await printed_by(code, names) == said
        assert names["find_customer"].__doc__ == find_customer.__doc__
        assert names["list_orders"].__doc__ == list_orders.__doc__
