"""Mounts several ASGI applications on one port, by the first segment of the path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from twinraven.serving.listening import AsgiApp, Message, Receive, Scope, Send


class Mounted:
    """Sends each request to the application that has its first segment, and everything else to the main one."""

    def __init__(self, main: AsgiApp, others: Mapping[str, AsgiApp]) -> None:
        self._main = main
        self._others = dict(others)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._main
        if scope["type"] == "http":
            app = self._others.get(scope["path"].removeprefix("/").partition("/")[0], app)
        await app(scope, receive, send)


@asynccontextmanager
async def alive(app: AsgiApp) -> AsyncGenerator[None]:
    """Provide an application that was started as a server would start it, and is ended with the block."""
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    outbox: asyncio.Queue[Message] = asyncio.Queue()
    scope: Scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
    running = asyncio.ensure_future(app(scope, inbox.get, outbox.put))
    try:
        await _told(running, inbox, outbox, "startup")
        yield
        await _told(running, inbox, outbox, "shutdown")
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _told(
    running: asyncio.Future[None], inbox: asyncio.Queue[Message], outbox: asyncio.Queue[Message], phase: str
) -> None:
    await inbox.put({"type": f"lifespan.{phase}"})
    answer = asyncio.ensure_future(outbox.get())
    await asyncio.wait([running, answer], return_when=asyncio.FIRST_COMPLETED)
    if not answer.done():
        answer.cancel()
        running.result()
        return
    message = answer.result()
    if message["type"].endswith(".failed"):
        raise RuntimeError(message.get("message") or f"an application did not survive its {phase}")
