"""Binds one tool to one service: where the service is, what to ask of it, and how to prove who asks.

Connectors stand above the catalogue and the call path but do not read the catalogue's rows: they are given a
`BindingSource`. The operation is the catalogue's own and turns arguments into a request by itself. The secret comes as
a function and not as a value, because it is opened at the moment of the call, for the user the call runs for.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from twinraven.foundation.errors import InvalidDefinition

if TYPE_CHECKING:
    from twinraven.calls import CallFrame
    from twinraven.catalog import Health, ToolEntry

RevealSecret = Callable[[str | None], Awaitable[str]]
"""Opens the secret for a user; raises if it may not serve them."""

OperationT_co = TypeVar("OperationT_co", covariant=True)

_LOW_LINE = re.compile(r"_([a-z])")


@dataclass(frozen=True, slots=True)
class Binding(Generic[OperationT_co]):
    """One tool, bound to one service."""

    tool_id: str
    protocol: str
    """http, https, bolt, bolt+s, stdio or sse."""
    params: Mapping[str, Any]
    """Connection parameters, already checked against the service's schema, defaults filled in."""
    operation: OperationT_co
    """Makes arguments into a request; None where nothing is called and only the connection is looked at."""
    reveal: RevealSecret | None = None
    tenant_id: str = ""
    """Whose it is, for those who keep something open between calls."""
    owner_id: str = ""
    """The user whose tool it is, for those who count what fails: one user's tools must not speak for another's."""

    def param(self, name: str) -> Any:
        """Return a connection parameter, in either spelling: max_tokens, maxTokens."""
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
        """Return the secret's value, or None where the tool has none."""
        return None if self.reveal is None else await self.reveal(user)

    def invalid(self, name: str, problem: str) -> InvalidDefinition:
        """Return the error for a connection parameter that cannot be used."""
        field = f"connection_params.{name}"
        return InvalidDefinition(f"{field} {problem}", field=field, tool_id=self.tool_id)


class BindingSource(Protocol):
    """Finds a tool's binding; raises NotFound, PolicyViolation or ToolUnavailable where the caller has none to use."""

    async def binding(
        self, tenant_id: str, tool_id: str, *, caller: str | None, definition: str | None = None
    ) -> Binding[Any]:
        """`definition` is what the tool must still be; None where whatever it is now will do."""
        ...


async def bind_call(source: BindingSource, entry: ToolEntry, call: CallFrame) -> Binding[Any]:
    """Finds the binding that a call uses; one that was approved gets no other than the one that was approved.

    A service that was found down may be checked again here, so the tool's own time begins afterwards.
    """
    definition = None if call.grant is None else entry.definition
    call.is_unsent = True
    found = await source.binding(call.tenant_id, entry.tool_id, caller=call.caller, definition=definition)
    call.is_unsent = False
    if call.keep_alive is not None:
        call.keep_alive()
    return found


class Prober(Protocol):
    """A connector that can look whether a tool's service is there."""

    async def probe(self, binding: Binding[Any], *, user: str | None = None) -> Health: ...
