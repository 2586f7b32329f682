"""Routes what an upstream server asks and says during a call to the client whose call it is.

A server may report progress, log, ask for a model's completion (sampling), for a person's input (elicitation) and for
folders (roots). Revisions with a handshake send questions and log messages beside the calls, without saying which call
they belong to, on a connection that all clients of a gateway share. They are passed on where there is no doubt: to the
one client that has calls under way, else to the one client that there is. Where several have, a question waits: the
call that asks cannot end before it is answered, so the last of those that were under way is the one that asks. What one
client's call causes is never shown to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from twinraven.foundation.errors import ToolError

if TYPE_CHECKING:
    from twinraven.calls import CallerChannel

QUESTIONS: Final = frozenset({"sampling/createMessage", "elicitation/create", "roots/list"})
LOG: Final = "notifications/message"
_TICK_S: Final = 5.0
"""How often the time of a call begins anew while its client is asked something."""
_KNOWN_WITHIN_S: Final = 3.0
_TOLD_APART_WITHIN_S: Final = 30.0
"""How long a question waits for the calls of other clients to end."""


class ClientSide:
    """The clients of a tenant, as all its upstream connections know them."""

    def __init__(self) -> None:
        self.capabilities: Mapping[str, Any] = {}
        """What servers are told that their client can do."""
        self.log_level: str | None = None
        self.standing: Callable[[], CallerChannel | None] = _nobody
        """The client that a question without a call is for."""
        self._known = asyncio.Event()
        self._known.set()

    def expect(self) -> None:
        """Have connections wait until the one client has said what it can do."""
        self._known.clear()

    def declare(self, capabilities: Mapping[str, Any]) -> None:
        """Tell servers that are connected from now on that their client can do this."""
        self.capabilities = capabilities
        self._known.set()

    async def known(self) -> Mapping[str, Any]:
        """Wait for the client's word, but not for long: a client may be slow, or never come."""
        try:
            async with asyncio.timeout(_KNOWN_WITHIN_S):
                await self._known.wait()
        except TimeoutError:
            self._known.set()
        return self.capabilities


@dataclass(slots=True)
class CallSide:
    """One call under way, as its server reaches back through it: the client, and the call's time."""

    channel: CallerChannel | None = None
    keep_alive: Callable[[], None] | None = None
    needs_task: bool = False
    """Whether the tool must be run as a task."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    @property
    def client(self) -> str | None:
        return None if self.channel is None else self.channel.client

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Let the call go on, and tell its client how far it is."""
        self._extend()
        if self.channel is not None:
            await self._over(self.channel.report(progress, total, message))

    async def log(self, message: dict[str, Any]) -> None:
        if self.channel is not None:
            await self._over(self.channel.log(message))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client; as long as it has not answered, the call's time does not run out."""
        if self.channel is None:
            raise ToolError(f"{method} was asked, and there is no client at this door that could answer", method=method)
        asking = asyncio.ensure_future(self._over(self.channel.ask(method, params)))
        try:
            while not asking.done():
                self._extend()
                await asyncio.wait([asking], timeout=_TICK_S)
            return asking.result()
        finally:
            asking.cancel()

    def _extend(self) -> None:
        if self.keep_alive is None:
            return
        if asyncio.get_running_loop() is self.loop:
            self.keep_alive()
        else:
            self.loop.call_soon_threadsafe(self.keep_alive)

    async def _over(self, work: Any) -> Any:
        """Do this on the loop of the door."""
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))


@dataclass(frozen=True, slots=True)
class ClientMeta:
    """The client metadata of one request to a server: capabilities, log level and `_meta`."""

    capabilities: Mapping[str, Any]
    log_level: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


current_stamp: ContextVar[ClientMeta | None] = ContextVar("twinraven_mcp_stamp", default=None)


class Backchannel:
    """One connection's way back to the clients of its calls."""

    def __init__(self, side: ClientSide) -> None:
        self.side = side
        self.patience_s = _TOLD_APART_WITHIN_S
        self._running: list[CallSide] = []
        self._ended = asyncio.Event()

    @contextmanager
    def during(self, call: CallSide | None) -> Generator[None]:
        """Know of a call as long as it runs."""
        if call is None:
            yield
            return
        self._running.append(call)
        try:
            yield
        finally:
            # By identity: two calls may be equal.
            self._running[:] = [one for one in self._running if one is not call]
            ended, self._ended = self._ended, asyncio.Event()
            ended.set()

    async def asked(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Pass a server's question on, and its answer back."""
        try:
            async with asyncio.timeout(self.patience_s):
                call = await self._asking()
        except TimeoutError:
            raise ToolError(
                f"{method}: calls of several clients are under way, so nobody can tell which one is asked",
                method=method,
            ) from None
        return await call.ask(method, params)

    async def _asking(self) -> CallSide:
        """Return the call that asks: the one that is left of those that are under way now."""
        candidates = list(self._running)
        if not candidates:
            return CallSide(self.side.standing())
        while len({call.client for call in candidates}) > 1:
            await self._ended.wait()
            candidates = [call for call in candidates if any(call is one for one in self._running)]
            if not candidates:
                raise TimeoutError
        return candidates[-1]

    async def said(self, message: dict[str, Any]) -> None:
        """Pass a log message on, if it is clear for whom it is."""
        call = self._meant()
        if call is not None:
            await call.log(message)

    def _meant(self) -> CallSide | None:
        clients = {call.client for call in self._running}
        if len(clients) == 1:
            return self._running[-1]
        return None if clients else CallSide(self.side.standing())


def _nobody() -> CallerChannel | None:
    return None
