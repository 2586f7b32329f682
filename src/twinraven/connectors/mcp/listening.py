"""Keeps notification streams of upstream servers open (newest protocol revision), and reopens those that break.

What is announced arrives with all other messages; here it is only seen to that the server goes on announcing. A stream
that breaks off is opened anew, and a set of resources that changes gets a new stream before the old one is let go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError

_OPEN_S: Final = 10.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
"""Pauses grow up to this; a stream that lasted as long was a good one."""


async def follow(
    session: ClientSession,
    *,
    tools: bool = False,
    prompts: bool = False,
    resources: bool = False,
    uris: tuple[str, ...] = (),
    on_open: Callable[[], None] | None = None,
) -> None:
    """Hold such a stream open, until the server says that it has none."""
    pause, loop = _FIRST_PAUSE_S, asyncio.get_running_loop()
    while True:
        begun = loop.time()
        stream = listen(
            session,
            tools_list_changed=tools,
            prompts_list_changed=prompts,
            resources_list_changed=resources,
            resource_subscriptions=uris,
        )
        try:
            async with asyncio.timeout(_OPEN_S) as limit, stream as events:
                limit.reschedule(None)
                if on_open is not None:
                    on_open()
                async for _ in events:
                    pass
        except (SubscriptionLost, TimeoutError):
            pass
        except MCPError:
            return
        pause = _FIRST_PAUSE_S if loop.time() - begun > _LONGEST_PAUSE_S else pause
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE_S, pause * 2)


class ResourceListener:
    """Subscribes to resources over one connection."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._uris: set[str] = set()
        self._stream: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def add(self, uri: str) -> None:
        """Hear of this one, too, from when this returns."""
        if uri not in self._uris:
            self._uris.add(uri)
            await self._follow_anew()

    async def remove(self, uri: str) -> None:
        if uri in self._uris:
            self._uris.discard(uri)
            await self._follow_anew()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.cancel()

    async def _follow_anew(self) -> None:
        async with self._turn:
            before, self._stream = self._stream, None
            if self._uris:
                opened = asyncio.Event()
                work = follow(self._session, uris=tuple(sorted(self._uris)), on_open=opened.set)
                self._stream = asyncio.ensure_future(work)
                await _either(self._stream, opened)
            if before is not None:
                before.cancel()


async def _either(task: asyncio.Task[None], opened: asyncio.Event) -> None:
    """Until the stream is open, or will not be soon."""
    waiting = asyncio.ensure_future(opened.wait())
    try:
        await asyncio.wait([task, waiting], timeout=_OPEN_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
