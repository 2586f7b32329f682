"""Stores services, tools and templates in SQL, the same for both databases."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import orjson

from twinraven.catalog.check_sql import forget_checks
from twinraven.catalog.model import Effect, Sensitivity
from twinraven.catalog.operations import read_operation
from twinraven.catalog.service_model import HealthStatus, Service, ServiceStructure, ServiceType, WireProtocol
from twinraven.catalog.store import Health
from twinraven.catalog.template_model import Template, TemplateKind, TemplateSpec
from twinraven.catalog.tool_model import Tool, ToolStructure
from twinraven.catalog.version_sql import current_version, next_version
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.storage import Row, Transaction

_HERE = "WHERE tenant_id = :tenant"
_ORDERED = "ORDER BY name, created_at, owner_id"
_HEALTH = "SET status = :status, error_message = :message, last_health_check = COALESCE(:at, last_health_check)"

_SERVICE_MAY_CHANGE = (
    *("name", "connection_schema", "schema_version", "enabled", "shared", "status", "error_message"),
    *("updated_at", "state_version"),
)
_TOOL_MAY_CHANGE = (
    *("name", "description", "connection_params", "operation", "input_schema", "output_schema", "effect"),
    *("sensitivity", "timeout_ms", "secret_id", "secret_scope", "enabled", "shared", "status", "error_message"),
    *("updated_at", "state_version"),
)
_TEMPLATE_MAY_CHANGE = ("name", "description", "shared", "archived", "updated_at", "state_version")


class SqlCatalogStore:
    """`CatalogStore` on a database of ours."""

    def lock(self, tx: Transaction, tenant_id: str) -> None:
        # One statement that inserts or touches the row, and so holds it on either store.
        tx.execute(
            "INSERT INTO catalog_version (tenant_id, version) VALUES (:tenant, 0) "
            "ON CONFLICT (tenant_id) DO UPDATE SET version = catalog_version.version",
            tenant=tenant_id,
        )

    def raise_version(self, tx: Transaction, tenant_id: str) -> None:
        next_version(tx, tenant_id)

    def version(self, tx: Transaction, tenant_id: str) -> int:
        return current_version(tx, tenant_id)

    def add_service(self, tx: Transaction, service: Service) -> None:
        _insert(tx, "catalog_services", _service_row(service))

    def service(self, tx: Transaction, tenant_id: str, service_id: str) -> Service | None:
        row = tx.fetch_one(
            f"SELECT * FROM catalog_services {_HERE} AND service_id = :id", tenant=tenant_id, id=service_id
        )
        return None if row is None else _to_service(row)

    def services_named(self, tx: Transaction, tenant_id: str, name: str) -> list[Service]:
        rows = tx.fetch_all(
            f"SELECT * FROM catalog_services {_HERE} AND name = :name {_ORDERED}", tenant=tenant_id, name=name
        )
        return [_to_service(row) for row in rows]

    def services(self, tx: Transaction, tenant_id: str) -> list[Service]:
        rows = tx.fetch_all(f"SELECT * FROM catalog_services {_HERE} {_ORDERED}", tenant=tenant_id)
        return [_to_service(row) for row in rows]

    def change_service(self, tx: Transaction, service: Service, *, from_version: int) -> bool:
        row = _service_row(service)
        return _update(tx, "catalog_services", row, _SERVICE_MAY_CHANGE, ("service_id", from_version))

    def set_service_health(self, tx: Transaction, service: Service, health: Health) -> bool:
        return _set_health(tx, "catalog_services", ("service_id", service.service_id), service, health)

    def remove_service(self, tx: Transaction, tenant_id: str, service_id: str) -> None:
        forget_checks(tx, tenant_id, service_id)
        tx.execute(f"DELETE FROM catalog_services {_HERE} AND service_id = :id", tenant=tenant_id, id=service_id)

    def add_tool(self, tx: Transaction, tool: Tool) -> None:
        _insert(tx, "catalog_tools", _tool_row(tool))

    def tool(self, tx: Transaction, tenant_id: str, ref: str) -> Tool | None:
        row = tx.fetch_one(
            f"SELECT * FROM catalog_tools {_HERE} AND (tool_key = :ref OR tool_id = :ref)", tenant=tenant_id, ref=ref
        )
        return None if row is None else _to_tool(row)

    def tools(self, tx: Transaction, tenant_id: str) -> list[Tool]:
        rows = tx.fetch_all(f"SELECT * FROM catalog_tools {_HERE} ORDER BY tool_key", tenant=tenant_id)
        return [_to_tool(row) for row in rows]

    def tools_on(self, tx: Transaction, tenant_id: str, service_id: str) -> list[Tool]:
        rows = tx.fetch_all(
            f"SELECT * FROM catalog_tools {_HERE} AND service_id = :service ORDER BY tool_key",
            tenant=tenant_id,
            service=service_id,
        )
        return [_to_tool(row) for row in rows]

    def change_tool(self, tx: Transaction, tool: Tool, *, from_version: int) -> bool:
        return _update(tx, "catalog_tools", _tool_row(tool), _TOOL_MAY_CHANGE, ("tool_id", from_version))

    def set_tool_health(self, tx: Transaction, tool: Tool, health: Health) -> bool:
        return _set_health(tx, "catalog_tools", ("tool_id", tool.tool_id), tool, health)

    def remove_tool(self, tx: Transaction, tenant_id: str, tool_id: str) -> None:
        tx.execute(f"DELETE FROM catalog_tools {_HERE} AND tool_id = :id", tenant=tenant_id, id=tool_id)

    def keys_with_secret(self, tx: Transaction, tenant_id: str, secret_id: str) -> list[str]:
        rows = tx.fetch_all(
            f"SELECT tool_key FROM catalog_tools {_HERE} AND secret_id = :secret ORDER BY tool_key",
            tenant=tenant_id,
            secret=secret_id,
        )
        return [row["tool_key"] for row in rows]

    def add_template(self, tx: Transaction, template: Template) -> None:
        _insert(tx, "catalog_templates", _template_row(template))

    def template(self, tx: Transaction, tenant_id: str, kind: TemplateKind, template_id: str) -> Template | None:
        row = tx.fetch_one(
            f"SELECT * FROM catalog_templates {_HERE} AND kind = :kind AND template_id = :id",
            tenant=tenant_id,
            kind=kind,
            id=template_id,
        )
        return None if row is None else _to_template(row)

    def templates(self, tx: Transaction, tenant_id: str, kind: TemplateKind) -> list[Template]:
        rows = tx.fetch_all(
            f"SELECT * FROM catalog_templates {_HERE} AND kind = :kind {_ORDERED}", tenant=tenant_id, kind=kind
        )
        return [_to_template(row) for row in rows]

    def change_template(self, tx: Transaction, template: Template, *, from_version: int) -> bool:
        row = _template_row(template)
        return _update(tx, "catalog_templates", row, _TEMPLATE_MAY_CHANGE, ("template_id", from_version))


def _insert(tx: Transaction, table: str, row: Row) -> None:
    columns = ", ".join(row)
    tx.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(f':{name}' for name in row)})", **row)


def _update(tx: Transaction, table: str, row: Row, changing: Iterable[str], at: tuple[str, int]) -> bool:
    """Store some columns of the row that has this id and, still, that state version."""
    key, from_version = at
    values = {name: row[name] for name in changing}
    changed = tx.execute(
        f"UPDATE {table} SET {', '.join(f'{name} = :{name}' for name in values)} "
        f"{_HERE} AND {key} = :id AND state_version = :from_version",
        tenant=row["tenant_id"],
        id=row[key],
        from_version=from_version,
        **values,
    )
    return changed == 1


def _set_health(tx: Transaction, table: str, row: tuple[str, str], seen: Service | Tool, health: Health) -> bool:
    column, value = row
    changed = tx.execute(
        f"UPDATE {table} {_HEALTH} {_HERE} AND {column} = :id AND state_version = :version",
        tenant=seen.tenant_id,
        id=value,
        version=seen.state_version,
        status=health.status.value,
        message=health.message,
        at=_micros(health.at),
    )
    return changed == 1


def _service_row(service: Service) -> Row:
    structure = service.structure
    return {
        "tenant_id": service.tenant_id,
        "service_id": service.service_id,
        "owner_id": service.owner_id,
        "name": service.name,
        "type": structure.type.value,
        "protocol": structure.protocol.value,
        "connection_schema": _text(structure.connection_schema),
        "schema_version": service.schema_version,
        "requires_secret": int(structure.requires_secret),
        "service_template_id": service.service_template_id,
        **_shared_row(service),
    }


def _to_service(row: Row) -> Service:
    structure = ServiceStructure(
        type=ServiceType(row["type"]),
        protocol=WireProtocol(row["protocol"]),
        connection_schema=parse_json(row["connection_schema"]),
        requires_secret=bool(row["requires_secret"]),
    )
    return Service(
        tenant_id=row["tenant_id"],
        service_id=row["service_id"],
        owner_id=row["owner_id"],
        name=row["name"],
        structure=structure,
        schema_version=row["schema_version"],
        service_template_id=row["service_template_id"],
        **_to_shared(row),
    )


def _tool_row(tool: Tool) -> Row:
    structure = tool.structure
    return {
        "tenant_id": tool.tenant_id,
        "tool_id": tool.tool_id,
        "tool_key": tool.key,
        "owner_id": tool.owner_id,
        "service_id": tool.service_id,
        "name": tool.name,
        "description": tool.description,
        "connection_params": _text(tool.connection_params),
        "operation": _text(structure.operation.as_json()),
        "input_schema": _text(structure.input_schema),
        "output_schema": None if structure.output_schema is None else _text(structure.output_schema),
        "effect": None if structure.effect is None else structure.effect.value,
        "sensitivity": structure.sensitivity.value,
        "timeout_ms": structure.timeout_ms,
        "secret_id": tool.secret_id,
        "secret_scope": tool.secret_scope,
        "tool_template_id": tool.tool_template_id,
        **_shared_row(tool),
    }


def _to_tool(row: Row) -> Tool:
    structure = ToolStructure(
        operation=read_operation(parse_json(row["operation"])),
        input_schema=parse_json(row["input_schema"]),
        output_schema=None if row["output_schema"] is None else parse_json(row["output_schema"]),
        effect=None if row["effect"] is None else Effect(row["effect"]),
        sensitivity=Sensitivity(row["sensitivity"]),
        timeout_ms=row["timeout_ms"],
    )
    return Tool(
        tenant_id=row["tenant_id"],
        tool_id=row["tool_id"],
        key=row["tool_key"],
        owner_id=row["owner_id"],
        service_id=row["service_id"],
        name=row["name"],
        description=row["description"],
        connection_params=parse_json(row["connection_params"]),
        structure=structure,
        secret_id=row["secret_id"],
        secret_scope=row["secret_scope"],
        tool_template_id=row["tool_template_id"],
        **_to_shared(row),
    )


def _shared_row(item: Service | Tool) -> Row:
    """Return the columns that services and tools have in common."""
    return {
        "enabled": int(item.enabled),
        "shared": int(item.shared),
        "status": item.status.value,
        "last_health_check": _micros(item.last_health_check),
        "error_message": item.error_message,
        "created_at": to_micros(item.created_at),
        "updated_at": to_micros(item.updated_at),
        "state_version": item.state_version,
    }


def _to_shared(row: Row) -> dict[str, Any]:
    checked = row["last_health_check"]
    return {
        "enabled": bool(row["enabled"]),
        "shared": bool(row["shared"]),
        "status": HealthStatus(row["status"]),
        "last_health_check": None if checked is None else from_micros(checked),
        "error_message": row["error_message"],
        "created_at": from_micros(row["created_at"]),
        "updated_at": from_micros(row["updated_at"]),
        "state_version": row["state_version"],
    }


def _template_row(template: Template) -> Row:
    return {
        "tenant_id": template.tenant_id,
        "template_id": template.template_id,
        "kind": template.kind,
        "owner_id": template.owner_id,
        "name": template.name,
        "description": template.description,
        "structure": _text(template.structure.as_json()),
        "shared": int(template.shared),
        "archived": int(template.archived),
        "created_at": to_micros(template.created_at),
        "updated_at": to_micros(template.updated_at),
        "state_version": template.state_version,
    }


def _to_template(row: Row) -> Template:
    spec = TemplateSpec.from_json(row["kind"], {"name": row["name"], **parse_json(row["structure"])})
    return Template(
        tenant_id=row["tenant_id"],
        template_id=row["template_id"],
        owner_id=row["owner_id"],
        name=row["name"],
        description=row["description"],
        structure=spec.structure,
        shared=bool(row["shared"]),
        archived=bool(row["archived"]),
        created_at=from_micros(row["created_at"]),
        updated_at=from_micros(row["updated_at"]),
        state_version=row["state_version"],
    )


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)


def _text(value: Any) -> str:
    """JSON text with members in the order they were given, which people and models read."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return canonical_json(value).decode()
