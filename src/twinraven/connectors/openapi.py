"""Imports an OpenAPI description as tools: one per operation, as definitions of the catalogue.

Descriptions come from elsewhere and are often wrong in places, so an operation that cannot be called by data alone
(files, cookies, odd serialisations) is skipped and named with its reason, and the others are still there. So is every
part that a tool does without.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast
from urllib.parse import urljoin

from twinraven.catalog import CatalogFile
from twinraven.connectors.openapi_parts import Inputs, Skip, read_body_into, read_output, read_parameter
from twinraven.connectors.openapi_schemas import OpenApiDocument, as_object
from twinraven.connectors.urls import parse_url
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidDefinition, InvalidInput, PolicyViolation
from twinraven.foundation.json_schema import compile_schema
from twinraven.foundation.yaml_nodes import first_unfolding, yaml_problem

MAX_DOCUMENT_BYTES = 20_000_000
MAX_DOCUMENT_VALUES = 1_000_000
MAX_DOCUMENT_LEVELS = 200

_METHODS = ("get", "head", "options", "post", "put", "patch", "delete")
_NO_METHODS = ("trace", "query", "connect")
_REASONS_SHOWN = 5
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_KEY = 120
_VARIABLE = re.compile(r"\{([^{}]+)\}")


class SkippedOperation(NamedTuple):
    """An operation that did not become a tool, and why."""

    operation: str
    reason: str


class LeftOutPart(NamedTuple):
    """A part of the description that a tool does without, and why."""

    operation: str
    part: str
    reason: str


@dataclass(frozen=True, slots=True)
class OpenApiImport:
    """The result of an import: definitions of a service and of its tools, not yet created."""

    service: dict[str, Any]
    connection_params: dict[str, Any]
    tools: tuple[dict[str, Any], ...]
    skipped: tuple[SkippedOperation, ...]
    left_out: tuple[LeftOutPart, ...] = ()

    def as_file(self, *, name: str | None = None, secret: str | None = None, prefix: str = "") -> CatalogFile:
        """Return one service and its tools, for the catalogue to make; `prefix` comes before every tool's key."""
        if not self.tools:
            raise InvalidInput(
                f"the description has no operation that can be called by data alone{_reasons(self.skipped)}",
                field="document",
                skipped=[f"{one.operation}: {one.reason}" for one in self.skipped[:100]],
            )
        if self.service["requires_secret"] and secret is None:
            raise InvalidInput(
                "secret is missing: the description asks for credentials; keep them as a secret and name it",
                field="secret",
                fix="twinraven secrets set NAME",
            )
        service = {**self.service, "name": name or self.service["name"]}
        place = {"service": service["name"], "connection_params": self.connection_params, "secret": secret}
        tools = tuple({**tool, **place, "key": prefix + tool["key"]} for tool in self.tools)
        return CatalogFile(services=(service,), tools=tools)


def read_openapi(
    document: str | bytes | Mapping[str, Any],
    *,
    endpoint: str | None = None,
    found_at: str | None = None,
    outputs: bool = True,
) -> OpenApiImport:
    """Definitions from a description in JSON, YAML or parsed; `outputs` says whether answers are held to their schema.

    `endpoint` replaces the address that the description names; one without a host is relative to where the description
    was found.
    """
    root = _parsed(document)
    version = root.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise InvalidInput("only OpenAPI 3 can be imported; convert older descriptions first", field="openapi")
    described = OpenApiDocument(root)
    address = _endpoint(described, endpoint, found_at)
    left_out: list[LeftOutPart] = []
    auth, requires_secret = _security(described, left_out)
    tools: list[dict[str, Any]] = []
    skipped: list[SkippedOperation] = []
    for place in _operations(described, skipped):
        keys, drops = {tool["key"] for tool in tools}, list[LeftOutPart]()
        try:
            tools.append(_tool(described, place, drops, taken=keys, outputs=outputs))
        except (Skip, InvalidInput) as error:
            skipped.append(SkippedOperation(place.name, str(error)))
        except RecursionError:
            skipped.append(SkippedOperation(place.name, "its schemas are nested too deeply"))
        else:
            left_out += drops
    return OpenApiImport(
        service={
            "name": str(as_object(root.get("info")).get("title") or "OpenAPI service")[:200],
            "type": "rest_api",
            "protocol": parse_url(address).origin.scheme,
            "connection_schema": _CONNECTION_SCHEMA,
            "requires_secret": requires_secret,
        },
        connection_params={"endpoint": address} if auth is None else {"endpoint": address, "auth": auth},
        tools=tuple(tools),
        skipped=tuple(skipped),
        left_out=tuple(left_out),
    )


