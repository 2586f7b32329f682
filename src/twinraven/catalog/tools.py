"""Implements the use cases of data-defined tools.

A tool is checked whole whenever anything about it changes: its operation against its service and its inputs, its
parameters against the service's schema, its secret against its owner. Owner, key and service never change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from twinraven.catalog.connections import check_params
from twinraven.catalog.documents import KeepField, kept
from twinraven.catalog.model import Effect
from twinraven.catalog.owned_items import OwnedItems
from twinraven.catalog.ports import FindTool, SecretLookup, StepUsage
from twinraven.catalog.service_model import NOT_CHECKED, HealthStatus, Service, checked_name
from twinraven.catalog.services import Services
from twinraven.catalog.template_model import Template
from twinraven.catalog.tool_checks import check_fit, check_structure, fit_params, why_stopped
from twinraven.catalog.tool_model import Tool, ToolChange, ToolSpec, ToolStructure, checked_key
from twinraven.catalog.transactions import (
    CatalogTransaction,
    CatalogTransactions,
    check_version,
    owned,
    require_stored,
    visible,
)
from twinraven.foundation.errors import Conflict, InvalidDefinition, NotFound, PolicyViolation
from twinraven.foundation.ids import new_id
from twinraven.foundation.predicates import json_equal
from twinraven.storage import Transaction
from twinraven.tenancy import Principal

if TYPE_CHECKING:
    from twinraven.vault import Secret

_KIND = "tool"
_TEXTS = (
    "key",
    "name",
    "description",
    "connection_params",
    "operation",
    "input_schema",
    "output_schema",
    "secret_scope",
)
_PLAIN_FIELDS = ("name", "description", "secret_id", "secret_scope", "enabled", "shared")


class Tools(OwnedItems[Tool, ToolSpec, ToolChange]):
    """Data-defined tools of a tenant's users."""

    def __init__(
        self,
        acts: CatalogTransactions,
        services: Services,
        *,
        secrets: SecretLookup | None = None,
        find_other: FindTool | None = None,
    ) -> None:
        """`find_other` finds tools that are not data-defined, whose names cannot be taken."""
        super().__init__(acts)
        self._services = services
        self._secrets = secrets or _vault_store()
        self._find_other = find_other
        self._usages: list[StepUsage] = []

    def register_usage(self, check: StepUsage) -> None:
        """Ask `check` before a tool is deleted; it runs inside the deleting transaction."""
        self._usages.append(check)

    def secret_users(self, tx: Transaction, tenant_id: str, secret_id: str) -> list[str]:
        """Return the users of a secret, which the vault asks for before it deletes one."""
        return [f"tool {key!r}" for key in self._store.keys_with_secret(tx, tenant_id, secret_id)]

    def secret_name(self, tx: Transaction, tool: Tool) -> str | None:
        """Return the name of the secret that a tool is bound to."""
        bound = tool.secret_id
        found = None if bound is None else self._secrets.secret(tx, tool.tenant_id, tool.owner_id, bound)
        return None if found is None else found.name

    async def tools(self, who: Principal) -> list[Tool]:
        """Return the user's own and all that are shared, by key."""
        found = await self._acts.look(who.tenant_id, lambda tx: self._store.tools(tx, who.tenant_id))
        return [tool for tool in found if tool.is_visible_to(who.user_id)]

    async def tool(self, who: Principal, ref: str) -> Tool:
        """By key or by id."""
        found = await self._acts.look(who.tenant_id, lambda tx: self._store.tool(tx, who.tenant_id, ref))
        return visible(found, who.user_id, _KIND, ref)

    def create_in(self, act: CatalogTransaction, spec: ToolSpec, *, template: Template | None = None) -> Tool:
        """Create a new tool on a service of the user's, or on a shared one."""
        placement = spec.placement
        key = checked_key(placement.key)
        self._refuse_taken(act, key)
        service = self._services.find_in(act.tx, act.tenant_id, act.user_id, placement.service)
        name = checked_name(placement.name or key)
        secret = None if placement.secret is None else self._secret(act, placement.secret)
        tool = Tool(
            tenant_id=act.tenant_id,
            tool_id=new_id(),
            key=key,
            owner_id=act.user_id,
            service_id=service.service_id,
            name=name,
            description=placement.description or name,
            connection_params=placement.connection_params,
            structure=spec.structure,
            secret_id=None if secret is None else secret.secret_id,
            secret_scope=placement.secret_scope,
            enabled=placement.enabled,
            shared=placement.shared,
            status=HealthStatus.DEGRADED,
            tool_template_id=None if template is None else template.template_id,
            created_at=act.now,
            updated_at=act.now,
        )
        if template is None:
            refuse_lowered_effect(act, spec.structure)
        made = _with_fresh_health(_checked(act, _without_lowered_effect(act, tool), service), service)
        act.refuse_secrets({name: made.as_json()[name] for name in _TEXTS})
        self._store.add_tool(act.tx, made)
        effect, origin = made.structure.effect_and_origin
        act.tell(
            "tool.created",
            _KIND,
            made.tool_id,
            key=key,
            service=service.service_id,
            secret=made.secret_id,
            secret_scope=made.secret_scope,
            operation=made.structure.operation.type.value,
            effect=effect.value,
            effect_origin=origin,
            shared=made.shared,
            template=made.tool_template_id,
        )
        return made

    def find_in(self, act: CatalogTransaction, ref: str) -> Tool | None:
        """Find a tool by key or id that the user may see."""
        found = self._store.tool(act.tx, act.tenant_id, ref)
        return found if found is not None and found.is_visible_to(act.user_id) else None

    def update_in(
        self, act: CatalogTransaction, ref: str, change: ToolChange, *, expected_version: int | None = None
    ) -> Tool:
        """Key, owner and service never change; a change that changes nothing leaves no trace."""
        before = owned(self._store.tool(act.tx, act.tenant_id, ref), act.user_id, _KIND, ref)
        check_version(before, expected_version, _KIND)
        service = self._store.service(act.tx, act.tenant_id, before.service_id)
        assert service is not None, "the database keeps a tool's service"
        asked = self._changed(act, before, change)
        touched = _differences(before, asked)
        if set(touched) - {"name", "description", "enabled", "shared"}:
            # Whoever binds anew needs the service now, however the tool came to it.
            visible(service, act.user_id, "service", before.service_id)
            asked = _checked(act, asked, service)
        fields = _differences(before, asked)
        if "connection_params" in fields and isinstance(change.effect, KeepField):
            asked = _without_lowered_effect(act, asked)
            fields = _differences(before, asked)
        elif set(fields) & {"operation", "effect", "connection_params"}:
            refuse_lowered_effect(act, asked.structure)
        if not fields:
            return before
        act.refuse_secrets({name: asked.as_json()[name] for name in _TEXTS if name in fields})
        after = replace(asked, updated_at=act.now, state_version=before.state_version + 1)
        if set(fields) & {"connection_params", "operation", "secret_id", "enabled"}:
            after = _with_fresh_health(after, service)
        is_stored = self._store.change_tool(act.tx, after, from_version=before.state_version)
        require_stored(is_stored, _KIND, after.name)
        act.tell(
            "tool.updated",
            _KIND,
            after.tool_id,
            key=after.key,
            fields=fields,
            state_version=after.state_version,
            secret=after.secret_id,
            secret_scope=after.secret_scope,
            shared=after.shared,
            enabled=after.enabled,
        )
        return after

    def delete_in(self, act: CatalogTransaction, ref: str, *, expected_version: int | None = None) -> None:
        """Remove a tool that no step calls."""
        tool = owned(self._store.tool(act.tx, act.tenant_id, ref), act.user_id, _KIND, ref)
        check_version(tool, expected_version, _KIND)
        users = [user for check in self._usages for user in check(act.tx, act.tenant_id, tool.key)]
        if users:
            raise Conflict(f"tool {tool.key!r} is called by {', '.join(users)}", used_by=users)
        self._store.remove_tool(act.tx, act.tenant_id, tool.tool_id)
        act.tell("tool.deleted", _KIND, tool.tool_id, key=tool.key)

    def _changed(self, act: CatalogTransaction, before: Tool, change: ToolChange) -> Tool:
        old = before.structure
        structure = replace(
            old,
            operation=change.operation or old.operation,
            input_schema=old.input_schema if change.input_schema is None else change.input_schema,
            output_schema=kept(change.output_schema, old.output_schema),
            effect=kept(change.effect, old.effect),
            sensitivity=change.sensitivity or old.sensitivity,
            timeout_ms=kept(change.timeout_ms, old.timeout_ms),
        )
        secret_id, scope = before.secret_id, kept(change.secret_scope, before.secret_scope)
        if not isinstance(change.secret, KeepField):
            secret_id = None if change.secret is None else self._secret(act, change.secret).secret_id
            # A scope was said of the binding before; another binding has its own, or none.
            scope = scope if secret_id == before.secret_id else kept(change.secret_scope, None)
        params = change.connection_params
        return replace(
            before,
            name=before.name if change.name is None else checked_name(change.name),
            description=before.description if change.description is None else change.description,
            connection_params=before.connection_params if params is None else params,
            structure=structure,
            secret_id=secret_id,
            secret_scope=scope,
            enabled=before.enabled if change.enabled is None else change.enabled,
            shared=before.shared if change.shared is None else change.shared,
        )

    def _secret(self, act: CatalogTransaction, ref: str) -> Secret:
        """Return a secret of the owner's, by id or by name; those of others are not found."""
        found = self._secrets.secret(act.tx, act.tenant_id, act.user_id, ref)
        found = found or self._secrets.named(act.tx, act.tenant_id, act.user_id, ref)
        if found is None:
            raise NotFound(f"no secret {ref!r}", secret=ref)
        return found

    def is_taken(self, act: CatalogTransaction, key: str) -> bool:
        """Return whether any tool of the tenant is called by this key."""
        is_defined = self._store.tool(act.tx, act.tenant_id, key) is not None
        return is_defined or (self._find_other is not None and self._find_other(act.tenant_id, key) is not None)

    def _refuse_taken(self, act: CatalogTransaction, key: str) -> None:
        if self.is_taken(act, key):
            raise Conflict(f"there is a tool {key!r} already; keys are unique among all tools of a tenant", key=key)


