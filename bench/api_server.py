"""Serves one of the contenders of bench_api on a port: the API of a home, or one bare Starlette route."""

from __future__ import annotations

import sys
from pathlib import Path

from twinraven import open_home, tool
from twinraven.serving import AsgiApp, Doorkeeper, listener, run, serve


@tool(effect="read")
async def noop(number: int) -> dict[str, int]:
    """Does nothing and says so."""
    return {"number": number}


def bare(*, reads: bool) -> AsgiApp:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def answer(request: Request) -> JSONResponse:
        if not reads:
            return JSONResponse({"number": 1})
        call = await request.json()
        return JSONResponse({"status": "success", "payload": call["payload"], "error": None})

    return Starlette(routes=[Route("/v1/calls", answer, methods=["POST"])])


def main(which: str, port: int, home: Path) -> None:
    if which != "ours":
        run(serve(listener(bare(reads=which == "reads"), "127.0.0.1", port)))
        return
    from twinraven.api import api_app

    with open_home(home, functions=[noop]) as raven:
        run(serve(listener(api_app(raven, Doorkeeper(raven.tenancy)), "127.0.0.1", port)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
