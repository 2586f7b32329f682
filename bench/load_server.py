"""Serves what the load of gateway_load is compared with: an MCP server on streamable HTTP, or one bare Starlette route.

python -m bench.load_server mcp|rest PORT
"""

from __future__ import annotations

import sys

from mcp.server import MCPServer
from pydantic import BaseModel

server = MCPServer("desk", log_level="WARNING")


class Found(BaseModel):
    """What a look-up gives."""

    number: int


@server.tool()
async def look_up(number: int) -> Found:
    """Looks a number up."""
    return Found(number=number)


def serve_rest(port: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def call(request: Request) -> JSONResponse:
        return JSONResponse({"output": (await request.json())["payload"]})

    async def events(request: Request) -> JSONResponse:
        del request
        return JSONResponse({"items": []})

    routes = [Route("/v1/calls", call, methods=["POST"]), Route("/v1/events", events)]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    if sys.argv[1] == "rest":
        serve_rest(int(sys.argv[2]))
    else:
        server.run("streamable-http", port=int(sys.argv[2]))