def refuse_lowered_effect(act: CatalogTransaction, structure: ToolStructure) -> None:
    """Policy about writes goes by the effect, so no member may call a read what does not show itself to be one."""
    if _is_lowered(act, structure):
        raise PolicyViolation(
            f"effect: this {structure.operation.type.value} may change something, and only an administrator may "
            "declare it a read; leave effect out",
            field="effect",
            user_id=act.user_id,
        )


def _without_lowered_effect(act: CatalogTransaction, tool: Tool) -> Tool:
    """Return the tool without a declared lower effect, where a member chooses its endpoint.

    The effect was declared of an operation at another server than the one that they name.
    """
    return replace(tool, structure=replace(tool.structure, effect=None)) if _is_lowered(act, tool.structure) else tool


def _is_lowered(act: CatalogTransaction, structure: ToolStructure) -> bool:
    is_member = act.by is not None and act.by.role != "admin"
    return is_member and structure.effect is Effect.READ and structure.operation.effect is not Effect.READ


def _checked(act: CatalogTransaction, tool: Tool, service: Service) -> Tool:
    """Return the tool with its parameters filled up, or what is wrong with it."""
    check_fit(tool.structure.operation, service.type)
    check_structure(tool.structure)
    if service.structure.requires_secret and tool.secret_id is None:
        raise InvalidDefinition(
            f"secret is missing: the service {service.name!r} requires one; bind a secret of yours", field="secret"
        )
    if tool.secret_scope is not None and tool.secret_id is None:
        raise InvalidDefinition(
            "secret_scope says what a secret is used for, and none is bound; bind one or leave it out",
            field="secret_scope",
        )
    params = fit_params(service, tool.connection_params)
    check_params(act, service.structure, params, has_secret=tool.secret_id is not None)
    return replace(tool, connection_params=params)


def _with_fresh_health(tool: Tool, service: Service) -> Tool:
    """Return what is known of a tool's health when it was just made or bound anew."""
    why = why_stopped(tool, service)
    status = HealthStatus.DEGRADED if why is None else HealthStatus.DOWN
    return replace(tool, status=status, error_message=why or NOT_CHECKED)


def _differences(before: Tool, after: Tool) -> list[str]:
    fields = [name for name in _PLAIN_FIELDS if getattr(before, name) != getattr(after, name)]
    if not json_equal(before.connection_params, after.connection_params):
        fields.append("connection_params")
    old, new = before.structure.as_json(), after.structure.as_json()
    return fields + [name for name in old if not json_equal(old[name], new[name])]


def _vault_store() -> SecretLookup:
    from twinraven.vault import SqlSecretStore

    return SqlSecretStore()
