"""A LangChain agent that is watched: its own tools stay as they are, and each call becomes an event.

The model is scripted, so that this runs without a key; put your own chat model in its place.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from shop_tools import find_customer, get_order, list_orders

from twinraven import open_home
from twinraven.integrations import LangChainAdapter

SESSIONS = 60


class ScriptedModel(BaseChatModel):
    """Looks a customer up, then the orders, then each order: what a model does with such tools."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> ScriptedModel:
        del tools
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        del stop, run_manager
        seen = [json.loads(str(message.content)) for message in messages if isinstance(message, ToolMessage)]
        email = next(word for word in str(messages[0].content).split() if "@" in word)
        calls = [("find_customer", {"email": email})]
        if len(seen) == 1:
            calls = [("list_orders", {"customer_id": seen[0]["customer_id"]})]
        elif seen:
            orders = seen[1]["orders"]
            calls = [("get_order", {"order_id": order}) for order in orders[len(seen) - 2 : len(seen) - 1]]
        asked = [{"name": name, "args": args, "id": f"call-{len(seen)}"} for name, args in calls]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if asked else "Done.", tool_calls=asked))])


TOOLS = [StructuredTool.from_function(function) for function in (find_customer, list_orders, get_order)]


async def converse(adapter: LangChainAdapter, said: str) -> None:
    """One conversation, until the model has nothing left to ask."""
    by_name = {each.name: each for each in TOOLS}
    config: Any = {"callbacks": [adapter.handler]}
    messages: list[BaseMessage] = [HumanMessage(said)]
    while True:
        answer = await ScriptedModel().bind_tools(TOOLS).ainvoke(messages, config=config)
        messages.append(answer)
        if not answer.tool_calls:
            return
        messages += [await by_name[call["name"]].ainvoke(call, config=config) for call in answer.tool_calls]


async def main(sessions: int) -> None:
    """Many conversations, each a session of its own."""
    with open_home() as raven:
        for number in range(sessions):
            adapter = LangChainAdapter(raven, session_id=f"ticket-{number}")
            await converse(adapter, f"What did ada{number}@mail.test order?")
    print(f"{sessions} conversations are remembered")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS))
