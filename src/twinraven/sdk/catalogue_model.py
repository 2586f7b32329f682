"""Models services, data-defined tools and the templates of both, as a client reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal

from twinraven.sdk.model import JsonObject
from twinraven.sdk.reading import WIRE

ServiceType = Literal["neo4j_graph", "rest_api", "llm_provider", "mcp_server"]
WireProtocol = Literal["bolt", "bolt+s", "http", "https", "stdio", "sse"]
Health = Literal["healthy", "degraded", "down"]
Effect = Literal["read", "write", "unknown"]
Sensitivity = Literal["low", "medium", "high"]


class Keep(Enum):
    """Says of a field that may be None that it stays as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """One kind of endpoint; `version` grows with every change."""

    name: str
    owner: str
    type: ServiceType
    protocol: WireProtocol
    service_id: str = field(metadata={WIRE: "id"})
    connection_schema: JsonObject
    """What a tool on it must state to connect."""
    enabled: bool
    status: Health
    created_at: datetime
    updated_at: datetime
    version: int = field(metadata={WIRE: "state_version"})
    schema_version: int = 1
    requires_secret: bool = False
    shared: bool = False
    last_health_check: datetime | None = None
    error_message: str | None = None
    service_template_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """The definition of a data-defined tool: one operation at one service; `version` grows with every change."""

    key: str
    """What callers call it by; the `tool_id` of its entry in the catalogue."""
    name: str
    description: str
    owner: str
    definition_id: str = field(metadata={WIRE: "id"})
    service_id: str = field(metadata={WIRE: "service"})
    operation: JsonObject
    input_schema: JsonObject
    enabled: bool
    status: Health
    created_at: datetime
    updated_at: datetime
    version: int = field(metadata={WIRE: "state_version"})
    connection_params: JsonObject = field(default_factory=dict[str, Any])
    output_schema: JsonObject | None = None
    effect: Effect | None = None
    """As its owner declares it."""
    sensitivity: Sensitivity = "low"
    timeout_ms: int | None = None
    secret_id: str | None = field(default=None, metadata={WIRE: "secret"})
    secret_scope: str | None = None
    """What the secret is used for."""
    shared: bool = False
    last_health_check: datetime | None = None
    error_message: str | None = None
    tool_template_id: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceTemplate:
    """A blueprint of services; what it fixes never changes."""

    name: str
    owner: str
    type: ServiceType
    protocol: WireProtocol
    template_id: str = field(metadata={WIRE: "id"})
    connection_schema: JsonObject
    created_at: datetime
    updated_at: datetime
    version: int = field(metadata={WIRE: "state_version"})
    description: str | None = None
    requires_secret: bool = False
    shared: bool = False
    archived: bool = False


@dataclass(frozen=True, slots=True)
class ToolTemplate:
    """A blueprint of tools; what it fixes never changes."""

    name: str
    owner: str
    template_id: str = field(metadata={WIRE: "id"})
    operation: JsonObject
    input_schema: JsonObject
    created_at: datetime
    updated_at: datetime
    version: int = field(metadata={WIRE: "state_version"})
    description: str | None = None
    output_schema: JsonObject | None = None
    effect: Effect | None = None
    sensitivity: Sensitivity = "low"
    timeout_ms: int | None = None
    shared: bool = False
    archived: bool = False
