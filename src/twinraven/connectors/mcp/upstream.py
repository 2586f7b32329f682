"""Supervises one upstream server: connects, probes it, and reconnects with backoff.

A server may die, hang, flood or talk nonsense; none of that may reach the others or keep a caller waiting. So each has
a task of its own that connects, learns its tools, waits until the connection is lost, and tries again, each time after
a longer pause. A call that was cut short makes it look whether the server still answers at all.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from twinraven.connectors.mcp.backchannel import CallSide, ClientSide
from twinraven.connectors.mcp.errors import UpstreamLost
from twinraven.connectors.mcp.model import (
    Definition,
    Listing,
    State,
    UpstreamCapabilities,
    UpstreamChange,
    UpstreamChangeKind,
    UpstreamEvent,
    UpstreamStatus,
)
from twinraven.connectors.mcp.placeholders import FilledServer
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.foundation.errors import ToolUnavailable, TwinRavenError

if TYPE_CHECKING:
    from twinraven.connectors.mcp.connection import UpstreamConnection

_LONGEST_REASON: Final = 400
_MARGIN: Final = 0.9
"""What is left of a call's time is needed to say that nothing was sent."""
T = TypeVar("T")
_logger = logging.getLogger("twinraven.mcp")


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """Limits on an upstream server: message size, timeouts, and the backoff of reconnects."""

    max_bytes: int = 16 * 1024 * 1024
    connect_s: float = 120.0
    """How long a server may take to start: some are installed by the command that starts them."""
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
        on_news: Callable[[UpstreamChangeKind, str | None], None],
        handshake_first: bool,
        side: ClientSide,
    ) -> AbstractAsyncContextManager[UpstreamConnection]: ...


