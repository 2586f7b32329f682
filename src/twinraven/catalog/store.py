"""Declares the port to stored services, tools and templates; each method runs inside its caller's transaction.

Whatever belongs to a tenant is found here, whoever in that tenant asks; what a user may see is decided above.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from twinraven.catalog.service_model import HealthStatus, Service
from twinraven.catalog.template_model import Template, TemplateKind
from twinraven.catalog.tool_model import Tool
from twinraven.foundation.errors import PolicyViolation, TwinRavenError
from twinraven.storage import Transaction


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a health check, and its time; `at` is unchanged where nothing was checked."""

    status: HealthStatus
    message: str | None = None
    at: datetime | None = None
    refusal: PolicyViolation | None = None
    """What forbade to look at all; it is told to who waits for the look, and not stored."""

    @classmethod
    def of_error(cls, error: TwinRavenError) -> Health:
        """Return the health that an error of a check implies."""
        return cls(HealthStatus.DOWN, error.message, refusal=error if isinstance(error, PolicyViolation) else None)


class CatalogStore(Protocol):
    """One tenant's catalogue."""

    def lock(self, tx: Transaction, tenant_id: str) -> None:
        """Let writers of the tenant's catalogue take turns until the transaction ends."""
        ...

    def raise_version(self, tx: Transaction, tenant_id: str) -> None:
        """Raise the version by which caches of entries notice changes."""
        ...

    def version(self, tx: Transaction, tenant_id: str) -> int: ...

    def add_service(self, tx: Transaction, service: Service) -> None: ...

    def service(self, tx: Transaction, tenant_id: str, service_id: str) -> Service | None: ...

    def services_named(self, tx: Transaction, tenant_id: str, name: str) -> list[Service]: ...

    def services(self, tx: Transaction, tenant_id: str) -> list[Service]:
        """Return all of them, by name."""
        ...

    def change_service(self, tx: Transaction, service: Service, *, from_version: int) -> bool:
        """Store what may change; whether the service still had that state version."""
        ...

    def set_service_health(self, tx: Transaction, service: Service, health: Health) -> bool:
        """Store what was found of a service as it was looked at; whether it still is that."""
        ...

    def remove_service(self, tx: Transaction, tenant_id: str, service_id: str) -> None: ...

    def add_tool(self, tx: Transaction, tool: Tool) -> None: ...

    def tool(self, tx: Transaction, tenant_id: str, ref: str) -> Tool | None:
        """By id or by key."""
        ...

    def tools(self, tx: Transaction, tenant_id: str) -> list[Tool]:
        """Return all of them, by key."""
        ...

    def tools_on(self, tx: Transaction, tenant_id: str, service_id: str) -> list[Tool]: ...

    def change_tool(self, tx: Transaction, tool: Tool, *, from_version: int) -> bool: ...

    def set_tool_health(self, tx: Transaction, tool: Tool, health: Health) -> bool: ...

    def remove_tool(self, tx: Transaction, tenant_id: str, tool_id: str) -> None: ...

    def keys_with_secret(self, tx: Transaction, tenant_id: str, secret_id: str) -> list[str]:
        """Return the keys of the tools that are bound to a secret."""
        ...

    def add_template(self, tx: Transaction, template: Template) -> None: ...

    def template(self, tx: Transaction, tenant_id: str, kind: TemplateKind, template_id: str) -> Template | None: ...

    def templates(self, tx: Transaction, tenant_id: str, kind: TemplateKind) -> list[Template]:
        """Return all of them, by name, archived ones too."""
        ...

    def change_template(self, tx: Transaction, template: Template, *, from_version: int) -> bool: ...
