"""Who calls: whose tenant, under which key, and by which way in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from twinraven.foundation.ids import new_id
from twinraven.tenancy import LOCAL, Principal

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

PRINCIPAL: Final = "twinraven.principal"
"""Where the HTTP door leaves the principal of a request, in its scope."""

_SESSION_HEADER: Final = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class Caller:
    """One request's caller."""

    principal: Principal
    process: str | None = None
    """The session of a client that started us as its own program."""
    protocol: str | None = None
    """The protocol's session, where the client's revision has one."""

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
        return Caller(_as_agent(scope.get(PRINCIPAL, self.local)), protocol=protocol)


def _as_agent(principal: Principal) -> Principal:
    """Whoever shows no key at this door is a program that speaks MCP, not the person whose home it is."""
    return replace(principal, kind="agent") if principal.key_id is None else principal
