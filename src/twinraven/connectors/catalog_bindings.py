"""Adapts the data-defined catalogue to connectors: its bindings for them, their probes for it.

The catalogue knows services, tools and whose secret is whose; connectors know how to reach an endpoint. Secrets are
opened here, at the moment of use: for the user a call runs for, and for a probe in the name of the endpoint's owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twinraven.catalog import Bindings, Endpoint, Health, Operation
from twinraven.connectors.binding import Binding, Prober, RevealSecret
from twinraven.tenancy import LOCAL_USER

if TYPE_CHECKING:
    from twinraven.vault import Vault


class CatalogBindings:
    """The `BindingSource` that reads the data-defined catalogue."""

    def __init__(self, bindings: Callable[[], Bindings], vault: Vault) -> None:
        """`bindings` is asked for when a call needs it: the catalogue itself is made with the connectors' probes."""
        self._bindings = bindings
        self._vault = vault

    async def binding(
        self, tenant_id: str, tool_id: str, *, caller: str | None, definition: str | None = None
    ) -> Binding[Any]:
        """Return a tool that the user may call now; otherwise the catalogue's refusal."""
        found = await self._bindings().binding(tenant_id, tool_id, caller=caller, definition=definition)
        return _bound(found.endpoint, tool_id, found.tool.structure.operation, self._vault)


class CatalogProbe:
    """The catalogue's `HealthProbe` for the services that one connector reaches."""

    def __init__(self, prober: Prober, vault: Vault) -> None:
        self._prober = prober
        self._vault = vault

    async def probe(self, endpoint: Endpoint) -> Health:
        """Probe an endpoint with the secret of its connecting user."""
        service = endpoint.service
        binding = _bound(endpoint, f"health of {service.name}", None, self._vault)
        return await self._prober.probe(binding, user=endpoint.owner_id)


def _bound(endpoint: Endpoint, tool_id: str, operation: Operation | None, vault: Vault) -> Binding[Any]:
    return Binding(
        tool_id=tool_id,
        protocol=endpoint.service.structure.protocol.value,
        params=endpoint.params,
        operation=operation,
        reveal=_opener(endpoint, vault),
        tenant_id=endpoint.service.tenant_id,
        owner_id=endpoint.owner_id,
    )


def _opener(endpoint: Endpoint, vault: Vault) -> RevealSecret | None:
    ref = endpoint.secret_ref
    if ref is None:
        return None

    async def reveal(user: str | None) -> str:
        """Nobody in particular is the user of an embedded home."""
        return await vault.reveal(ref, for_user=LOCAL_USER if user is None else user, tool_owner=endpoint.owner_id)

    return reveal
