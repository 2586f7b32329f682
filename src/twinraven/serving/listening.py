"""Listens on a port and serves until it is told to stop.

A server that is asked to end takes no new requests, ends the streams, which last as long as their clients, and lets
every other request come to its end: a write that is cut off leaves nobody knowing whether it happened.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import uvicorn

from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.ids import new_id
from twinraven.serving.access_log import with_access_log
from twinraven.serving.authenticator import ENDING
from twinraven.serving.connections import CONNECTIONS, Connections
from twinraven.serving.errors import ServerEnding
from twinraven.serving.signals import ending_with
from twinraven.serving.slow_requests import ARRIVAL_S, SlowRequestReaper

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

PATIENCE_S: Final = 35.0
"""The default grace period of requests under way when the server ends."""

_MARGIN_S: Final = 5.0
_LAST_WORDS_S: Final = 2.0
_BACKLOG: Final = 2048
_TICKS_BETWEEN_LOOKS: Final = 10
_OBJECTS_BETWEEN_LOOKS: Final = 10_000
_LONGEST_HOLD_S: Final = 0.0005
"""A thread keeps the interpreter at most so long while others want it: a call goes from the event loop to threads and
back several times, and with Python's 5 ms it waits that long each time beside a page or a computation."""
_KEEP_ALIVE_S: Final = 75
"""How long an idle connection stays open; clients close theirs earlier, when they next need one, which tells whose
the new one is."""


class _Entrance:
    """Tells each request how to hear of the server's end and of closed connections; answers for those cut off."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self.ending = asyncio.Event()
        self.connections = Connections()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ENDING] = self.ending
        scope[CONNECTIONS] = self.connections
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if scope["type"] != "http" or not self.ending.is_set():
                raise
            # The server refuses a second beginning; an answer that has begun can only be broken off.
            with suppress(RuntimeError):
                await _excuse(send)
                return
            raise


async def _excuse(send: Send) -> None:
    error = ServerEnding("the server ended before this was done; send it again, under the same Idempotency-Key")
    told = error.as_json()
    problem = {
        "type": f"urn:twinraven:error:{error.code}",
        "title": "Service Unavailable",
        "status": 503,
        "detail": told.pop("message"),
        **told,
    }
    body = json.dumps(problem).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"1"),
        (b"cache-control", b"no-store"),
        (b"x-correlation-id", new_id().encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Listener(uvicorn.Server):
    """A server on a socket that is open already, which leaves signals alone: whoever runs it decides when it ends."""

    def __init__(self, config: uvicorn.Config, opened: socket.socket, entrance: _Entrance, *, arrival_s: float) -> None:
        super().__init__(config)
        self._opened = opened
        self._ending = entrance.ending
        self.server_state.connections = entrance.connections
        self._reaper = SlowRequestReaper(self.server_state.connections, patience_s=arrival_s)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets
        await super().serve(sockets=[self._opened])

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_BETWEEN_LOOKS == 0:
            self._reaper.look()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending.set()
        self._reaper.cut()
        await super().shutdown(sockets)
        left = list(self.server_state.tasks)
        if self.force_exit:
            for task in left:
                task.cancel()
        if left:
            # What was cut off still records that it was, and says so to its client.
            await asyncio.wait(left, timeout=_LAST_WORDS_S)


def listener(
    app: AsgiApp,
    host: str,
    port: int,
    *,
    fd: int | None = None,
    patience_s: float = PATIENCE_S,
    arrival_s: float = ARRIVAL_S,
) -> uvicorn.Server:
    """Return a running server; on exit it waits so long for requests, but not for streams.

    A request that takes longer than `arrival_s` to arrive is cut off.
    """
    opened = open_socket(host, port) if fd is None else socket.socket(fileno=fd)
    entrance = _Entrance(with_access_log(app))
    config = uvicorn.Config(
        entrance,
        log_config=None,
        access_log=False,
        # We have none, and a connection that was upgraded is no request any more.
        ws="none",
        server_header=False,
        # Who connects is who connects: a header that says otherwise would make a stranger's request come from here.
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(patience_s),
    )
    return _Listener(config, opened, entrance, arrival_s=arrival_s)


def patience_for(timeout_ms: int) -> float:
    """Return the grace period in seconds for calls that may take so long."""
    return timeout_ms / 1000 + _MARGIN_S


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket, which other processes can be given."""
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


async def serve(
    listening: uvicorn.Server, *, lifeline: int | None = None, on_listening: Callable[[], None] = lambda: None
) -> None:
    """Serve until a signal or the end of the lifeline's holder; a second signal ends at once.

    `on_listening` is called when a signal would already end it in order: whoever reads what it says may send one.
    """
    with ending_with(
        partial(setattr, listening, "should_exit", True),
        at_once=partial(setattr, listening, "force_exit", True),
        lifeline=lifeline,
    ):
        on_listening()
        await listening.serve()


def run(serving: Coroutine[Any, Any, None]) -> None:
    """Run a server to its end, on the fastest event loop that is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        from asyncio import new_event_loop
    with _looking_less_for_garbage(), _quick_switches(), asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serving)


@contextmanager
def _looking_less_for_garbage() -> Generator[None]:
    """What is there when a server begins is there until it ends; going through all of it would make requests wait."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _quick_switches() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_LONGEST_HOLD_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
