"""Implements the use cases of services.

What belongs to somebody else and is not shared is not there. A service may be renamed, switched off, shared and given
another schema; each of these can stop tools on it, also those of others, and starts them again when it is taken back.
"""

from __future__ import annotations

from dataclasses import replace

from twinraven.catalog.connections import check_defaults
from twinraven.catalog.owned_items import OwnedItems
from twinraven.catalog.service_model import (
    DISABLED,
    NOT_CHECKED,
    HealthStatus,
    Service,
    ServiceChange,
    ServiceSpec,
    ServiceStructure,
    check_connection_schema,
    checked_name,
)
from twinraven.catalog.store import Health
from twinraven.catalog.template_model import Template
from twinraven.catalog.tool_checks import why_stopped
from twinraven.catalog.tool_model import Tool
from twinraven.catalog.transactions import (
    CatalogTransaction,
    check_version,
    owned,
    raise_not_found,
    refuse_taken,
    require_stored,
)
from twinraven.foundation.errors import Conflict
from twinraven.foundation.ids import new_id
from twinraven.foundation.predicates import json_equal
from twinraven.storage import Transaction
from twinraven.tenancy import Principal

_KIND = "service"
_TEXTS = ("name", "connection_schema")


class Services(OwnedItems[Service, ServiceSpec, ServiceChange]):
    """Services of a tenant's users."""

    async def services(self, who: Principal) -> list[Service]:
        """Return the user's own and all that are shared, by name."""
        found = await self._acts.look(who.tenant_id, lambda tx: self._store.services(tx, who.tenant_id))
        return [service for service in found if service.is_visible_to(who.user_id)]

    async def service(self, who: Principal, ref: str) -> Service:
        """By id or by name."""
        return await self._acts.look(who.tenant_id, lambda tx: self.find_in(tx, who.tenant_id, who.user_id, ref))

    def create_in(self, act: CatalogTransaction, spec: ServiceSpec, *, template: Template | None = None) -> Service:
        """Create a new service; its name is unique among its owner's."""
        spec.structure.check()
        check_defaults(act, spec.structure)
        service = Service(
            tenant_id=act.tenant_id,
            service_id=new_id(),
            owner_id=act.user_id,
            name=checked_name(spec.name),
            structure=spec.structure,
            schema_version=1,
            enabled=spec.enabled,
            shared=spec.shared,
            status=HealthStatus.DEGRADED if spec.enabled else HealthStatus.DOWN,
            error_message=NOT_CHECKED if spec.enabled else DISABLED,
            service_template_id=None if template is None else template.template_id,
            created_at=act.now,
            updated_at=act.now,
        )
        refuse_taken(self.own_named(act, service.name) is not None, _KIND, service.name)
        act.refuse_secrets({name: service.as_json()[name] for name in _TEXTS})
        self._store.add_service(act.tx, service)
        act.tell(
            "service.created",
            _KIND,
            service.service_id,
            name=service.name,
            type=service.type.value,
            protocol=service.structure.protocol.value,
            shared=service.shared,
            template=service.service_template_id,
        )
        return service

    def find_in(self, tx: Transaction, tenant_id: str, user_id: str, ref: str) -> Service:
        """Find a service the user may see: by id, by the name of an own one, or by the name of the only shared one."""
        found = self._store.service(tx, tenant_id, ref)
        if found is not None and found.is_visible_to(user_id):
            return found
        named = [each for each in self._store.services_named(tx, tenant_id, ref) if each.is_visible_to(user_id)]
        own = [each for each in named if each.owner_id == user_id]
        if not own and len(named) > 1:
            raise Conflict(f"several shared services are named {ref!r}; use the id", ids=[s.service_id for s in named])
        candidates = own or named
        return candidates[0] if candidates else raise_not_found(_KIND, ref)

    def own_named(self, act: CatalogTransaction, name: str) -> Service | None:
        named = self._store.services_named(act.tx, act.tenant_id, name)
        return next((each for each in named if each.owner_id == act.user_id), None)

    def update_in(
        self, act: CatalogTransaction, ref: str, change: ServiceChange, *, expected_version: int | None = None
    ) -> Service:
        """Type, protocol, owner and whether a secret is needed never change; what changes nothing leaves no trace."""
        before = self._mine(act, ref)
        check_version(before, expected_version, _KIND)
        after = _changed(before, change)
        fields = _differences(before, after)
        if not fields:
            return before
        if "connection_schema" in fields:
            check_defaults(act, after.structure)
        if after.name != before.name:
            refuse_taken(self.own_named(act, after.name) is not None, _KIND, after.name)
        act.refuse_secrets({name: after.as_json()[name] for name in _TEXTS if name in fields})
        after = replace(after, updated_at=act.now, state_version=before.state_version + 1)
        is_stored = self._store.change_service(act.tx, after, from_version=before.state_version)
        require_stored(is_stored, _KIND, after.name)
        act.tell(
            "service.updated",
            _KIND,
            after.service_id,
            fields=fields,
            state_version=after.state_version,
            schema_version=after.schema_version,
            shared=after.shared,
            enabled=after.enabled,
        )
        if "shared" in fields or "connection_schema" in fields:
            self._stop_and_start(act, before, after)
        return after

    def delete_in(self, act: CatalogTransaction, ref: str, *, expected_version: int | None = None) -> None:
        """Remove a service that no tool uses."""
        service = self._mine(act, ref)
        check_version(service, expected_version, _KIND)
        users = self._store.tools_on(act.tx, act.tenant_id, service.service_id)
        if users:
            raise Conflict(f"service {service.name!r} is used by {_told(users, act)}", tools=len(users))
        self._store.remove_service(act.tx, act.tenant_id, service.service_id)
        act.tell("service.deleted", _KIND, service.service_id, name=service.name)

    def _mine(self, act: CatalogTransaction, ref: str) -> Service:
        return owned(self.find_in(act.tx, act.tenant_id, act.user_id, ref), act.user_id, _KIND, ref)

    def _stop_and_start(self, act: CatalogTransaction, before: Service, after: Service) -> None:
        """Stop the tools that cannot use the service any more, and let those go on that can again."""
        for tool in self._store.tools_on(act.tx, act.tenant_id, after.service_id):
            why, was = why_stopped(tool, after), why_stopped(tool, before)
            if why == was:
                continue
            stopped = Health(HealthStatus.DOWN, why)
            going = Health(HealthStatus.DEGRADED, NOT_CHECKED)
            self._store.set_tool_health(act.tx, tool, going if why is None else stopped)
            event = "tool.resumed" if why is None else "tool.stopped"
            act.tell(event, "tool", tool.tool_id, key=tool.key, reason=why, service=after.service_id)


