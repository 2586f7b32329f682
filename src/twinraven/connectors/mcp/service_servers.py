"""Manages the MCP servers that data-defined tools name: one connection per server.

Here the catalogue's users choose programs and addresses, not the operator, so both are held to the operator's rules:
programs must be allowed, and addresses are checked when they are connected to. Servers are kept by everything that
tells them apart (tenant, parameters, secret), so no two tenants and no two secrets ever share one.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, cast

from twinraven.connectors.addresses import AddressGuard
from twinraven.connectors.binding import Binding
from twinraven.connectors.endpoints import certificate_of
from twinraven.connectors.extras import require
from twinraven.connectors.http_model import Credential
from twinraven.connectors.loops import PerLoop
from twinraven.connectors.mcp.journal import LogJournal
from twinraven.connectors.mcp.model import Listing, UpstreamEvent
from twinraven.connectors.mcp.placeholders import FilledServer
from twinraven.connectors.mcp.programs import ProgramRules
from twinraven.connectors.mcp.servers import ServerConfig
from twinraven.connectors.mcp.upstream import Connecting, Upstream, UpstreamLimits
from twinraven.connectors.urls import parse_url
from twinraven.foundation.canonical import canonical_json

if TYPE_CHECKING:
    from twinraven.connectors.mcp.connection import UpstreamConnection

MAX_SERVERS: Final = 32
IDLE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class NamedServer:
    """The server that a binding means, with the secret in its place."""

    config: ServerConfig
    hidden: tuple[str, ...] = ()
    ca_certificate: str | None = None

    def key(self, tenant_id: str) -> str:
        """Stands for the server without holding the secret."""
        return hashlib.sha256(canonical_json([tenant_id, self.config.as_json(), self.ca_certificate])).hexdigest()

    @classmethod
    def of(cls, binding: Binding[Any], secret: str | None) -> NamedServer:
        found = _program(binding, secret) if binding.protocol == "stdio" else _address(binding, secret)
        hidden = () if secret is None else (secret, *found.headers.values())
        return cls(found, hidden, certificate_of(binding))


def _program(binding: Binding[Any], secret: str | None) -> ServerConfig:
    command: Any = binding.param("command")
    args: Any = binding.param("args") or []
    variables: Any = binding.param("env") or {}
    if not isinstance(command, str) or not command.strip():
        raise binding.invalid("command", "must name a program")
    if not isinstance(args, list) or not all(isinstance(word, str) for word in cast("list[Any]", args)):
        raise binding.invalid("args", "must be a list of texts")
    if not isinstance(variables, Mapping) or not all(isinstance(v, str) for v in cast("Any", variables).values()):
        raise binding.invalid("env", "must hold names and texts")
    env = dict(cast("Mapping[str, str]", variables))
    if secret is not None:
        place = binding.param("secret_env")
        if not isinstance(place, str) or not place:
            raise binding.invalid("secret_env", "must name the variable that takes the secret")
        env[place] = secret
    words = tuple(cast("list[str]", args))
    return ServerConfig(PurePath(command).name, "stdio", command=command, args=words, env=env)


def _address(binding: Binding[Any], secret: str | None) -> ServerConfig:
    url = parse_url(binding.endpoint, field="connection_params.endpoint")
    headers: dict[str, str] = {}
    if secret is not None:
        credential = Credential.of(binding.param("auth"), secret)
        headers = dict(credential.headers)
        url = url.asking(credential.query)
    transport = "sse" if binding.protocol == "sse" else "http"
    return ServerConfig(str(url.origin), transport, url=str(url), headers=headers)


@dataclass(slots=True)
class _Kept:
    upstream: Upstream
    used_at: float
    users: int = 0


_AllKept = OrderedDict[str, _Kept]


class ServiceServers:
    """Pools connections to these servers; idle ones are closed when another is opened."""

    def __init__(
        self,
        guard: AddressGuard,
        programs: ProgramRules,
        *,
        limits: UpstreamLimits | None = None,
        most: int = MAX_SERVERS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._guard = guard
        self._programs = programs
        self._limits = limits or UpstreamLimits()
        self._most = most
        self._monotonic = monotonic
        self._kept = PerLoop(_AllKept, _close_all)

    @asynccontextmanager
    async def lease(self, tenant_id: str, server: NamedServer, *, anew: bool = False) -> AsyncGenerator[Upstream]:
        """Provide the server, kept open meanwhile; one that is down is only tried at once where that is asked for."""
        require("mcp", "gateway")
        await self._permit(server)
        every, key = self._kept.get(), server.key(tenant_id)
        if anew and key in every and every[key].upstream.status.state == "down":
            await every.pop(key).upstream.close()
        if key not in every:
            every[key] = _Kept(self._open(tenant_id, server), self._monotonic())
        every.move_to_end(key)
        kept = every[key]
        kept.users += 1
        try:
            yield kept.upstream
        finally:
            kept.users -= 1
            kept.used_at = self._monotonic()
            await self._close_surplus(every)

    async def aclose(self) -> None:
        """Close what this loop opened."""
        await self._kept.aclose()

    async def _permit(self, server: NamedServer) -> None:
        """Asked at every call, so that a refusal is called what it is; connecting checks addresses once more."""
        config = server.config
        if config.transport == "stdio":
            self._programs.check([config.command, *config.args], list(config.env))
        else:
            origin = parse_url(config.url).origin
            await self._guard.addresses(origin.host, origin.port)

    def _open(self, tenant_id: str, server: NamedServer) -> Upstream:
        journal = LogJournal()

        async def fill(config: ServerConfig) -> FilledServer:
            return FilledServer(config, server.hidden)

        async def note(event: UpstreamEvent) -> None:
            await journal.note(tenant_id, event)

        connect = _guarded(self._guard, server.ca_certificate)
        return Upstream(server.config, fill=fill, on_tools=_ignore, on_event=note, limits=self._limits, connect=connect)

    async def _close_surplus(self, every: _AllKept) -> None:
        idle_since = self._monotonic() - IDLE_S
        unused = [key for key, kept in every.items() if kept.users == 0]
        surplus = set(unused[: max(0, len(every) - self._most)])
        for key in [key for key in unused if key in surplus or every[key].used_at < idle_since]:
            await every.pop(key).upstream.close()


async def _ignore(server: str, listing: Listing) -> None:
    """What the server offers besides is not our tools' business: they state what they call."""
    del server, listing


async def _close_all(every: _AllKept) -> None:
    await asyncio.gather(*(kept.upstream.close() for kept in every.values()))


def _guarded(guard: AddressGuard, ca_certificate: str | None) -> Connecting:
    """Connects to checked addresses alone."""

    @asynccontextmanager
    async def begin(server: ServerConfig, **how: Any) -> AsyncGenerator[UpstreamConnection]:
        from twinraven.connectors.mcp.connection import connect
        from twinraven.connectors.mcp.web import GuardedTransport
        from twinraven.connectors.tls import make_tls_context

        if server.transport != "stdio":
            context = await asyncio.to_thread(make_tls_context, ca_certificate)
            how["transport"] = GuardedTransport(guard, context)
        async with connect(server, **how) as connection:
            yield connection

    return begin
