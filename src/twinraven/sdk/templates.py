"""Requests templates and their copies. Deleting a template archives it: it leaves the lists and can still be read."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from twinraven.sdk.catalogue_model import (
    KEEP,
    Effect,
    Keep,
    Sensitivity,
    ServiceInfo,
    ServiceTemplate,
    ServiceType,
    ToolDefinition,
    ToolTemplate,
    WireProtocol,
)
from twinraven.sdk.model import JsonObject
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, changed, stated


class TemplateOperations(ServerRequests):
    """Blueprints of services and of tools."""

    def service_templates(self, *, archived: bool = False) -> AsyncGenerator[ServiceTemplate]:
        """Blueprints of services, with archived ones if they are wanted."""
        return self._list(ServiceTemplate, "service-templates", includeArchived=archived)

    async def service_template(self, template_id: str) -> ServiceTemplate:
        """Return one blueprint of services, archived or not."""
        return read(ServiceTemplate, await self._get("service-templates", template_id))

    async def add_service_template(
        self,
        name: str,
        type: ServiceType,
        protocol: WireProtocol,
        connection_schema: JsonObject,
        *,
        description: str | None = None,
        requires_secret: bool = False,
        shared: bool = False,
    ) -> ServiceTemplate:
        """Make a blueprint of services."""
        body: JsonObject = {
            "name": name,
            "type": type,
            "protocol": protocol,
            "connection_schema": connection_schema,
            "description": description,
            "requires_secret": requires_secret,
            "shared": shared,
        }
        return await self._make(ServiceTemplate, stated(body), "service-templates")

    async def change_service_template(
        self,
        template_id: str,
        *,
        name: str | None = None,
        description: str | Keep | None = KEEP,
        shared: bool | None = None,
        archived: bool | None = None,
        version: int | None = None,
    ) -> ServiceTemplate:
        """Rename, describe, share or archive a blueprint of services, or bring it back."""
        body = stated({"name": name, "shared": shared, "archived": archived}) | changed({"description": description})
        return await self._change(ServiceTemplate, body, "service-templates", template_id, version=version)

    async def archive_service_template(self, template_id: str, *, version: int | None = None) -> None:
        """Archive a blueprint of services."""
        await self._delete("service-templates", template_id, version=version)

    async def make_service(
        self, template_id: str, name: str, *, enabled: bool = True, shared: bool = False
    ) -> ServiceInfo:
        """Make a service from a blueprint."""
        body: JsonObject = {"name": name, "enabled": enabled, "shared": shared}
        return await self._make(ServiceInfo, body, "service-templates", template_id, "services")

    def tool_templates(self, *, archived: bool = False) -> AsyncGenerator[ToolTemplate]:
        """Blueprints of tools, with archived ones if they are wanted."""
        return self._list(ToolTemplate, "tool-templates", includeArchived=archived)

    async def tool_template(self, template_id: str) -> ToolTemplate:
        """Return one blueprint of tools, archived or not."""
        return read(ToolTemplate, await self._get("tool-templates", template_id))

    async def add_tool_template(  # noqa: PLR0913 - a tool is defined by that many facts, each by name
        self,
        name: str,
        operation: JsonObject,
        input_schema: JsonObject,
        *,
        description: str | None = None,
        output_schema: JsonObject | None = None,
        effect: Effect | None = None,
        sensitivity: Sensitivity | None = None,
        timeout_ms: int | None = None,
        shared: bool = False,
    ) -> ToolTemplate:
        """Make a blueprint of tools."""
        body: JsonObject = {
            "name": name,
            "operation": operation,
            "input_schema": input_schema,
            "description": description,
            "output_schema": output_schema,
            "effect": effect,
            "sensitivity": sensitivity,
            "timeout_ms": timeout_ms,
            "shared": shared,
        }
        return await self._make(ToolTemplate, stated(body), "tool-templates")

    async def change_tool_template(
        self,
        template_id: str,
        *,
        name: str | None = None,
        description: str | Keep | None = KEEP,
        shared: bool | None = None,
        archived: bool | None = None,
        version: int | None = None,
    ) -> ToolTemplate:
        """Rename, describe, share or archive a blueprint of tools, or bring it back."""
        body = stated({"name": name, "shared": shared, "archived": archived}) | changed({"description": description})
        return await self._change(ToolTemplate, body, "tool-templates", template_id, version=version)

    async def archive_tool_template(self, template_id: str, *, version: int | None = None) -> None:
        """Archive a blueprint of tools."""
        await self._delete("tool-templates", template_id, version=version)

    async def make_tool(  # noqa: PLR0913 - as above
        self,
        template_id: str,
        key: str,
        service: str,
        *,
        name: str | None = None,
        description: str | None = None,
        connection_params: JsonObject | None = None,
        secret: str | None = None,
        secret_scope: str | None = None,
        enabled: bool = True,
        shared: bool = False,
    ) -> ToolDefinition:
        """Make a tool from a blueprint, on a service that is named by its id or its name, as is the secret."""
        body: JsonObject = {
            "key": key,
            "service": service,
            "name": name,
            "description": description,
            "connection_params": connection_params,
            "secret": secret,
            "secret_scope": secret_scope,
            "enabled": enabled,
            "shared": shared,
        }
        return await self._make(ToolDefinition, stated(body), "tool-templates", template_id, "tools")
