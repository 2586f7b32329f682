"""What listens on a port, and how long it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import uvicorn

from twinraven.serving.signals import ending_with

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_PATIENCE_S: Final = 2


class _Listener(uvicorn.Server):
    """A server that leaves signals alone: whoever runs it decides when it ends."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listener(app: AsgiApp, host: str, port: int, *, fd: int | None = None) -> uvicorn.Server:
    """What listens; told to exit, it does not wait for clients whose streams stay open as long as they live."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        fd=fd,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE_S,
    )
    return _Listener(config)


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
