"""Tools of a test's own, bound to services on this machine."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from twinraven.calls import CallFrame
from twinraven.catalog import Effect, ToolEntry
from twinraven.catalog.operations import read_operation
from twinraven.connectors import Binding, RevealSecret
from twinraven.foundation.errors import NotFound

TENANT = "default"


class Bindings:
    """A source of bindings that holds what a test puts there."""

    def __init__(self) -> None:
        self._held: dict[str, Binding[Any]] = {}

    def hold(self, binding: Binding[Any]) -> None:
        self._held[binding.tool_id] = binding

    async def binding(
        self, tenant_id: str, tool_id: str, *, caller: str | None, definition: str | None = None
    ) -> Binding[Any]:
        del caller, definition
        if tenant_id != TENANT or tool_id not in self._held:
            raise NotFound(f"no tool {tool_id!r}")
        return self._held[tool_id]


def bound(
    operation: dict[str, Any],
    endpoint: str,
    *,
    tool_id: str = "tool",
    secret: str | RevealSecret | None = None,
    owner_id: str = "",
    **params: Any,
) -> Binding[Any]:
    """A binding of an operation, as the catalogue reads it, to an endpoint."""

    async def reveal(user: str | None) -> str:
        assert user == "ada"
        assert isinstance(secret, str)
        return secret

    return Binding(
        tool_id=tool_id,
        protocol=endpoint.partition("://")[0],
        params={"endpoint": endpoint, **params},
        operation=read_operation(operation),
        reveal=None if secret is None else reveal if isinstance(secret, str) else secret,
        owner_id=owner_id,
    )


def entry(
    *,
    tool_id: str = "tool",
    connector: str = "rest",
    effect: str = "read",
    output: dict[str, Any] | None = None,
    timeout_ms: int | None = 5_000,
) -> ToolEntry:
    """The catalogue's entry of a tool."""
    return ToolEntry(
        tool_id=tool_id,
        description="A tool of a test's.",
        input_schema={"type": "object"},
        output_schema=output,
        effect=Effect(effect),
        effect_origin="declared",
        connector=connector,
        timeout_ms=timeout_ms,
    )


def frame(*, key: str | None = None, caller: str | None = "ada", tenant_id: str = TENANT) -> CallFrame:
    """A call as a connector sees it."""
    return CallFrame(tenant_id, "session", uuid4(), key=key, caller=caller)
