"""Assembles the connectors of data-defined services, which share one address guard and one connection pool.

They are made when the first tool or health check needs them: a home without services loads nothing that speaks HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from twinraven.catalog import Bindings, HealthProbe, ServiceType
from twinraven.connectors.addresses import AddressGuard
from twinraven.connectors.catalog_bindings import CatalogBindings, CatalogProbe
from twinraven.connectors.delivery import DeliveryTerms, HttpDelivery
from twinraven.connectors.graph import GraphConnector, GraphLimits
from twinraven.connectors.http_model import HttpLimits, HttpRequest
from twinraven.connectors.llm import LlmConnector
from twinraven.connectors.mcp.service_connector import McpServiceConnector
from twinraven.connectors.mcp.service_servers import ServiceServers
from twinraven.connectors.rest import RestConnector
from twinraven.connectors.transport import HttpTransport
from twinraven.connectors.urls import parse_url

if TYPE_CHECKING:
    from twinraven.vault import Vault


class ServiceConnectors:
    """REST, models, graphs and MCP servers, on the bindings of one catalogue."""

    def __init__(
        self,
        bindings: Callable[[], Bindings],
        vault: Vault,
        guard: AddressGuard,
        *,
        servers: ServiceServers,
        timeout_ms: int = 30_000,
    ) -> None:
        """`timeout_ms` is how long a tool may take that states no time of its own."""
        source = CatalogBindings(bindings, vault)
        self._transport = HttpTransport(guard, limits=HttpLimits(timeout_ms=timeout_ms))
        self._delivery = delivery = HttpDelivery(self._transport)
        self._vault = vault
        self._rest = RestConnector(source, delivery)
        self._llm = LlmConnector(source, delivery)
        self._graph = GraphConnector(source, guard, limits=GraphLimits(timeout_ms=timeout_ms))
        self._servers = servers
        self._mcp = McpServiceConnector(source, servers, timeout_ms=timeout_ms)

    def connectors(self) -> tuple[RestConnector, LlmConnector, GraphConnector, McpServiceConnector]:
        return self._rest, self._llm, self._graph, self._mcp

    def probes(self) -> Mapping[ServiceType, HealthProbe]:
        """Return the health probe of each type of service."""
        return {
            ServiceType.REST_API: CatalogProbe(self._rest, self._vault),
            ServiceType.LLM_PROVIDER: CatalogProbe(self._llm, self._vault),
            ServiceType.NEO4J_GRAPH: CatalogProbe(self._graph, self._vault),
            ServiceType.MCP_SERVER: CatalogProbe(self._mcp, self._vault),
        }

    async def fetch(self, tenant_id: str, address: str) -> bytes:
        """Fetch a URL under the address rules of the tenant's tools."""
        request = HttpRequest("GET", parse_url(address))
        timeout_ms = self._transport.limits.timeout_ms
        terms = DeliveryTerms(tenant_id=tenant_id, tool_id=address, timeout_ms=timeout_ms, is_repeatable=True)
        return (await self._delivery.deliver(request, terms)).body

    async def aclose(self) -> None:
        """Close the connections of this event loop; those of others end with theirs."""
        await self._transport.aclose()
        await self._graph.aclose()
        await self._servers.aclose()
