"""Tells upstream servers what the clients of a gateway can do, and clients what the servers say of themselves.

On stdio there is one client, and servers are told what it can do. Over HTTP many clients share the servers: those are
told that everything can be asked for, and the client whose call asks is looked at when a question comes.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server

from twinraven.app import GatewaySettings
from twinraven.audit import AuditLog
from twinraven.connectors import ClientSide
from twinraven.gateway.callers import Caller
from twinraven.gateway.channels import (
    LEVELS,
    ClientChannel,
    Context,
    QuestionLimits,
    StandingChannel,
    capabilities_of,
    connection_of,
    set_level,
)
from twinraven.gateway.client_notifier import ClientNotifier
from twinraven.gateway.held_calls import HeldCalls

_EVERYTHING: Final[dict[str, Any]] = {
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
}
_ROOTS_CHANGED: Final = "notifications/roots/list_changed"


class ClientFacingServers(Protocol):
    """The upstream servers, as clients concern them."""

    @property
    def side(self) -> ClientSide: ...

    @property
    def tenant_id(self) -> str: ...

    def instructions(self) -> dict[str, str]: ...

    async def set_log_level(self, level: str) -> None: ...

    async def roots_changed(self) -> None: ...


class Clients:
    """The clients of a gateway, as its servers see them."""

    def __init__(
        self, servers: ClientFacingServers, settings: GatewaySettings, *, notifier: ClientNotifier, audit: AuditLog
    ) -> None:
        wanted = {"sampling": settings.sampling, "elicitation": settings.elicitation, "roots": settings.roots}
        abilities = frozenset(name for name, is_wanted in wanted.items() if is_wanted)
        self._limits = QuestionLimits(abilities, settings.ask_s, settings.max_questions)
        self.held = HeldCalls(settings.ask_s)
        self._servers = servers
        self._audit = audit
        self._levels: dict[int, str] = {}
        self._is_expected = False
        standing = StandingChannel(lambda: notifier.only(servers.tenant_id), self._limits)
        servers.side.standing = lambda: standing
        servers.side.declare(self._limits.offered(_EVERYTHING))

    def expect_one(self) -> None:
        """Have servers wait for the one client to say what it can do."""
        self._is_expected = True
        self._servers.side.expect()

    async def hear(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """As the server's middleware: take over what the one client says of itself with its first request."""
        if self._is_expected:
            self._is_expected = False
            stated: Any = (ctx.params or {}).get("capabilities")
            is_handshake = ctx.method == "initialize" and isinstance(stated, dict)
            said = cast("dict[str, Any]", stated) if is_handshake else capabilities_of(ctx)
            self._servers.side.declare(self._limits.offered(said))
        return await call_next(ctx)

    def channel(self, context: Context, caller: Caller) -> ClientChannel:
        """Return the way back to the client of a request."""
        return ClientChannel(context, caller, self._limits, self._audit)

    def instructions(self) -> str | None:
        """Return the instructions of the servers to models, each under its name."""
        said = self._servers.instructions()
        return "\n\n".join(f"# {name}\n\n{words}" for name, words in said.items()) or None

    def serve(self, server: Server[Any]) -> None:
        """Answer a server's clients."""
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.add_notification_handler(_ROOTS_CHANGED, types.NotificationParams, self._note_roots)

    async def _set_level(self, context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        connection = connection_of(context)
        if id(connection) not in self._levels:
            connection.exit_stack.callback(self._levels.pop, id(connection), None)
        self._levels[id(connection)] = params.level
        set_level(connection, params.level)
        await self._servers.set_log_level(min(self._levels.values(), key=LEVELS.index))
        return types.EmptyResult()

    async def _note_roots(self, context: Context, params: types.NotificationParams) -> None:
        del context, params
        await self._servers.roots_changed()
