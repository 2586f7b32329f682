"""A data-defined catalogue with everything it is wired to, and people who use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.houses import House
from twinraven.catalog import (
    DefinedCatalog,
    Endpoint,
    Health,
    HealthProbe,
    HealthStatus,
    Service,
    ServiceSpec,
    ServiceType,
    TemplateSpec,
    Tool,
    ToolSpec,
    audited,
)
from twinraven.connectors import check_connection
from twinraven.storage import Database
from twinraven.tenancy import LOCAL, Principal

HEALTHY = Health(HealthStatus.HEALTHY)

CONNECTION: dict[str, Any] = {
    "type": "object",
    "required": ["endpoint"],
    "properties": {
        "endpoint": {"type": "string", "format": "uri"},
        "timeout": {"type": "integer", "minimum": 1, "default": 30},
    },
    "additionalProperties": False,
}


class Probe:
    """Finds what the test tells it to, by endpoint, and remembers where it looked."""

    def __init__(self) -> None:
        self.found: dict[str, Health | Exception] = {}
        self.looked: list[Endpoint] = []

    async def probe(self, endpoint: Endpoint) -> Health:
        self.looked.append(endpoint)
        found = self.found.get(endpoint.params.get("endpoint", ""), HEALTHY)
        if isinstance(found, Exception):
            raise found
        return found


class Town:
    """One catalogue, and Ada, Bob and Eve: Ada and Bob share a tenant, Eve has one of her own."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.house = House(database, folder)
        self.probe = Probe()
        self.probes: dict[ServiceType, HealthProbe] = dict.fromkeys(ServiceType, self.probe)
        self.catalog = DefinedCatalog(
            database,
            witness=audited(self.house.audit),
            probes=self.probes,
            redact=self.house.redactor.redact,
            holds_secret=lambda tenant, text: self.house.redactor.redact_known(tenant, text) is not text,
            check_connection=check_connection,
            micros=lambda: self.house.now,
        )
        self.house.vault.register_usage(self.catalog.tools.secret_users)
        self.ada = LOCAL
        self.bob = self.eve = LOCAL

    async def settle(self) -> Town:
        bob, eve = await self.house.neighbour(), await self.house.other_tenant()
        self.bob = Principal("default", bob.user_id, "member")
        self.eve = Principal(eve.tenant_id, eve.user_id, "admin")
        return self

    async def serve(self, who: Principal | None = None, **fields: Any) -> Service:
        """A REST service, unless the fields say otherwise."""
        return await self.catalog.services.create(who or self.ada, ServiceSpec.from_json(service_body(**fields)))

    async def equip(self, service: Service | str, who: Principal | None = None, **fields: Any) -> Tool:
        """A tool on a service."""
        ref = service if isinstance(service, str) else service.service_id
        return await self.catalog.tools.create(who or self.ada, ToolSpec.from_json(tool_body(service=ref, **fields)))

    async def draw(self, who: Principal | None = None, **fields: Any) -> Any:
        """A service template."""
        body = {**service_body(), **fields}
        body.pop("enabled", None)
        return await self.catalog.templates.create(who or self.ada, TemplateSpec.from_json("service", body))

    def pass_by(self, seconds: float) -> None:
        self.house.now += round(seconds * 1_000_000)


def service_body(**fields: Any) -> dict[str, Any]:
    return {"name": "shop", "type": "rest_api", "protocol": "https", "connectionSchema": CONNECTION, **fields}


def tool_body(**fields: Any) -> dict[str, Any]:
    return {
        "key": "get_order",
        "service": "shop",
        "connectionParams": {"endpoint": "https://shop.example"},
        "operation": {"type": "rest_call", "method": "GET", "path": "/orders/{{orderId}}"},
        "inputSchema": inputs("orderId"),
        **fields,
    }


def inputs(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}
