"""Serves the gateway over stdio, as a client's own child process: one JSON-RPC message per line.

What else this process prints would be taken for messages, so stdout is moved out of everybody's reach first. The
client's first request decides the era of the connection: one that carries the newest revision's envelope, or the
older handshake; the SDK decides the same way, with more turns of the event loop for each message.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.runner import ServerRunner, aclose_shielded, serve_one
from mcp.server.stdio import stdio_server
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.transport_context import TransportContext
from mcp_types import INVALID_REQUEST, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

from twinraven.connectors import LineDispatcher
from twinraven.gateway.server import GatewayServer

_MAX_BYTES: Final = 64 * 1024 * 1024

Params = Mapping[str, Any] | None
Arrived = DispatchContext[TransportContext]


async def serve_stdio(gateway: GatewayServer) -> None:
    """Serve the client that started this process, until it closes our stdin."""
    if not _are_pipes():
        # A file or Windows' consoles cannot be waited for; the SDK reads them on threads.
        async with stdio_server() as (read, write):
            await gateway.declarable()
            await gateway.mcp.run(read, write, gateway.mcp.create_initialization_options())
        return
    async with _own_pipes() as line:
        await _Dialogue(gateway, line).run()


class _Dialogue:
    """One connection, in the era its client opened it with."""

    def __init__(self, gateway: GatewayServer, line: LineDispatcher) -> None:
        self._server = gateway.mcp
        self._line = line
        self._older = Connection.for_loop(line)
        self._runner = ServerRunner(self._server, self._older, None)
        self._outbound = NotifyOnlyOutbound(line)
        self._is_newer: bool | None = None

    async def run(self) -> None:
        try:
            await self._line.run(self._on_request, self._on_notify)
        finally:
            await aclose_shielded(self._older)

    async def _on_request(self, context: Arrived, method: str, params: Params) -> dict[str, Any]:
        newer = method != "initialize" and _has_envelope(params)
        if self._is_newer is None:
            self._is_newer = newer
        if not self._is_newer:
            if newer:
                raise MCPError(INVALID_REQUEST, "this connection was opened with the initialize handshake")
            return await self._runner.on_request(context, method, params)
        if method == "initialize":
            supported = {
                "supported": list(MODERN_PROTOCOL_VERSIONS),
                "requested": (params or {}).get("protocolVersion"),
            }
            raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "this connection has no handshake any more", supported)
        return await self._serve_newer(context, method, params)

    async def _serve_newer(self, context: Arrived, method: str, params: Params) -> dict[str, Any]:
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(code=route.code, message=route.message, data=route.data)
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=self._outbound
        )
        return await serve_one(self._server, context, method, params, connection=connection, lifespan_state=None)

    async def _on_notify(self, context: Arrived, method: str, params: Params) -> None:
        if not self._is_newer:
            await self._runner.on_notify(context, method, params)
            return
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None, outbound=self._outbound)
        try:
            await ServerRunner(self._server, connection, None).on_notify(context, method, params)
        finally:
            await aclose_shielded(connection)


def _has_envelope(params: Params) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


def _are_pipes() -> bool:
    """Return whether stdin and stdout are such that the event loop can wait for them."""
    if sys.platform == "win32":
        return False
    kinds = [os.fstat(descriptor).st_mode for descriptor in (0, 1)]
    return all(stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or stat.S_ISCHR(kind) for kind in kinds)


@asynccontextmanager
async def _own_pipes() -> AsyncGenerator[LineDispatcher]:
    """Return our client's two pipes under file descriptors that nothing else in this process knows."""
    loop = asyncio.get_running_loop()
    line = LineDispatcher(max_bytes=_MAX_BYTES)
    wire_in, wire_out = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    output, _ = await loop.connect_write_pipe(lambda: line, os.fdopen(wire_out, "wb", buffering=0))
    line.attach(output)
    source, _ = await loop.connect_read_pipe(lambda: line, os.fdopen(wire_in, "rb", buffering=0))
    try:
        yield line
    finally:
        source.close()
        output.close()
