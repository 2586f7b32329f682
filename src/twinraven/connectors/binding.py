"""What a connector needs to know of one tool: where the service is, what to ask of it, and how to prove who asks.

Connectors stand above the catalogue but do not read its rows; whoever wires them gives a `BindingSource`. The secret
comes as a function and not as a value, because it is opened at the moment of the call, for the user the call runs for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from twinraven.foundation.errors import InvalidDefinition

HealthStatus = Literal["healthy", "degraded", "down"]

RevealSecret = Callable[[str | None], Awaitable[str]]
"""Opens the secret for a user; raises if it may not serve them."""


class Frame(Protocol):
    """What a connector sees of the call it serves."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def key(self) -> str | None: ...

    @property
    def caller(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Binding:
    """One tool, bound to one service."""

    tool_id: str
    protocol: str
    """http, https, bolt or bolt+s."""
    params: Mapping[str, Any]
    """Connection parameters, already checked against the service's schema, defaults filled in."""
    operation: Mapping[str, Any]
    reveal: RevealSecret | None = None

    @property
    def endpoint(self) -> str:
        found = self.params.get("endpoint")
        if not isinstance(found, str) or not found:
            raise InvalidDefinition(
                f"tool {self.tool_id!r} has no endpoint in its connection parameters",
                field="connectionParams.endpoint",
                tool_id=self.tool_id,
            )
        return found

    async def secret(self, user: str | None) -> str | None:
        """The secret's value, or None where the tool has none."""
        return None if self.reveal is None else await self.reveal(user)


class BindingSource(Protocol):
    """Finds a tool's binding; raises NotFound or ToolUnavailable where there is none to use."""

    async def binding(self, tenant_id: str, tool_id: str) -> Binding: ...


@dataclass(frozen=True, slots=True)
class Health:
    """What a look at a service found."""

    status: HealthStatus
    latency_ms: int
    message: str | None = None


class Healthy(Protocol):
    """A connector that can look whether its services are there."""

    async def probe(self, binding: Binding, *, user: str | None = None) -> Health: ...
