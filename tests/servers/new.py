"""An MCP server on the SDK, which speaks every revision: on stdio, on streamable HTTP or on SSE.

python new.py [stdio | http PORT | sse PORT]
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import mcp_types as types
from mcp.server import MCPServer
from pydantic import BaseModel

PICTURE = base64.b64encode(b"\x89PNG not really").decode()
SOUND = base64.b64encode(b"RIFF not really").decode()

server = MCPServer("new")


class Order(BaseModel):
    """What `get_order` answers."""

    order_id: str
    total: float
    note: str | None = None


@server.tool()
def get_order(order_id: str) -> Order:
    """One order."""
    return Order(order_id=order_id, total=12.5)


@server.tool()
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool()
def everything() -> types.CallToolResult:
    """One content block of each kind."""
    return types.CallToolResult.model_validate(EVERYTHING)


@server.tool()
def fail(text: str) -> str:
    """Fails."""
    raise ValueError(f"no luck with {text}")


EVERYTHING: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "words", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        {"type": "audio", "data": SOUND, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "a note"}},
        {"type": "resource", "resource": {"uri": "blob://1", "mimeType": "image/png", "blob": PICTURE}},
        {"type": "resource_link", "uri": "file:///tmp/report.txt", "name": "report"},
    ],
    "structuredContent": {"kinds": 6, "nothing": None},
    "isError": False,
}


def main() -> None:
    way = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    if way == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    elif way == "sse":
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