class Upstream:
    """A supervised server."""

    def __init__(
        self,
        server: ServerConfig,
        *,
        fill: Callable[[ServerConfig], Awaitable[FilledServer]],
        on_tools: Callable[[str, Listing], Awaitable[None]],
        on_event: Callable[[UpstreamEvent], Awaitable[None]],
        limits: UpstreamLimits,
        on_news: Callable[[UpstreamChange], None] | None = None,
        connect: Connecting | None = None,
        side: ClientSide | None = None,
    ) -> None:
        self.server = server
        self.abilities: UpstreamCapabilities | None = None
        """What it offers besides tools, once it has said so; a server that is down is remembered."""
        self.instructions: str | None = None
        """What it says to the models that use it."""
        self._side = side or ClientSide()
        self._fill = fill
        self._on_tools = on_tools
        self._on_event = on_event
        self._on_news = on_news
        self._wanted: dict[str, int] = {}
        self._limits = limits
        self._connect = connect
        self._task: asyncio.Task[None] | None = None
        self._suspicions = 0
        self._cleared = 0
        """The number of suspicions resolved so far. Monotonic; a waiter compares it with the number when it began."""
        self._forget()

    def _forget(self) -> None:
        self._state: State = "idle"
        self._connection: UpstreamConnection | None = None
        self._filled: FilledServer | None = None
        self._version: str | None = None
        self._reason: str | None = None
        self._told_down: str | None = None
        self._failures = 0
        self._restarts = 0
        self._retry_at = 0.0
        self._tried = asyncio.Event()
        self._wake = asyncio.Event()
        self._judged = asyncio.Event()

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
        # One that is done may be of a loop that is closed.
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
        self._state = "closed"

    @property
    def status(self) -> UpstreamStatus:
        shown = self._reason if self._state != "up" else None
        return UpstreamStatus(
            self.server.name, self.server.transport, self._state, self._version, shown, self._restarts
        )

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        writes: bool = True,
        until: float | None = None,
        side: CallSide | None = None,
    ) -> dict[str, Any]:
        """Call one of its tools; a server that is starting is waited for, one that is down is not.

        What may change something is not sent to a server that perhaps hangs before it has shown that it does not; what
        others suspect meanwhile does not count, or callers without patience could hold up all writes for ever.
        Whoever waits longer than `until`, by the clock of the loop, is told that nothing was sent. `side` is the way
        back to whoever called.
        """
        connection = await self._reach(until)
        met = self._suspicions
        while writes and self._cleared < met:
            await self._wait(self._judged, until, "perhaps hangs: it left a call without an answer")
            connection = await self._reach(until)
        try:
            return await connection.call(tool, arguments, side)
        except UpstreamLost:
            # Perhaps it is another server now, with other tools, or none.
            self._wake.set()
            raise
        except asyncio.CancelledError:
            # The caller's time ran out, or the caller left: perhaps the server hangs.
            self._suspect()
            raise

    async def ask(self, method: str, params: dict[str, Any], side: CallSide | None = None) -> dict[str, Any]:
        """Ask it something that is not about tools, under the same rules as a call."""
        return await self._asking(lambda connection: connection.ask(method, params, side))

    async def tell(self, telling: Callable[[UpstreamConnection], Awaitable[None]]) -> None:
        """Tell it something of the clients, if it is there; what it thinks of that is its own business."""
        if self._connection is not None:
            try:
                async with asyncio.timeout(self._limits.probe_s):
                    await telling(self._connection)
            except (TwinRavenError, TimeoutError) as error:
                _logger.debug("%r was told something in vain: %s", self.server.name, error)

    async def listed(self, method: str, member: str, *, most: int) -> list[Definition]:
        """Return all that it lists in answer to this."""
        return await self._asking(lambda connection: connection.listed(method, member, most=most))

    async def subscribe(self, uri: str) -> None:
        """Have changes of a resource announced, by this connection and by those after it."""
        if uri not in self._wanted:
            await self._asking(lambda connection: connection.subscribe(uri))
        self._wanted[uri] = self._wanted.get(uri, 0) + 1

    async def unsubscribe(self, uri: str) -> None:
        """Give up one such wish; the last one ends the announcements."""
        left = self._wanted.pop(uri, 0) - 1
        if left > 0:
            self._wanted[uri] = left
        elif self._connection is not None:
            await self._asking(lambda connection: connection.unsubscribe(uri))

    async def _asking(self, question: Callable[[UpstreamConnection], Awaitable[T]]) -> T:
        connection = await self._reach()
        try:
            return await question(connection)
        except asyncio.CancelledError:
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

    async def _reach(self, until: float | None = None) -> UpstreamConnection:
        self.start()
        if self._state == "starting":
            await self._wait(self._tried, until, "is still starting")
        if self._connection is None or self._reason is not None:
            raise self._unavailable()
        return self._connection

    async def _wait(self, event: asyncio.Event, until: float | None, what: str) -> None:
        try:
            async with asyncio.timeout_at(until):
                await event.wait()
        except TimeoutError:
            name = self.server.name
            raise ToolUnavailable(f"{name!r} {what}; nothing was sent", server=name) from None

    def _suspect(self) -> None:
        self._suspicions += 1
        self._wake.set()

    def _clear(self, suspicions: int) -> None:
        """Settle so many suspicions, and wake what waited for one of them."""
        self._cleared = suspicions
        judged, self._judged = self._judged, asyncio.Event()
        judged.set()

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
            if self._task is not asyncio.current_task():
                # Asked to end while a library was failing: its error came out in the place of the cancellation.
                return
            if self._state == "up":
                self._tell_of_lists()
            if loop.time() - begun > self._limits.steady_s:
                self._failures = 0
            await self._pause(loop.time())

    async def _live(self) -> None:
        """One connection, from its first word to its last."""
        filled = await self._fill(self.server)
        self._filled = filled
        await self._side.known()
        begin = self._connect or _sdk_connect()
        link = begin(
            filled.config,
            max_bytes=self._limits.max_bytes,
            on_fault=self._fault,
            on_change=self._wake.set,
            on_news=self._tell,
            handshake_first=filled.config.handshake or self._failures % 2 == 1,
            side=self._side,
        )
        async with asyncio.timeout(self._limits.connect_s) as limit, link as connection:
            await self._on_tools(self.server.name, await connection.tools())
            limit.reschedule(None)
            wished = list(self._wanted)  # from here on, wishes reach this connection by themselves
            await self._come_up(connection)
            work = (connection.watch_lists(), self._resubscribe(connection, wished), self._set_log_level())
            watching = [asyncio.ensure_future(part) for part in work]
            try:
                await self._stay(connection)
            finally:
                # From here on it is only taken down, which takes a while.
                self._connection = None
                for task in watching:
                    task.cancel()
                await asyncio.wait(watching)

    async def _set_log_level(self) -> None:
        """Want of a new connection the log messages that clients want."""
        level = self._side.log_level
        if level is not None:
            await self.tell(lambda connection: connection.set_log_level(level))

    async def _resubscribe(self, connection: UpstreamConnection, wished: Sequence[str]) -> None:
        """Wish again what was wished of an earlier connection; what changed in between was not heard."""
        for uri in wished:
            if uri not in self._wanted:
                continue
            try:
                await connection.subscribe(uri)
            except TwinRavenError as error:
                _logger.warning("%r does not announce changes of a resource any more: %s", self.server.name, error)
            else:
                self._tell("updated", uri)

    async def _come_up(self, connection: UpstreamConnection) -> None:
        self._connection, self._version, self._state = connection, connection.protocol_version, "up"
        self.abilities, self.instructions = connection.abilities, connection.instructions
        self._clear(self._suspicions)
        self._tried.set()
        self._tell_of_lists()
        again = " again" if self._restarts else ""
        self._told_down = None
        await self._say("up", f"connected{again}, revision {connection.protocol_version}")

    async def _stay(self, connection: UpstreamConnection) -> None:
        """Until the connection is lost: read the tools anew when told to, when in doubt, and now and then."""
        while True:
            woken = await _first_of(connection.lost, self._wake, within_s=self._limits.refresh_s)
            if connection.lost.is_set() or self._reason is not None:
                return
            self._wake.clear()
            suspicions = self._suspicions
            suspected = self._cleared < suspicions
            try:
                async with asyncio.timeout(self._limits.probe_s if suspected else self._limits.connect_s):
                    await self._on_tools(self.server.name, await connection.tools())
            except TimeoutError:
                self._fault("it hangs: it does not answer any more" if suspected or woken else "it does not answer")
                return
            # An answer says nothing about a suspicion that arose after the question.
            self._clear(suspicions)

    async def _pause(self, now: float) -> None:
        """Say that it is down, and wait before the next attempt."""
        limits = self._limits
        wait = min(limits.longest_pause_s, limits.first_pause_s * 2 ** min(self._failures, 16))
        wait *= random.uniform(0.8, 1.2)
        self._failures += 1
        self._restarts += 1
        self._reason = self._reason or "the connection ended"
        self._state, self._retry_at = "down", now + wait
        self._clear(self._suspicions)
        self._tried.set()
        if self._reason != self._told_down:
            # Evidence is of what changed: an attempt that fails for the same reason is no news.
            self._told_down = self._reason
            await self._say("down", self._reason, retry_in_s=round(wait, 2))
        await asyncio.sleep(wait)
        self._state, self._tried = "starting", asyncio.Event()

    def _tell_of_lists(self) -> None:
        """Its prompts and resources are there now, or not any more."""
        if self.abilities is not None and self.abilities.prompts:
            self._tell("prompts", None)
        if self.abilities is not None and self.abilities.resources:
            self._tell("resources", None)

    def _tell(self, kind: UpstreamChangeKind, uri: str | None) -> None:
        if self._on_news is not None:
            self._on_news(UpstreamChange(self.server.name, kind, uri))

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


def give_up_at(timeout_ms: int) -> float:
    """Until when, by the clock of the loop, a call that begins now may wait for its server before it is sent."""
    return asyncio.get_running_loop().time() + timeout_ms * _MARGIN / 1000


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
    """Return what went wrong, in words; of a group the first that says something."""
    if isinstance(error, BaseExceptionGroup):
        return _words(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return str(error) or type(error).__name__


def _sdk_connect() -> Connecting:
    """Import the SDK when the first server is really reached."""
    try:
        from twinraven.connectors.mcp.connection import connect
    except ImportError as error:
        raise ToolUnavailable(
            f"MCP servers cannot be reached: {error}", fix="pip install 'twinraven[gateway]'"
        ) from error
    return connect
