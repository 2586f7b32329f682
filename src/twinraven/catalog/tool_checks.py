"""Validates a tool against its operation and its service; every error names what does not fit."""

from __future__ import annotations

from typing import Any, Final, cast
from urllib.parse import urlsplit

from twinraven.catalog.operations import OPERATIONS, Operation
from twinraven.catalog.service_model import DISABLED, Service, ServiceType, WireProtocol
from twinraven.catalog.tool_model import Tool, ToolStructure
from twinraven.foundation.errors import InvalidDefinition, InvalidInput, InvalidSchema

OWNERS_ONLY: Final = (
    "runs with its owner's secret, which serves its owner alone; make a tool of your own with a secret of yours"
)
_SCHEMES: Final = {
    WireProtocol.BOLT: ("bolt", "neo4j"),
    WireProtocol.BOLT_TLS: ("bolt+s", "neo4j+s"),
    WireProtocol.HTTP: ("http",),
    WireProtocol.HTTPS: ("https",),
    WireProtocol.SSE: ("http", "https"),
}


def check_structure(structure: ToolStructure) -> None:
    """Raise unless the schemas are schemas and the inputs are what the operation uses, no more and no less."""
    _check_schema(structure.input_schema, "input_schema")
    if structure.output_schema is not None:
        _check_schema(structure.output_schema, "output_schema")
    if structure.input_schema.get("type", "object") != "object":
        raise InvalidSchema('input_schema must describe an object; give it "type": "object"', field="input_schema")
    _check_variables(structure.operation, structure.input_schema)


def check_fit(operation: Operation, type: ServiceType) -> None:
    """Raise unless this type of service takes this type of operation."""
    wanted = OPERATIONS[type]
    if operation.type is not wanted:
        raise InvalidDefinition(
            f"operation.type: a {type} takes {wanted}, not {operation.type}",
            field="operation.type",
            service_type=type.value,
        )


def fit_params(service: Service, params: dict[str, Any]) -> dict[str, Any]:
    """Return the connection parameters with the schema's defaults filled in, or an error that names the parameter."""
    from twinraven.foundation.json_schema import compile_schema

    schema = compile_schema(service.structure.connection_schema)
    try:
        filled = schema.fill(params)
        schema.check(filled, field="connection_params")
    except InvalidInput as error:
        raise InvalidDefinition(error.message, **error.details) from None
    _check_endpoint(filled.get("endpoint"), service.structure.protocol)
    return filled


def why_stopped(tool: Tool, service: Service) -> str | None:
    """Why a tool cannot run whatever a health check says; None where it can."""
    if not tool.enabled:
        return DISABLED
    if tool.owner_id != service.owner_id and not service.shared:
        return f"the service {service.service_id} is not shared any more"
    try:
        fit_params(service, tool.connection_params)
    except InvalidDefinition as error:
        version = service.schema_version
        return f"the service's connection schema (version {version}) does not accept it: {error.message}"
    return None


def why_barred(tool: Tool, service: Service) -> str | None:
    """Return why a tool cannot be called until its definition changes; None where only its health is at fault."""
    why = why_stopped(tool, service)
    return f"its service {service.name!r} is disabled" if why is None and not service.enabled else why


def _check_schema(schema: dict[str, Any], field: str) -> None:
    from twinraven.foundation.json_schema import compile_schema

    try:
        compile_schema(schema)
    except InvalidSchema as error:
        raise InvalidSchema(f"{field}: {error.message}", field=field) from None


def _check_variables(operation: Operation, input_schema: dict[str, Any]) -> None:
    if operation.variables is None:
        return
    properties = input_schema.get("properties", {})
    declared = list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []
    unknown = [name for name in operation.variables if name not in declared]
    unused = [name for name in declared if name not in operation.variables]
    problems = [
        *([f"the operation uses {', '.join(unknown)}, which input_schema does not declare"] if unknown else []),
        *([f"input_schema declares {', '.join(unused)}, which the operation does not use"] if unused else []),
    ]
    if problems:
        raise InvalidDefinition("; ".join(problems), field="input_schema.properties", unknown=unknown, unused=unused)


def _check_endpoint(endpoint: object, protocol: WireProtocol) -> None:
    """An address must speak the service's protocol, and must not carry a password."""
    schemes = _SCHEMES.get(protocol)
    if not isinstance(endpoint, str) or schemes is None:
        return
    try:
        address = urlsplit(endpoint)
    except ValueError:
        raise _invalid_endpoint("is not an address") from None
    if address.scheme not in schemes:
        raise _invalid_endpoint(f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    if "@" in address.netloc:
        raise _invalid_endpoint("has credentials in it; keep them as a secret and bind the tool to that")


def _invalid_endpoint(problem: str) -> InvalidDefinition:
    return InvalidDefinition(f"connection_params.endpoint {problem}", field="connection_params.endpoint")
