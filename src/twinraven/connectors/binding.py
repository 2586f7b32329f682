"""What a connector needs to know of one tool: where the service is, what to ask of it, and how to prove who asks.

Connectors stand above the catalogue but do not read its rows; whoever wires them gives a `BindingSource`. An operation
turns arguments into a request by itself, so what is asked of it here is no more than that. The secret comes as a
function and not as a value, because it is opened at the moment of the call, for the user the call runs for.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from twinraven.catalog import ToolEntry
from twinraven.foundation.errors import InvalidDefinition

HealthStatus = Literal["healthy", "degraded", "down"]

RevealSecret = Callable[[str | None], Awaitable[str]]
"""Opens the secret for a user; raises if it may not serve them."""

RequestT_co = TypeVar("RequestT_co", covariant=True)

_LOW_LINE = re.compile(r"_([a-z])")


class RestRequest(Protocol):
    """What a REST operation makes of arguments; the path is encoded and stands below the endpoint."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def query(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def body(self) -> Any: ...


class PromptRequest(Protocol):
    """What a prompt makes of arguments."""

    @property
    def prompt(self) -> str: ...

    @property
    def system(self) -> str | None: ...


class GraphRequest(Protocol):
    """What a graph query makes of arguments."""

    @property
    def query(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...


class McpRequest(Protocol):
    """What a call of an MCP tool makes of arguments."""

    @property
    def tool(self) -> str: ...

    @property
    def arguments(self) -> dict[str, Any]: ...


class Operation(Protocol[RequestT_co]):
    """What a tool does at its service."""

    def request(self, params: Mapping[str, Any], /) -> RequestT_co: ...


class Frame(Protocol):
    """What a connector sees of the call it serves."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def key(self) -> str | None: ...

    @property
    def caller(self) -> str | None: ...

    @property
    def grant(self) -> object | None:
        """Somebody's approval, where the call runs under one."""
        ...


@dataclass(frozen=True, slots=True)
class Binding(Generic[RequestT_co]):
    """One tool, bound to one service."""

    tool_id: str
    protocol: str
    """http, https, bolt, bolt+s, stdio or sse."""
    params: Mapping[str, Any]
    """Connection parameters, already checked against the service's schema, defaults filled in."""
    operation: Operation[RequestT_co]
    reveal: RevealSecret | None = None
    tenant_id: str = ""
    """Whose it is, for those who keep something open between calls."""
    owner_id: str = ""
    """The user whose tool it is, for those who count what fails: one user's tools must not speak for another's."""

    def param(self, name: str) -> Any:
        """A connection parameter, in either spelling: max_tokens, maxTokens."""
        found = self.params.get(name)
        return self.params.get(_LOW_LINE.sub(lambda hit: hit[1].upper(), name)) if found is None else found

    @property
    def endpoint(self) -> str:
        found = self.param("endpoint")
        if found is None or found == "":
            raise self.invalid("endpoint", "is missing")
        if not isinstance(found, str):
            raise self.invalid("endpoint", "must be an address such as https://shop.example")
        return found

    async def secret(self, user: str | None) -> str | None:
        """The secret's value, or None where the tool has none."""
        return None if self.reveal is None else await self.reveal(user)

    def invalid(self, name: str, problem: str) -> InvalidDefinition:
        """The error for a connection parameter that cannot be used."""
        field = f"connection_params.{name}"
        return InvalidDefinition(f"{field} {problem}", field=field, tool_id=self.tool_id)


class BindingSource(Protocol):
    """Finds a tool's binding; raises NotFound, PolicyViolation or ToolUnavailable where the caller has none to use."""

    async def binding(
        self, tenant_id: str, tool_id: str, *, caller: str | None, definition: str | None = None
    ) -> Binding[Any]:
        """`definition` is what the tool must still be; None where whatever it is now will do."""
        ...


async def bind_call(source: BindingSource, entry: ToolEntry, call: Frame) -> Binding[Any]:
    """The binding that a call uses; one that was approved gets no other than the one that was approved."""
    definition = None if call.grant is None else entry.definition
    return await source.binding(call.tenant_id, entry.tool_id, caller=call.caller, definition=definition)


@dataclass(frozen=True, slots=True)
class Health:
    """What a look at a service found."""

    status: HealthStatus
    latency_ms: int
    message: str | None = None


class Prober(Protocol):
    """A connector that can look whether a tool's service is there."""

    async def probe(self, binding: Binding[Any], *, user: str | None = None) -> Health: ...
