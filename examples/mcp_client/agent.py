"""An agent that knows MCP and nothing of TwinRaven: it asks the tracker who reported each issue.

Its server is whatever `mcp.json` names: the tracker itself, or the gateway in front of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

SESSIONS = 60


def read_server(config: Path) -> StdioServerParameters:
    """The only server of a client's file."""
    (entry,) = json.loads(config.read_text())["mcpServers"].values()
    return StdioServerParameters(command=entry["command"], args=entry["args"])


async def main(server: StdioServerParameters, sessions: int) -> None:
    """Do the same work in many conversations."""
    async with Client(server) as client:
        names = {tool.name.rpartition("__")[2]: tool.name for tool in (await client.list_tools()).tools}
        for number in range(sessions):
            word = f"word-{number}"
            said = {"conversation_id": f"chat-{number}", "user_message": f"who reported {word}?"}
            found = await _call(client, names["search_issues"], said, query=word)
            issue = await _call(client, names["get_issue"], said, number=found["issues"][0]["number"])
            await _call(client, names["get_user"], said, login=issue["reporter"])
    print(f"{sessions} conversations, {3 * sessions} calls")


async def _call(client: Client, tool: str, said: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """Call a tool; `_meta` tells a gateway which conversation this is and what the user said in it."""
    answer = await client.call_tool(tool, arguments, meta=said)  # pyright: ignore[reportArgumentType]
    return answer.structured_content or {}


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else SESSIONS
    asyncio.run(main(read_server(Path(sys.argv[1] if len(sys.argv) > 1 else "mcp.json")), count))
