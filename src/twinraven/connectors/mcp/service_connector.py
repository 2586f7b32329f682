"""Calls tools of MCP servers as data-defined tools: the catalogue names the server, the tool and its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twinraven.catalog import Health, HealthStatus, McpCall, ToolAnswer, ToolEntry
from twinraven.connectors.binding import Binding, BindingSource, bind_call
from twinraven.connectors.mcp.backchannel import CallSide
from twinraven.connectors.mcp.connector import accept_answer
from twinraven.connectors.mcp.content import to_output
from twinraven.connectors.mcp.service_servers import NamedServer, ServiceServers
from twinraven.connectors.mcp.upstream import give_up_at
from twinraven.foundation.errors import TwinRavenError

if TYPE_CHECKING:
    from twinraven.calls import CallFrame


class McpServiceConnector:
    """Reaches `mcp_server` services."""

    name = "mcp_service"

    def __init__(self, bindings: BindingSource, servers: ServiceServers, *, timeout_ms: int = 30_000) -> None:
        """`timeout_ms` is how long a tool may take that states no time of its own."""
        self._bindings = bindings
        self._servers = servers
        self._timeout_ms = timeout_ms

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> ToolAnswer:
        """Call the tool that the operation names; its output, or what went wrong."""
        binding: Binding[McpCall] = await bind_call(self._bindings, entry, call)
        until = give_up_at(entry.timeout_ms or self._timeout_ms)
        asked = binding.operation.request(params)
        server = NamedServer.of(binding, await binding.secret(call.caller))
        async with self._servers.lease(call.tenant_id, server) as upstream:
            side = CallSide(call.channel, call.keep_alive)
            asking = upstream.call(asked.tool, asked.arguments, writes=entry.writes, until=until, side=side)
            result = await accept_answer(asking, entry)
        return ToolAnswer(to_output(result), raw=result)

    async def probe(self, binding: Binding[Any], *, user: str | None = None) -> Health:
        """Connect and ask for the list of tools."""
        try:
            server = NamedServer.of(binding, await binding.secret(user))
            async with self._servers.lease(binding.tenant_id, server, anew=True) as upstream:
                await upstream.probe()
        except TwinRavenError as error:
            return Health.of_error(error)
        return Health(HealthStatus.HEALTHY)
