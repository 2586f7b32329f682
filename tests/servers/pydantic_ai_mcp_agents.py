"""Runs agents of pydantic-ai, each with an MCP toolset of its own and nothing that names its conversation.

    python pydantic_ai_mcp_agents.py ADDRESS AGENTS AT_ONCE

Each calls `old__echo` three times, one call a turn. It needs `pydantic-ai-slim[mcp]`, so tests run it in an environment
of its own.
"""

from __future__ import annotations

import asyncio
import sys

from pydantic_ai import Agent, models
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

models.ALLOW_MODEL_REQUESTS = False
TURNS = 3


async def run_agent(address: str, number: int, gate: asyncio.Semaphore) -> None:
    """One conversation; its texts say whose they are."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn == TURNS:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("old__echo", {"text": f"agent {number}"})])

    async with gate:
        await Agent(FunctionModel(model), toolsets=[MCPToolset(address)]).run("go")


async def main() -> None:
    address, agents, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    gate = asyncio.Semaphore(at_once)
    await asyncio.gather(*(run_agent(address, number, gate) for number in range(agents)))


if __name__ == "__main__":
    asyncio.run(main())