def service_of(template: Template, name: str, *, enabled: bool = True, shared: bool = False) -> ServiceSpec:
    """Return a service with all that a template fixes."""
    assert isinstance(template.structure, ServiceStructure)
    return ServiceSpec(name, template.structure, enabled=enabled, shared=shared)


def _changed(before: Service, change: ServiceChange) -> Service:
    after = before
    if change.name is not None:
        after = replace(after, name=checked_name(change.name))
    if change.shared is not None:
        after = replace(after, shared=change.shared)
    schema = change.connection_schema
    if schema is not None and not json_equal(schema, before.structure.connection_schema):
        check_connection_schema(schema)
        structure = replace(before.structure, connection_schema=schema)
        after = replace(after, structure=structure, schema_version=before.schema_version + 1)
    if change.enabled is not None and change.enabled != before.enabled:
        status = HealthStatus.DEGRADED if change.enabled else HealthStatus.DOWN
        message = NOT_CHECKED if change.enabled else DISABLED
        after = replace(after, enabled=change.enabled, status=status, error_message=message)
    return after


def _differences(before: Service, after: Service) -> list[str]:
    fields = [name for name in ("name", "enabled", "shared") if getattr(before, name) != getattr(after, name)]
    return [*fields, "connection_schema"] if after.schema_version != before.schema_version else fields


def _told(tools: list[Tool], act: CatalogTransaction) -> str:
    """Return who uses something: by name as far as the user may see it, the rest as a number."""
    seen = [tool.key for tool in tools if tool.is_visible_to(act.user_id)]
    others = len(tools) - len(seen)
    named = [f"tool {key!r}" for key in seen[:10]]
    return ", ".join([*named, *([f"{others} of other users"] if others else [])])
