"""Models services: the type of an endpoint and the connection parameters that it needs.

A service holds no address. It says how such an endpoint is spoken to and what a tool must state to reach one; the tools
on it state that. What a service is (type, protocol, whether it needs a secret) never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from twinraven.catalog.documents import LONGEST_NAME, Document, refuse_nulls
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import InvalidDefinition, InvalidSchema

NOT_CHECKED: Final = "not checked yet"
DISABLED: Final = "disabled"


class ServiceType(StrEnum):
    """The type of a service: REST, graph database, language model or MCP server."""

    NEO4J_GRAPH = "neo4j_graph"
    REST_API = "rest_api"
    LLM_PROVIDER = "llm_provider"
    MCP_SERVER = "mcp_server"


class WireProtocol(StrEnum):
    """The wire protocol of a service."""

    BOLT = "bolt"
    BOLT_TLS = "bolt+s"
    HTTP = "http"
    HTTPS = "https"
    STDIO = "stdio"
    SSE = "sse"


class HealthStatus(StrEnum):
    """The status that the last health check found; only `down` blocks calls."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    DOWN = "down"


PROTOCOLS: Final[Mapping[ServiceType, tuple[WireProtocol, ...]]] = {
    ServiceType.NEO4J_GRAPH: (WireProtocol.BOLT, WireProtocol.BOLT_TLS),
    ServiceType.REST_API: (WireProtocol.HTTP, WireProtocol.HTTPS),
    ServiceType.LLM_PROVIDER: (WireProtocol.HTTP, WireProtocol.HTTPS),
    ServiceType.MCP_SERVER: (WireProtocol.STDIO, WireProtocol.HTTP, WireProtocol.HTTPS, WireProtocol.SSE),
}

CONNECTORS: Final[Mapping[ServiceType, str]] = {
    ServiceType.NEO4J_GRAPH: "graph",
    ServiceType.REST_API: "rest",
    ServiceType.LLM_PROVIDER: "llm",
    ServiceType.MCP_SERVER: "mcp_service",
}
"""The connector that reaches a service of each type."""

_STRUCTURE: Final = ("type", "protocol", "connection_schema", "requires_secret")


@dataclass(frozen=True, slots=True)
class ServiceStructure:
    """The structure of a service, which a template of services fixes."""

    type: ServiceType
    protocol: WireProtocol
    connection_schema: dict[str, Any]
    requires_secret: bool = False

    def check(self) -> None:
        """Raise unless the parts go together."""
        if self.protocol not in PROTOCOLS[self.type]:
            spoken = " or ".join(PROTOCOLS[self.type])
            raise InvalidDefinition(
                f"protocol: a {self.type} speaks {spoken}, not {self.protocol}", field="protocol", type=self.type.value
            )
        check_connection_schema(self.connection_schema)

    @classmethod
    def of(cls, document: Document) -> ServiceStructure:
        return cls(
            type=document.choice("type", ServiceType),
            protocol=document.choice("protocol", WireProtocol),
            connection_schema=document.mapping("connection_schema"),
            requires_secret=document.flag("requires_secret", default=False),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "type": self.type.value,
            "protocol": self.protocol.value,
            "connection_schema": self.connection_schema,
            "requires_secret": self.requires_secret,
        }


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service to be made."""

    name: str
    structure: ServiceStructure
    enabled: bool = True
    shared: bool = False

    FIELDS = ("name", *_STRUCTURE, "enabled", "shared")

    @classmethod
    def from_json(cls, body: object) -> ServiceSpec:
        document = Document("service", body, known=cls.FIELDS)
        return cls(
            name=document.text("name"),
            structure=ServiceStructure.of(document),
            enabled=document.flag("enabled", default=True),
            shared=document.flag("shared", default=False),
        )


@dataclass(frozen=True, slots=True)
class ServiceChange:
    """A partial update of a service; fields that are not given stay."""

    name: str | None = None
    connection_schema: dict[str, Any] | None = None
    enabled: bool | None = None
    shared: bool | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ServiceChange:
        known = ("name", "connection_schema", "enabled", "shared")
        fixed = ("id", "type", "protocol", "requires_secret", "owner", "service_template_id")
        document = Document("service", body, known=known, fixed=fixed)
        refuse_nulls("service", body, ())
        return cls(
            name=document.optional_text("name"),
            connection_schema=document.optional_mapping("connection_schema"),
            enabled=document.optional_flag("enabled"),
            shared=document.optional_flag("shared"),
        )


@dataclass(frozen=True, slots=True)
class Service:
    """One kind of endpoint, of one owner."""

    tenant_id: str
    service_id: str
    owner_id: str
    name: str
    structure: ServiceStructure
    schema_version: int
    enabled: bool
    shared: bool
    status: HealthStatus
    created_at: datetime
    updated_at: datetime
    last_health_check: datetime | None = None
    error_message: str | None = None
    service_template_id: str | None = None
    state_version: int = 1

    def __post_init__(self) -> None:
        if not self.enabled and self.status is HealthStatus.HEALTHY:
            raise AssertionError("a disabled service is not healthy")

    @property
    def type(self) -> ServiceType:
        return self.structure.type

    def is_visible_to(self, user_id: str) -> bool:
        return self.shared or self.owner_id == user_id

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.service_id,
            "name": self.name,
            "owner": self.owner_id,
            **self.structure.as_json(),
            "schema_version": self.schema_version,
            "enabled": self.enabled,
            "shared": self.shared,
            "status": self.status.value,
            "last_health_check": None if self.last_health_check is None else iso(self.last_health_check),
            "error_message": self.error_message,
            "service_template_id": self.service_template_id,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "state_version": self.state_version,
        }


def check_connection_schema(schema: dict[str, Any]) -> None:
    """Raise unless this is a JSON Schema of an object."""
    from twinraven.foundation.json_schema import compile_schema

    try:
        compile_schema(schema)
    except InvalidSchema as error:
        raise InvalidSchema(f"connection_schema: {error.message}", field="connection_schema") from None
    if schema.get("type") != "object":
        raise InvalidSchema(
            'connection_schema must describe an object; give it "type": "object"', field="connection_schema"
        )


def checked_name(name: str, *, field: str = "name") -> str:
    """Return a label that people can read and find again."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidDefinition(f"{field} must have 1 to {LONGEST_NAME} printable characters", field=field)
    return name
