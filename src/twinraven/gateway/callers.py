"""Tells callers of the gateway apart: whose tenant, under which key, by which connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from twinraven.foundation.ids import new_id
from twinraven.gateway.guessed_sessions import SenderHints
from twinraven.serving import CONNECTIONS, connection_name
from twinraven.tenancy import LOCAL, Principal

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

PRINCIPAL: Final = "twinraven.principal"
"""Where the HTTP door leaves the principal of a request, in its scope."""

_SESSION_HEADER: Final = "mcp-session-id"
_CONVERSATION_HEADERS: Final = (
    "x-conversation-id",
    "x-session-id",
    "x-thread-id",
    "x-chat-id",
    "agent-session-id",
    "x-openwebui-chat-id",
)
_STATED: Final = {
    "twinraven/session_id": "twinraven-session-id",
    "twinraven/turn": "twinraven-turn",
    "twinraven/user_input": "twinraven-user-input",
}
_PASSED_ON: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class Caller:
    """One request's caller."""

    principal: Principal
    process: str | None = None
    """The session of a client that started us as its own program."""
    protocol: str | None = None
    """The protocol's session, where the client's revision has one."""
    conversation: str | None = None
    """The conversation that a header names."""
    stated: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What an adapter says of the call in headers, by its name in `_meta`."""
    trail: SenderHints = field(default_factory=SenderHints)

    @property
    def name(self) -> str:
        return self.principal.user_id

    @property
    def key(self) -> str:
        return self.principal.key_id or self.principal.user_id


class Callers:
    """Tells callers apart; without an HTTP request there is only the one who started this process."""

    def __init__(self, local: Principal = LOCAL) -> None:
        self.local = _as_agent(local)
        self._process = Caller(self.local, process=f"stdio-{new_id()}")

    def of(self, context: ServerRequestContext[Any, Any]) -> Caller:
        request: Any = context.request
        if request is None:
            return self._process
        scope: Mapping[str, Any] = request.scope
        protocol = request.headers.get(_SESSION_HEADER) or request.query_params.get("session_id")
        principal = _as_agent(scope.get(PRINCIPAL, self.local))
        named: dict[str, Any] = {"conversation": _conversation(request.headers), "stated": _stated(request.headers)}
        if protocol is not None:
            return Caller(principal, protocol=protocol, **named)
        return Caller(principal, trail=_trail(context, scope), **named)


def _as_agent(principal: Principal) -> Principal:
    """Record a caller without a key as an agent: it is a program that speaks MCP, not the person whose home it is."""
    return replace(principal, kind="agent") if principal.key_id is None else principal


def _conversation(headers: Mapping[str, str]) -> str | None:
    return next((value for name in _CONVERSATION_HEADERS if (value := headers.get(name))), None)


def _stated(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return what adapters of libraries that cannot send `_meta` say in headers, percent-encoded."""
    said = {
        name: unquote(value) for name in _STATED if (value := headers.get(name.replace("/", "-").replace("_", "-")))
    }
    turn = said.pop("twinraven/turn", "")
    return {**said, "twinraven/turn": int(turn)} if turn.isascii() and turn.isdigit() and len(turn) < 8 else said


def _trail(context: ServerRequestContext[Any, Any], scope: Mapping[str, Any]) -> SenderHints:
    """Return what a request without a session shows of its sender."""
    info = None if context.session.client_params is None else context.session.client_params.client_info
    client = "" if info is None else f"{info.name} {info.version}"
    peer: tuple[str, int] | None = scope.get("client")
    host = "" if peer is None else peer[0]
    headers = {name.decode("latin-1") for name, _ in scope.get("headers", ())}
    if peer is None or not headers.isdisjoint(_PASSED_ON):
        # A proxy sends what different clients ask through the same connections.
        return SenderHints(client, host)
    return SenderHints(client, host, connection_name(peer), scope.get(CONNECTIONS))
