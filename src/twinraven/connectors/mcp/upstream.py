"""One upstream server and whoever keeps it alive.

A server may die, hang, flood or talk nonsense; none of that may reach the others or keep a caller waiting. So each has
a task of its own that connects, learns its tools, waits until the connection is lost, and tries again, each time after
a longer pause. A call that was cut short makes it look whether the server still answers at all.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from twinraven.connectors.mcp.model import Definition, State, UpstreamEvent, UpstreamStatus
from twinraven.connectors.mcp.placeholders import FilledServer
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.foundation.errors import ToolUnavailable, TwinRavenError

if TYPE_CHECKING:
    from twinraven.connectors.mcp.connection import Connection

_LONGEST_REASON: Final = 400
_logger = logging.getLogger("twinraven.mcp")


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """What a server may cost us."""

    max_bytes: int = 16 * 1024 * 1024
    connect_s: float = 30.0
    probe_s: float = 5.0
    """How long a server that cut a call short may take to show that it still answers."""
    first_pause_s: float = 0.5
    longest_pause_s: float = 60.0
    steady_s: float = 60.0
    """A connection that lasted so long was a good one: the next pause is a short one again."""
    refresh_s: float = 300.0
    """How often the list of tools is read anew without being told to."""


class Connecting(Protocol):
    """Makes a connection to a server whose configuration is complete."""

    def __call__(
        self,
        server: ServerConfig,
        *,
        max_bytes: int,
        on_fault: Callable[[str], None],
        on_change: Callable[[], None],
        handshake_only: bool,
    ) -> AbstractAsyncContextManager[Connection]: ...


class Upstream:
    """A supervised server."""

    def __init__(
        self,
        server: ServerConfig,
        *,
        fill: Callable[[ServerConfig], Awaitable[FilledServer]],
        on_tools: Callable[[str, list[Definition]], Awaitable[None]],
        on_event: Callable[[UpstreamEvent], Awaitable[None]],
        limits: UpstreamLimits,
        connect: Connecting | None = None,
    ) -> None:
        self.server = server
        self._fill = fill
        self._on_tools = on_tools
        self._on_event = on_event
        self._limits = limits
        self._connect = connect
        self._task: asyncio.Task[None] | None = None
        self._forget()

    def _forget(self) -> None:
        self._state: State = "idle"
        self._connection: Connection | None = None
        self._filled: FilledServer | None = None
        self._version: str | None = None
        self._reason: str | None = None
        self._failures = 0
        self._restarts = 0
        self._retry_at = 0.0
        self._tried = asyncio.Event()
        self._wake = asyncio.Event()
        self._suspected = False

    def start(self) -> None:
        """Begin to keep it alive, on the running loop."""
        if self._task is None or self._task.done():
            self._forget()
            self._state = "starting"
            self._task = asyncio.get_running_loop().create_task(self._supervise(), name=f"mcp {self.server.name}")

    async def tried(self) -> None:
        """Return when the first attempt to reach it has ended, either way."""
        self.start()
        await self._tried.wait()

    async def close(self) -> None:
        """Let go of it, and end it where we started it."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._state = "closed"

    @property
    def status(self) -> UpstreamStatus:
        shown = self._reason if self._state != "up" else None
        return UpstreamStatus(
            self.server.name, self.server.transport, self._state, self._version, shown, self._restarts
        )

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call one of its tools; one that is starting is waited for, one that is down is not."""
        connection = await self._reach()
        try:
            return await connection.call(tool, arguments)
        except asyncio.CancelledError:
            # The caller's time ran out, or the caller left: perhaps the server hangs.
            self._suspect()
            raise

    async def probe(self) -> None:
        """Raise ToolUnavailable unless it answers now."""
        connection = await self._reach()
        try:
            async with asyncio.timeout(self._limits.probe_s):
                await connection.greet()
        except TimeoutError:
            self._suspect()
            raise ToolUnavailable(f"{self.server.name!r} does not answer", server=self.server.name) from None

    async def _reach(self) -> Connection:
        self.start()
        if self._state == "starting":
            await self._tried.wait()
        if self._connection is None:
            raise self._unavailable()
        return self._connection

    def _suspect(self) -> None:
        self._suspected = True
        self._wake.set()

    def _unavailable(self) -> ToolUnavailable:
        pause = max(0.0, self._retry_at - asyncio.get_running_loop().time())
        name = self.server.name
        return ToolUnavailable(
            f"{name!r} is down: {self._reason or 'not connected'}; it is tried again in {pause:.0f} s", server=name
        )

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            self._reason = None
            try:
                await self._live()
            except Exception as error:  # noqa: BLE001 - the supervisor's edge: whatever ended it, it is tried again
                self._fault(_words(error))
            finally:
                self._connection = None
            if loop.time() - begun > self._limits.steady_s:
                self._failures = 0
            await self._pause(loop.time())

    async def _live(self) -> None:
        """One connection, from its first word to its last."""
        filled = await self._fill(self.server)
        self._filled = filled
        begin = self._connect or _sdk_connect()
        link = begin(
            filled.config,
            max_bytes=self._limits.max_bytes,
            on_fault=self._fault,
            on_change=self._wake.set,
            handshake_only=self._failures % 2 == 1,
        )
        async with asyncio.timeout(self._limits.connect_s) as limit, link as connection:
            await self._on_tools(self.server.name, await connection.tools())
            limit.reschedule(None)
            await self._come_up(connection)
            watching = asyncio.ensure_future(connection.watch_tools(self._wake.set))
            try:
                await self._stay(connection)
            finally:
                watching.cancel()
                await asyncio.wait([watching])

    async def _come_up(self, connection: Connection) -> None:
        self._connection, self._version, self._state = connection, connection.protocol_version, "up"
        self._tried.set()
        again = " again" if self._restarts else ""
        await self._say("up", f"connected{again}, revision {connection.protocol_version}")

    async def _stay(self, connection: Connection) -> None:
        """Until the connection is lost: read the tools anew when told to, when in doubt, and now and then."""
        while True:
            woken = await _first_of(connection.lost, self._wake, within_s=self._limits.refresh_s)
            if connection.lost.is_set() or self._reason is not None:
                return
            self._wake.clear()
            suspected, self._suspected = self._suspected, False
            try:
                async with asyncio.timeout(self._limits.probe_s if suspected else self._limits.connect_s):
                    await self._on_tools(self.server.name, await connection.tools())
            except TimeoutError:
                self._fault("it hangs: it does not answer any more" if suspected or woken else "it does not answer")
                return

    async def _pause(self, now: float) -> None:
        """Say that it is down, and wait before the next attempt."""
        limits = self._limits
        wait = min(limits.longest_pause_s, limits.first_pause_s * 2 ** min(self._failures, 16))
        wait *= random.uniform(0.8, 1.2)
        self._failures += 1
        self._restarts += 1
        self._reason = self._reason or "the connection ended"
        self._state, self._retry_at = "down", now + wait
        self._tried.set()
        await self._say("down", self._reason, retry_in_s=round(wait, 2))
        await asyncio.sleep(wait)
        self._state, self._tried = "starting", asyncio.Event()

    def _fault(self, reason: str) -> None:
        """Note why this connection is over; the first reason is the true one."""
        if self._reason is None:
            clean = reason if self._filled is None else self._filled.scrub(reason)
            self._reason = clean[:_LONGEST_REASON]
            self._wake.set()

    async def _say(self, kind: str, message: str, **data: Any) -> None:
        event = UpstreamEvent(self.server.name, kind, message, {"transport": self.server.transport, **data})
        try:
            await self._on_event(event)
        except TwinRavenError as error:
            _logger.warning("what happened to %r could not be noted: %s", self.server.name, error)


async def _first_of(*events: asyncio.Event, within_s: float) -> bool:
    """Wait for any of these, at most so long; says whether one came."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return bool(done)


def _words(error: BaseException) -> str:
    """What went wrong, in words; of a group the first that says something."""
    if isinstance(error, BaseExceptionGroup):
        return _words(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error) or type(error).__name__


def _sdk_connect() -> Connecting:
    """The SDK is loaded when the first server is really reached."""
    try:
        from twinraven.connectors.mcp.connection import connect
    except ImportError as error:
        raise ToolUnavailable(
            f"MCP servers cannot be reached: {error}", fix="pip install 'twinraven[gateway]'"
        ) from error
    return connect
