"""Serves one of the contenders of bench_api on a port: the API of a home, or one bare Starlette route."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from twinraven import open_home, tool
from twinraven.serving import AsgiApp, Authenticator, listener, run, serve


@tool(effect="read")
async def noop(number: int) -> dict[str, int]:
    """Does nothing and says so."""
    return {"number": number}


def bare() -> AsgiApp:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def answer(request: Request) -> JSONResponse:
        del request
        return JSONResponse({"number": 1})

    return Starlette(routes=[Route("/v1/calls", answer, methods=["POST"])])


def listen(app: AsgiApp, port: int, server: str) -> None:
    """Serve with uvicorn as it is, or with the parser and the loop in C that our extra brings along."""
    listening = listener(app, "127.0.0.1", port)
    if server == "accelerated":
        run(serve(listening))
        return
    listening.config.http = "h11"
    asyncio.run(serve(listening))


def main(which: str, server: str, port: int, home: Path) -> None:
    if which == "bare":
        listen(bare(), port, server)
        return
    from twinraven.api import api_app

    with open_home(home, functions=[noop]) as raven:
        listen(api_app(raven, Authenticator(raven.tenancy)), port, server)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
