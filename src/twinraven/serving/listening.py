"""What listens on a port, and how long it goes on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import uvicorn

from twinraven.foundation.errors import InvalidInput
from twinraven.serving.signals import ending_with

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_PATIENCE_S: Final = 2
_BACKLOG: Final = 2048


class _Listener(uvicorn.Server):
    """A server on a socket that is open already, which leaves signals alone: whoever runs it decides when it ends."""

    def __init__(self, config: uvicorn.Config, opened: socket.socket) -> None:
        super().__init__(config)
        self._opened = opened

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets
        await super().serve(sockets=[self._opened])


def listener(app: AsgiApp, host: str, port: int, *, fd: int | None = None) -> uvicorn.Server:
    """What listens, from now on; told to exit, it does not wait for clients whose streams stay open for ever."""
    opened = open_socket(host, port) if fd is None else socket.socket(fileno=fd)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    return _Listener(config, opened)


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket, which other processes can be given."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By name, because asyncio sends small answers at once only on sockets that say they are TCP.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host.strip("[]"), port))
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise InvalidInput(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another with --http", field="http"
        ) from error
    opened.set_inheritable(True)
    return opened


async def serve(listening: uvicorn.Server) -> None:
    """Serve until we are asked to end."""
    with ending_with(partial(setattr, listening, "should_exit", True)):
        await listening.serve()


def run(serving: Coroutine[Any, Any, None]) -> None:
    """Run a server to its end, on the fastest event loop that is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        from asyncio import new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serving)
