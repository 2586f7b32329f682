"""An MCP server on the SDK, which speaks every revision: on stdio, on streamable HTTP or on SSE.

python new.py [stdio | http PORT | sse PORT]
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

PICTURE = base64.b64encode(b"\x89PNG not really").decode()
SOUND = base64.b64encode(b"RIFF not really").decode()

server = MCPServer("new")


@server.prompt(title="Greeting")
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Say hello to {name}."


@server.resource("note://new/today", mime_type="text/plain")
def today() -> str:
    """Today's note."""
    return "new: nothing much"


@server.resource("note://shared", mime_type="text/plain")
def shared() -> str:
    """A note that another server has under the same address."""
    return "new: shared"


@server.resource("picture://new/logo", mime_type="image/png")
def logo() -> bytes:
    """A picture."""
    return b"\x89PNG not really"


@server.resource("order://new/{order_id}", mime_type="text/plain")
def order_text(order_id: str) -> str:
    """One order, in words."""
    return f"new: order {order_id}"


@server.completion()
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion:
    """Knows two names, and three orders."""
    del context
    known = ("Ada", "Alan") if isinstance(ref, types.PromptReference) else ("W1", "W2", "X1")
    return types.Completion(values=[value for value in known if value.startswith(argument.value)])


@server.tool()
async def change_note(ctx: Context[Any]) -> str:
    """Says that its note, its prompts and its resources changed."""
    await ctx.notify_resource_updated("note://new/today")
    await ctx.notify_resources_changed()
    await ctx.notify_prompts_changed()
    return "told"


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
