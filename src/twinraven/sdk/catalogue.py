"""Requests the catalogue: tools, and the services of data-defined tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from twinraven.sdk.catalogue_model import (
    KEEP,
    Effect,
    Keep,
    Sensitivity,
    ServiceInfo,
    ServiceType,
    ToolDefinition,
    WireProtocol,
)
from twinraven.sdk.exchange import Exchange, RequestSpec, path_of
from twinraven.sdk.keys import Keys
from twinraven.sdk.model import JsonObject, ToolInfo
from twinraven.sdk.reading import read
from twinraven.sdk.server_requests import ServerRequests, changed, stated


class CatalogueOperations(ServerRequests):
    """Tools and services."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._keys = Keys()

    def tools(self) -> AsyncGenerator[ToolInfo]:
        """Return everything the caller sees; `is_callable` says what can be called, `reason` why the rest cannot."""
        return self._list(ToolInfo, "tools")

    async def tool(self, tool_id: str) -> ToolInfo:
        """Return one tool."""
        found = read(ToolInfo, await self._get("tools", tool_id))
        self._keys.learn(found)
        return found

    async def tool_definition(self, tool_id: str) -> ToolDefinition:
        """Return the definition of a data-defined tool."""
        return read(ToolDefinition, await self._get("tools", tool_id, "definition"))

    async def add_tool(  # noqa: PLR0913 - a tool is defined by that many facts, each by name
        self,
        key: str,
        service: str,
        operation: JsonObject,
        input_schema: JsonObject,
        *,
        name: str | None = None,
        description: str | None = None,
        connection_params: JsonObject | None = None,
        output_schema: JsonObject | None = None,
        effect: Effect | None = None,
        sensitivity: Sensitivity | None = None,
        timeout_ms: int | None = None,
        secret: str | None = None,
        secret_scope: str | None = None,
        enabled: bool = True,
        shared: bool = False,
    ) -> ToolDefinition:
        """Define a tool on a service, which is named by its id or its name, as is the secret."""
        body: JsonObject = {
            "key": key,
            "service": service,
            "operation": operation,
            "input_schema": input_schema,
            "name": name,
            "description": description,
            "connection_params": connection_params,
            "output_schema": output_schema,
            "effect": effect,
            "sensitivity": sensitivity,
            "timeout_ms": timeout_ms,
            "secret": secret,
            "secret_scope": secret_scope,
            "enabled": enabled,
            "shared": shared,
        }
        return await self._make(ToolDefinition, stated(body), "tools")

    async def change_tool(  # noqa: PLR0913 - as above
        self,
        tool_id: str,
        *,
        name: str | None = None,
        description: str | None = None,
        connection_params: JsonObject | None = None,
        operation: JsonObject | None = None,
        input_schema: JsonObject | None = None,
        output_schema: JsonObject | Keep | None = KEEP,
        effect: Effect | Keep | None = KEEP,
        sensitivity: Sensitivity | None = None,
        timeout_ms: int | Keep | None = KEEP,
        secret: str | Keep | None = KEEP,
        secret_scope: str | Keep | None = KEEP,
        enabled: bool | None = None,
        shared: bool | None = None,
        version: int | None = None,
    ) -> ToolDefinition:
        """Change a data-defined tool; what is not given stays, and None takes away what may be missing."""
        body: JsonObject = {
            "name": name,
            "description": description,
            "connection_params": connection_params,
            "operation": operation,
            "input_schema": input_schema,
            "sensitivity": sensitivity,
            "enabled": enabled,
            "shared": shared,
        }
        nullable = {
            "output_schema": output_schema,
            "effect": effect,
            "timeout_ms": timeout_ms,
            "secret": secret,
            "secret_scope": secret_scope,
        }
        found = await self._change(
            ToolDefinition, stated(body) | changed(nullable), "tools", tool_id, "definition", version=version
        )
        # Whether it writes, and so how its calls are sent, may be another now.
        self._keys.forget(found.key)
        return found

    async def delete_tool(self, tool_id: str, *, version: int | None = None) -> None:
        """Delete a data-defined tool that no step calls."""
        await self._delete("tools", tool_id, "definition", version=version)
        self._keys.forget(tool_id)

    def services(self) -> AsyncGenerator[ServiceInfo]:
        """Return one's own services and those that are shared."""
        return self._list(ServiceInfo, "services")

    async def service(self, service_id: str) -> ServiceInfo:
        """Return one service with its schema."""
        return read(ServiceInfo, await self._get("services", service_id))

    async def add_service(
        self,
        name: str,
        type: ServiceType,
        protocol: WireProtocol,
        connection_schema: JsonObject,
        *,
        requires_secret: bool = False,
        enabled: bool = True,
        shared: bool = False,
    ) -> ServiceInfo:
        """Define a service; `connection_schema` says what a tool must state to connect."""
        body: JsonObject = {
            "name": name,
            "type": type,
            "protocol": protocol,
            "connection_schema": connection_schema,
            "requires_secret": requires_secret,
            "enabled": enabled,
            "shared": shared,
        }
        return await self._make(ServiceInfo, body, "services")

    async def change_service(
        self,
        service_id: str,
        *,
        name: str | None = None,
        connection_schema: JsonObject | None = None,
        enabled: bool | None = None,
        shared: bool | None = None,
        version: int | None = None,
    ) -> ServiceInfo:
        """Change a service; what is not given stays."""
        body = stated({"name": name, "connection_schema": connection_schema, "enabled": enabled, "shared": shared})
        return await self._change(ServiceInfo, body, "services", service_id, version=version)

    async def delete_service(self, service_id: str, *, version: int | None = None) -> None:
        """Delete a service that no tool uses."""
        await self._delete("services", service_id, version=version)

    async def check_service(self, service_id: str) -> ServiceInfo:
        """Look whether a service is there, now."""
        ask = RequestSpec("POST", path_of("services", service_id, "checks"), is_safe=True)
        return read(ServiceInfo, await self._exchange.json(ask))

    async def _known(self, tool_id: str) -> ToolInfo:
        return self._keys.known(tool_id) or await self.tool(tool_id)