_CONNECTION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["endpoint"],
    "properties": {
        "endpoint": {"type": "string", "format": "uri"},
        "auth": {"type": "object"},
        "idempotency_header": {"type": "string"},
        "health_path": {"type": "string"},
        "ca_certificate": {"type": "string"},
    },
    "additionalProperties": False,
}


class _Place(NamedTuple):
    path: str
    method: str
    operation: dict[str, Any]
    shared: dict[str, Any]
    """What all operations of the path have in common."""

    @property
    def name(self) -> str:
        return f"{self.method.upper()} {self.path}"


def _operations(described: OpenApiDocument, skipped: list[SkippedOperation]) -> Iterator[_Place]:
    for path, item in as_object(described.root.get("paths")).items():
        try:
            shared = described.resolved(item)
        except InvalidInput as error:
            skipped.append(SkippedOperation(f"every operation of {path}", error.message))
            continue
        for method in _METHODS:
            operation = as_object(shared.get(method))
            if operation:
                yield _Place(path, method, operation, shared)
        unknown = [method for method in _NO_METHODS if as_object(shared.get(method))]
        skipped += [SkippedOperation(f"{method.upper()} {path}", "tools have no such method") for method in unknown]


def _parameters(described: OpenApiDocument, *levels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all parameters; those of the operation replace those of its path."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for level in levels:
        listed: Any = level.get("parameters")
        for item in cast("list[Any]", listed) if isinstance(listed, list) else []:
            parameter = described.resolved(item)
            found[str(parameter.get("name")), str(parameter.get("in"))] = parameter
    return list(found.values())


def _tool(
    described: OpenApiDocument, place: _Place, drops: list[LeftOutPart], *, taken: Collection[str], outputs: bool
) -> dict[str, Any]:
    """Return one operation as a tool; what it does without is added to `drops`."""
    inputs = Inputs(described)
    for parameter in _parameters(described, place.shared, place.operation):
        read_parameter(inputs, parameter)
    if "requestBody" in place.operation:
        read_body_into(inputs, described.resolved(place.operation["requestBody"]), method=place.method)
    if place.operation.get("servers") or place.shared.get("servers"):
        inputs.left_out.append(("servers", "are its own; it is called at the service's address"))
    operation: dict[str, Any] = {
        "type": "rest_call",
        "method": place.method.upper(),
        "path": _path(place.path, inputs.path),
        **{name: value for name, value in inputs.parts().items() if value},
    }
    tool: dict[str, Any] = {
        "key": _key(place, taken),
        "name": str(place.operation.get("summary") or f"{place.method.upper()} {place.path}")[:200],
        "description": _description(place),
        "operation": operation,
        "input_schema": inputs.schema(),
    }
    compile_schema(tool["input_schema"])
    output = _output(described, place, inputs) if outputs else None
    drops += [LeftOutPart(place.name, part, reason) for part, reason in inputs.left_out]
    return tool if output is None else {**tool, "output_schema": output}


def _output(described: OpenApiDocument, place: _Place, inputs: Inputs) -> dict[str, Any] | None:
    """Return the output schema, or None where the schema of answers cannot be used: the tool does without."""
    try:
        schema = read_output(described, as_object(place.operation.get("responses")))
        return schema if schema is not None and compile_schema(schema) else None
    except InvalidInput as error:
        inputs.left_out.append(("the schema of its answers", error.message))
        return None


def _path(path: str, variables: Mapping[str, str]) -> str:
    def variable(hit: re.Match[str]) -> str:
        if hit[1] not in variables:
            raise Skip(f"the path names {hit[1]!r}, which no parameter describes")
        return "{{" + variables[hit[1]] + "}}"

    filled = _VARIABLE.sub(variable, path)
    if not path.startswith("/") or "?" in path or "#" in path:
        raise Skip("the path is not one")
    return filled


def _key(place: _Place, taken: Collection[str]) -> str:
    stated = place.operation.get("operationId")
    words = stated if isinstance(stated, str) and stated.strip() else f"{place.method}_{place.path}"
    plain = _NOT_IN_KEY.sub("_", words).strip("_")[:_LONGEST_KEY] or place.method
    base = plain if not plain[0].isdigit() else f"_{plain}"
    key, number = base, 1
    while key in taken:
        number += 1
        key = f"{base}_{number}"
    return key


def _description(place: _Place) -> str:
    said = [str(place.operation[name]).strip() for name in ("summary", "description") if place.operation.get(name)]
    return "\n\n".join(dict.fromkeys(said))[:10_000] or f"{place.method.upper()} {place.path}"


def _endpoint(described: OpenApiDocument, stated: str | None, found_at: str | None) -> str:
    """Return the address given, or the first server's with its variables at their defaults."""
    address = stated
    if address is None:
        servers: Any = described.root.get("servers")
        first = as_object(cast("list[Any]", servers)[0]) if isinstance(servers, list) and servers else {}
        variables = as_object(first.get("variables"))
        address = _VARIABLE.sub(
            lambda hit: str(as_object(variables.get(hit[1])).get("default", hit[0])), str(first.get("url", ""))
        )
        address = address if found_at is None else _joined(found_at, address or "/")
    try:
        parse_url(address)
    except (InvalidDefinition, PolicyViolation) as error:
        raise InvalidInput(
            f"the description names no address that can be called ({error.message}); state an endpoint",
            field="endpoint",
        ) from None
    return address


def _joined(found_at: str, address: str) -> str:
    try:
        return urljoin(found_at, address)
    except ValueError:
        return address


def _security(described: OpenApiDocument, left_out: list[LeftOutPart]) -> tuple[dict[str, str] | None, bool]:
    """Return how the description's first security scheme shows a secret, and whether it is optional."""
    listed: Any = described.root.get("security")
    alternatives = [as_object(item) for item in cast("list[Any]", listed)] if isinstance(listed, list) else []
    schemes = as_object(as_object(described.root.get("components")).get("securitySchemes"))
    for alternative in alternatives:
        for name in alternative:
            try:
                auth = _auth(described.resolved(schemes.get(name)))
            except InvalidInput:
                continue
            if auth is not None:
                return auth, {} not in alternatives
    asked = dict.fromkeys(name for alternative in alternatives for name in alternative)
    reason = "shows who asks in a way that tools cannot; calls go without"
    left_out += [LeftOutPart("every operation", f"security scheme {name!r}", reason) for name in asked]
    return None, False


def _auth(scheme: Mapping[str, Any]) -> dict[str, str] | None:
    kind, place, name = scheme.get("type"), scheme.get("in"), scheme.get("name")
    if kind == "apiKey" and place in ("header", "query") and isinstance(name, str):
        return {"type": str(place), "name": name}
    if kind == "http" and str(scheme.get("scheme")).lower() == "basic":
        return {"type": "basic"}
    return {"type": "bearer"} if kind in ("http", "oauth2", "openIdConnect") else None


def _reasons(skipped: Sequence[SkippedOperation]) -> str:
    """Why nothing is left, as far as a sentence can carry it."""
    told = "; ".join(f"{one.operation}: {one.reason}" for one in skipped[:_REASONS_SHOWN])
    more = len(skipped) - _REASONS_SHOWN
    return f": {told}{f'; and {more} more' if more > 0 else ''}" if told else ": it describes none"


def _parsed(document: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(document, Mapping):
        _refuse_unfolding(dict(document))
        return dict(document)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise InvalidInput(f"the description is larger than {MAX_DOCUMENT_BYTES} bytes", field="document")
    try:
        found = parse_json(document, field="document")
    except InvalidInput:
        found = _parsed_yaml(document)
    if not isinstance(found, dict):
        raise InvalidInput("the description must be an object in JSON or YAML", field="document")
    _refuse_unfolding(found)
    return cast("dict[str, Any]", found)


def _parsed_yaml(document: str | bytes) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses aliases and merges that stand for too much, before it builds any value."""

        def get_single_node(self) -> yaml.Node | None:
            node = super().get_single_node()
            if node is not None and first_unfolding(node, values=MAX_DOCUMENT_VALUES, levels=MAX_DOCUMENT_LEVELS):
                raise _unfolding()
            return node

    try:
        # Loader is a SafeLoader: it makes nothing but plain values.
        return yaml.load(document, Loader)  # noqa: S506
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = f"the description is neither JSON nor YAML: {yaml_problem(error)}"
        raise InvalidInput(why, field="document") from None


def _unfolding() -> InvalidInput:
    bounds = f"{MAX_DOCUMENT_VALUES} values or {MAX_DOCUMENT_LEVELS} levels"
    return InvalidInput(f"the description unfolds into more than {bounds}", field="document")


def _refuse_unfolding(root: Any) -> None:
    """YAML can name one thing in a thousand places; what is small on disk must not become endless when followed."""
    pending, seen = [root], 0
    while pending:
        item = pending.pop()
        seen += 1
        if seen > MAX_DOCUMENT_VALUES:
            raise _unfolding()
        if isinstance(item, dict):
            pending.extend(cast("dict[Any, Any]", item).values())
        elif isinstance(item, list):
            pending.extend(cast("list[Any]", item))
