"""Keeps the upstream MCP servers of each tenant alive and calls their tools, from any event loop of the process.

Each server is supervised for itself, so that one that fails costs only its own tools. The servers of a tenant live on
the event loop that first needed them; work from another loop is handed to it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from twinraven.connectors.loops import LoopEnded, OwningLoop
from twinraven.connectors.mcp.backchannel import CallSide, ClientSide
from twinraven.connectors.mcp.errors import UpstreamLost
from twinraven.connectors.mcp.journal import LogJournal
from twinraven.connectors.mcp.model import (
    Definition,
    Listing,
    ToolChanges,
    UnusableTool,
    UpstreamCapabilities,
    UpstreamChange,
    UpstreamEvent,
    UpstreamJournal,
    UpstreamStatus,
)
from twinraven.connectors.mcp.placeholders import FilledServer, NoSecrets, Placeholders, SecretSource
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.tools import UpstreamTools
from twinraven.connectors.mcp.upstream import Connecting, Upstream, UpstreamLimits, give_up_at
from twinraven.foundation.errors import InvalidSetting, ToolTimeout, ToolUnavailable
from twinraven.storage import DEFAULT_TENANT

if TYPE_CHECKING:
    from twinraven.connectors.mcp.connection import UpstreamConnection

_DEFAULT_TIMEOUT_MS: Final = 30_000
_MOST_NAMED: Final = 20
"""Of a long list of tools that are none, so many are told of one by one."""
T = TypeVar("T")
OnNews = Callable[[UpstreamChange], None]


class UpstreamPools:
    """The upstream servers of every tenant: the same list for each, with clients and secrets of its own."""

    def __init__(
        self, servers: Iterable[ServerConfig], open_pool: Callable[[str, list[ServerConfig]], UpstreamPool]
    ) -> None:
        """`open_pool` makes the pool of a tenant; none of its servers is started before it is needed."""
        self.servers = list(servers)
        self._open_pool = open_pool
        self._pools: dict[str, UpstreamPool] = {}
        self._opening = threading.Lock()

    def of(self, tenant_id: str) -> UpstreamPool:
        """Return the servers of one tenant."""
        with self._opening:
            if tenant_id not in self._pools:
                self._pools[tenant_id] = self._open_pool(tenant_id, self.servers)
            return self._pools[tenant_id]

    async def aclose(self) -> None:
        """End every program that was started, of all tenants."""
        await asyncio.gather(*(pool.aclose() for pool in list(self._pools.values())))


class UpstreamPool:
    """One tenant's clients, one per upstream server."""

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        tools: UpstreamTools,
        *,
        tenant_id: str = DEFAULT_TENANT,
        secrets: SecretSource | None = None,
        journal: UpstreamJournal | None = None,
        limits: UpstreamLimits | None = None,
        connect: Connecting | None = None,
        default_timeout_ms: int = _DEFAULT_TIMEOUT_MS,
    ) -> None:
        self.tenant_id: Final = tenant_id
        """Whose servers these are."""
        self.side: Final = ClientSide()
        """What the servers may know of the clients in front of them."""
        self._own = OwningLoop()
        self._listeners: list[tuple[asyncio.AbstractEventLoop, OnNews]] = []
        self._tools = tools
        self._journal = journal or LogJournal()
        self._secrets = secrets or NoSecrets()
        self.default_timeout_ms = default_timeout_ms
        """How long an answer may take, where the server's entry does not say."""
        self._started_at = 0.0
        self._left_out: dict[str, tuple[UnusableTool, ...]] = {}
        self._upstreams: dict[str, Upstream] = {}
        for server in servers:
            self._add(server, limits or UpstreamLimits(), connect)

    def _add(self, server: ServerConfig, limits: UpstreamLimits, connect: Connecting | None) -> None:
        if server.name in self._upstreams:
            raise InvalidSetting(f"two upstream servers are named {server.name!r}; rename one", field=server.name)
        if server.timeout_ms is not None:
            self._tools.set_timeout(server.name, server.timeout_ms)
        self._upstreams[server.name] = Upstream(
            server,
            fill=self._fill,
            on_tools=self._observe,
            on_event=self._note,
            on_news=self._tell,
            limits=limits,
            connect=connect,
            side=self.side,
        )

    @property
    def servers(self) -> list[ServerConfig]:
        return [upstream.server for upstream in self._upstreams.values()]

    def start(self) -> None:
        """Begin to keep all of them alive: on the running loop, unless they live on another one."""
        owner = self._own.claim()
        self._started_at = asyncio.get_running_loop().time()
        for upstream in self._upstreams.values():
            if owner is asyncio.get_running_loop():
                upstream.start()
            else:
                owner.call_soon_threadsafe(upstream.start)

    def listen(self, listener: OnNews) -> Callable[[], None]:
        """Have other prompts, other resources and changed ones told of, on the running loop; the answer ends it."""
        entry = (asyncio.get_running_loop(), listener)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry)

    async def settle(self, patience_s: float) -> None:
        """Return when each server was reached or failed once, but wait no longer than this.

        A server whose tools are known from before is not waited for: what changed is announced when it is there.
        """
        known = self._tools.servers(self.tenant_id)
        waited_for = [upstream for name, upstream in self._upstreams.items() if name not in known]
        await self._there(lambda: _tried(waited_for, patience_s))

    async def heard(self, patience_s: float) -> None:
        """Return when each server said what it offers or failed once, or so much time has passed since the start."""
        left_s = self._started_at + patience_s - asyncio.get_running_loop().time()
        if left_s > 0:
            waited_for = [upstream for upstream in self._upstreams.values() if _is_new(upstream)]
            await self._there(lambda: _tried(waited_for, left_s))

    async def call(
        self,
        tenant_id: str,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        writes: bool = True,
        timeout_ms: int | None = None,
        side: CallSide | None = None,
    ) -> dict[str, Any]:
        """Call a tool of one of the tenant's servers; the answer is as it came.

        `timeout_ms` is what the caller's patience is, where it is not that of everybody; `side` is the way back to it.
        """
        until = give_up_at(timeout_ms or self.default_timeout_ms)
        upstream = self._of(tenant_id, server)
        return await self._there(lambda: upstream.call(tool, arguments, writes=writes, until=until, side=side))

    def abilities(self) -> dict[str, UpstreamCapabilities]:
        """Return the capabilities of each server, as last declared, in the order of the configuration."""
        every = self._upstreams.items()
        return {name: upstream.abilities for name, upstream in every if upstream.abilities is not None}

    def instructions(self) -> dict[str, str]:
        """Return the instructions of the servers to models, in the order of the configuration."""
        every = self._upstreams.items()
        return {name: upstream.instructions for name, upstream in every if upstream.instructions is not None}

    async def set_log_level(self, level: str) -> None:
        """Have servers send log messages from this level on, those that are there and those that come."""
        self.side.log_level = level
        await self._tell_all(lambda connection: connection.set_log_level(level))

    async def roots_changed(self) -> None:
        """Tell the servers that the client's folders are others now."""
        await self._tell_all(lambda connection: connection.roots_changed())

    async def _tell_all(self, telling: Callable[[UpstreamConnection], Awaitable[None]]) -> None:
        async def tell_all() -> None:
            await asyncio.gather(*(upstream.tell(telling) for upstream in self._upstreams.values()))

        await self._there(tell_all)

    def undecided(self) -> bool:
        """Return whether a server is still at its first attempt, so that its capabilities are unknown."""
        return any(_is_new(upstream) for upstream in self._upstreams.values())

    async def ask(
        self, tenant_id: str, server: str, method: str, params: dict[str, Any], *, side: CallSide | None = None
    ) -> dict[str, Any]:
        """Ask one of the tenant's servers something that is not about tools; the answer is as it came."""
        upstream = self._of(tenant_id, server)
        limit_ms = upstream.server.timeout_ms or self.default_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await self._there(lambda: upstream.ask(method, params, side))
        except TimeoutError:
            raise ToolTimeout(f"{server!r} did not answer {method!r} in time", server=server) from None

    async def listed(self, tenant_id: str, server: str, method: str, member: str, *, most: int) -> list[Definition]:
        """Return all that one of the tenant's servers lists in answer to this."""
        upstream = self._of(tenant_id, server)
        return await self._there(lambda: upstream.listed(method, member, most=most))

    async def subscribe(self, tenant_id: str, server: str, uri: str) -> None:
        """Have changes of a resource announced; each such wish is given up by itself."""
        upstream = self._of(tenant_id, server)
        await self._there(lambda: upstream.subscribe(uri))

    async def unsubscribe(self, tenant_id: str, server: str, uri: str) -> None:
        upstream = self._of(tenant_id, server)
        await self._there(lambda: upstream.unsubscribe(uri))

    def statuses(self) -> list[UpstreamStatus]:
        return [upstream.status for upstream in self._upstreams.values()]

    async def aclose(self) -> None:
        """End every program that was started, all at once."""
        await self._there(self._close_all)

    async def _close_all(self) -> None:
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))

    async def _there(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do work on the loop that the servers live on."""
        try:
            return await self._own.run(work)
        except LoopEnded:
            raise UpstreamLost(
                "the event loop that the MCP servers live on has ended; nobody knows the answer"
            ) from None

    async def __aenter__(self) -> UpstreamPool:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _of(self, tenant_id: str, server: str) -> Upstream:
        upstream = self._upstreams.get(server) if tenant_id == self.tenant_id else None
        if upstream is None:
            raise ToolUnavailable(f"no upstream server {server!r} is configured here", server=server)
        return upstream

    def _tell(self, news: UpstreamChange) -> None:
        running = asyncio.get_running_loop()
        for loop, listener in list(self._listeners):
            if loop is running:
                listener(news)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(listener, news)

    async def _fill(self, server: ServerConfig) -> FilledServer:
        return await Placeholders(self._secrets, self.tenant_id).fill(server)

    async def _observe(self, server: str, listing: Listing) -> None:
        changes = await self._tools.observe(self.tenant_id, server, listing.tools)
        for kind, names in _told(changes):
            await self._note(UpstreamEvent(server, kind, ", ".join(names), {"tools": list(names)}))
        if changes.named_apart:
            words = "; ".join(f"{name} is called {tool_id}" for name, tool_id in changes.named_apart)
            data = {"tools": [tool_id for _, tool_id in changes.named_apart]}
            await self._note(UpstreamEvent(server, "tools_named_apart", f"other tools have their names: {words}", data))
        await self._note_left_out(server, (*listing.left_out, *changes.left_out))

    async def _note_left_out(self, server: str, left_out: tuple[UnusableTool, ...]) -> None:
        """Say which tools cannot be offered and why, once for as long as they are the same."""
        if left_out == self._left_out.get(server, ()):
            return
        self._left_out[server] = left_out
        if left_out:
            names = [one.name for one in left_out[:_MOST_NAMED]]
            data: dict[str, Any] = {"tools": names, "count": len(left_out)}
            words = "; ".join(map(str, left_out[:_MOST_NAMED]))
            await self._note(UpstreamEvent(server, "tools_left_out", words, data))

    async def _note(self, event: UpstreamEvent) -> None:
        await self._journal.note(self.tenant_id, event)


def _is_new(upstream: Upstream) -> bool:
    return upstream.abilities is None and upstream.status.restarts == 0


async def _tried(upstreams: list[Upstream], patience_s: float) -> None:
    waits = [asyncio.ensure_future(upstream.tried()) for upstream in upstreams]
    if waits:
        _, late = await asyncio.wait(waits, timeout=patience_s)
        for wait in late:
            wait.cancel()


def _told(changes: ToolChanges) -> list[tuple[str, tuple[str, ...]]]:
    """Return the changes worth a line each."""
    kinds = {
        "tools_added": changes.added,
        "tools_quarantined": changes.changed,
        "tools_reworded": changes.reworded,
        "tools_restored": changes.restored,
        "tools_gone": changes.gone,
    }
    return [(kind, names) for kind, names in kinds.items() if names]
