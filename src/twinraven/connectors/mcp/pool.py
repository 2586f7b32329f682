"""All upstream servers of one tenant: each supervised for itself, so that one that fails costs only its own tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from twinraven.connectors.mcp.journal import LogJournal
from twinraven.connectors.mcp.model import Definition, Journal, ToolChanges, UpstreamEvent, UpstreamStatus
from twinraven.connectors.mcp.placeholders import FilledServer, NoSecrets, Placeholders, SecretSource
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.tools import UpstreamTools
from twinraven.connectors.mcp.upstream import Connecting, Upstream, UpstreamLimits
from twinraven.foundation.errors import InvalidSetting, ToolUnavailable
from twinraven.storage import DEFAULT_TENANT


class UpstreamPool:
    """One client per upstream server."""

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        tools: UpstreamTools,
        *,
        tenant_id: str = DEFAULT_TENANT,
        secrets: SecretSource | None = None,
        journal: Journal | None = None,
        limits: UpstreamLimits | None = None,
        connect: Connecting | None = None,
    ) -> None:
        self.tenant_id = tenant_id
        """Whose servers these are; settled before the first of them is started."""
        self._tools = tools
        self._journal = journal or LogJournal()
        self._secrets = secrets or NoSecrets()
        self._upstreams: dict[str, Upstream] = {}
        for server in servers:
            self._add(server, limits or UpstreamLimits(), connect)

    def _add(self, server: ServerConfig, limits: UpstreamLimits, connect: Connecting | None) -> None:
        if server.name in self._upstreams:
            raise InvalidSetting(f"two upstream servers are named {server.name!r}; rename one", field=server.name)
        if server.timeout_ms is not None:
            self._tools.set_timeout(server.name, server.timeout_ms)
        self._upstreams[server.name] = Upstream(
            server, fill=self._fill, on_tools=self._observe, on_event=self._note, limits=limits, connect=connect
        )

    @property
    def servers(self) -> list[ServerConfig]:
        return [upstream.server for upstream in self._upstreams.values()]

    def start(self) -> None:
        """Begin to keep all of them alive, on the running loop."""
        for upstream in self._upstreams.values():
            upstream.start()

    async def settle(self, patience_s: float) -> None:
        """Return when each server was reached or failed once, but wait no longer than this.

        A server whose tools are known from before is not waited for: what changed is announced when it is there.
        """
        known = self._tools.servers(self.tenant_id)
        unknown = [upstream for name, upstream in self._upstreams.items() if name not in known]
        waits = [asyncio.ensure_future(upstream.tried()) for upstream in unknown]
        if waits:
            _, late = await asyncio.wait(waits, timeout=patience_s)
            for wait in late:
                wait.cancel()

    async def call(self, tenant_id: str, server: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool of one of the tenant's servers; the answer is as it came."""
        upstream = self._upstreams.get(server) if tenant_id == self.tenant_id else None
        if upstream is None:
            raise ToolUnavailable(f"no upstream server {server!r} is configured here", server=server)
        return await upstream.call(tool, arguments)

    def statuses(self) -> list[UpstreamStatus]:
        return [upstream.status for upstream in self._upstreams.values()]

    async def close(self) -> None:
        """End every program that was started, all at once."""
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))

    async def __aenter__(self) -> UpstreamPool:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _fill(self, server: ServerConfig) -> FilledServer:
        return await Placeholders(self._secrets, self.tenant_id).fill(server)

    async def _observe(self, server: str, definitions: list[Definition]) -> None:
        changes = await self._tools.observe(self.tenant_id, server, definitions)
        for kind, names in _told(changes):
            await self._note(UpstreamEvent(server, kind, ", ".join(names), {"tools": list(names)}))

    async def _note(self, event: UpstreamEvent) -> None:
        await self._journal.note(self.tenant_id, event)


def _told(changes: ToolChanges) -> list[tuple[str, tuple[str, ...]]]:
    """The changes worth a line each."""
    kinds = {
        "tools_added": changes.added,
        "tools_quarantined": changes.changed,
        "tools_restored": changes.restored,
        "tools_gone": changes.gone,
    }
    return [(kind, names) for kind, names in kinds.items() if names]
