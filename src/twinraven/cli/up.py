"""`twinraven up`: the REST API, the console and the MCP gateway on one port, on this machine or for a team."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from twinraven.cli.arguments import count
from twinraven.cli.gateway import ListenAddress, address, takes_require_keys
from twinraven.cli.interrupts import leaving_threads_behind
from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput
from twinraven.tenancy import LOCAL

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.serving import AsgiApp, Authenticator

_DEFAULT: Final = ListenAddress("127.0.0.1", 8765)
_GATEWAY_PATHS: Final = ("mcp", "sse", "messages")
_MISSING: Final = "pip install 'twinraven[server]'"


def register(parser: CommandParser) -> None:
    parser.add_argument(
        "--http",
        "--port",
        dest="http",
        type=address,
        default=_DEFAULT,
        metavar="HOST:PORT",
        help=f"listen there, or on a port of this machine (default: {_DEFAULT.host}:{_DEFAULT.port}); "
        "elsewhere keys are needed",
    )
    parser.add_argument("--no-gateway", action="store_true", help="serve no gateway")
    parser.add_argument("--no-console", action="store_true", help="serve no pages for browsers")
    parser.add_argument(
        "--processes",
        type=count,
        default=1,
        metavar="N",
        help="so many processes for the API, on Postgres; the gateway then has the next port to itself",
    )
    takes_require_keys(parser)
    for handed_down in ("--fd", "--lifeline"):
        parser.add_argument(handed_down, type=int, help=argparse.SUPPRESS)
    parser.runs(run, example="twinraven up --http 127.0.0.1:8765")


def run(options: Namespace) -> None:
    from twinraven.cli.home import opened

    with leaving_threads_behind(), opened(options) as raven:
        if options.processes > 1 and raven.database.dialect != "postgres":
            raise InvalidInput(
                "more than one process needs Postgres; set storage.url, or leave --processes out", field="processes"
            )
        serving = _serve_by_many(raven, options) if options.processes > 1 else _serve(raven, options)
        _run(serving)


def _run(serving: Coroutine[Any, Any, None]) -> None:
    try:
        from twinraven.serving import run
    except ImportError as error:
        serving.close()
        raise InvalidInput(f"a server needs more than is installed: {error}", fix=_MISSING) from error
    run(serving)


async def _serve(raven: TwinRaven, options: Namespace) -> None:
    """Serve from this process."""
    from twinraven.api import api_app
    from twinraven.serving import (
        Authenticator,
        Mounted,
        is_loopback,
        listener,
        open_socket,
        patience_for,
        serve,
        with_cors,
    )

    host, port = options.http
    # Before anything else is started: a port that is taken is known at once.
    opened = open_socket(host, port).detach() if options.fd is None else options.fd
    local = replace(LOCAL, tenant_id=options.tenant)
    is_open = is_loopback(host) and not (options.require_keys or raven.settings.serving.require_keys)
    authenticator = Authenticator(
        raven.tenancy,
        without_key=local if is_open else None,
        sign_ins=raven.sign_ins,
        max_streams=raven.settings.serving.max_streams,
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(raven.watching())
        raven.spans.recover(tenant.tenant_id for tenant in await raven.tenancy.tenants())
        if raven.settings.engine.workers:
            await stack.enter_async_context(raven.working())
        api = api_app(raven, authenticator)
        beside: dict[str, AsgiApp] = {}
        if not options.no_gateway:
            gateway = await stack.enter_async_context(_gateway(raven, options, authenticator))
            beside |= dict.fromkeys(_GATEWAY_PATHS, gateway)
        console = None if options.no_console else _console(api, authenticator)
        if console is not None:
            beside["console"] = console
        app: AsgiApp = Mounted(api, beside)
        if console is not None:
            app = _with_home_page(app)
        app = with_cors(app, raven.settings.serving.allow_origins)
        patience_s = patience_for(raven.settings.calls.default_timeout_ms)
        listening = listener(app, host, port, fd=opened, patience_s=patience_s)

        def tell() -> None:
            if options.fd is None:
                _tell(options.http, None if options.no_gateway else options.http, has_console=console is not None)

        await serve(listening, lifeline=options.lifeline, on_listening=tell)


def _console(api: AsgiApp, authenticator: Authenticator) -> AsgiApp | None:
    """Return the console over the API; None where its template library is not installed."""
    try:
        from twinraven.console import console_app
    except ModuleNotFoundError as error:
        print(
            f"twinraven: no console, {error.name} is not installed: pip install 'twinraven[console]'", file=sys.stderr
        )
        return None
    return console_app(api, authenticator)


def _with_home_page(app: AsgiApp) -> AsgiApp:
    from twinraven.console import home_page

    return home_page(app)


@asynccontextmanager
async def _gateway(raven: TwinRaven, options: Namespace, authenticator: Authenticator) -> AsyncGenerator[AsgiApp]:
    """Provide the gateway's application, as long as the block lasts."""
    from twinraven.serving import alive

    try:
        from twinraven.gateway import Gateway
    except ImportError as error:
        raise InvalidInput(f"the gateway needs the MCP SDK: {error}", fix=f"{_MISSING}, or --no-gateway") from error
    gateway = Gateway(raven, tenant_id=options.tenant)
    async with gateway.running() as server:
        app = gateway.http_app(server, authenticator, options.http.host)
        async with alive(app):
            yield app


async def _serve_by_many(raven: TwinRaven, options: Namespace) -> None:
    """Serve from processes of their own, and look after them."""
    from twinraven.serving import keep_running, open_socket, patience_for

    host, port = options.http
    where = ["-m", "twinraven", "--home", str(raven.home), "--tenant", options.tenant]
    doors = ["--require-keys"] if options.require_keys else []
    pages = ["--no-console"] if options.no_console else []
    with open_socket(host, port) as shared:
        worker = [
            *where,
            "up",
            "--no-gateway",
            "--http",
            f"{host}:{port}",
            "--fd",
            str(shared.fileno()),
            *doors,
            *pages,
        ]
        commands = [worker] * options.processes
        beside = None if options.no_gateway else ListenAddress(host, port + 1)
        if beside is not None:
            commands.append([*where, "gateway", "--http", f"{host}:{beside.port}", *doors])
        _tell(options.http, beside, has_console=not options.no_console)
        patience_s = patience_for(raven.settings.calls.default_timeout_ms)
        await keep_running(commands, fds=[shared.fileno()], patience_s=patience_s)


def _tell(api: ListenAddress, gateway: ListenAddress | None, *, has_console: bool) -> None:
    if has_console:
        print(f"twinraven: the console is at http://{api.host}:{api.port}/console/", file=sys.stderr)
    print(f"twinraven: the API is at http://{api.host}:{api.port}/v1, described by /openapi.json", file=sys.stderr)
    if gateway is not None:
        print(f"twinraven: the gateway is at http://{gateway.host}:{gateway.port}/mcp", file=sys.stderr)
