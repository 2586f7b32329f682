"""Reads the parts of an OpenAPI operation: parameters, body, responses.

Each becomes a variable of the tool's input and a place in the request where that variable goes. What a template cannot
say (a cookie, an object spread over the query) raises `Skip`, unless the caller may leave it out: then it is left out,
and noted with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from twinraven.connectors.openapi_schemas import OpenApiDocument, SchemaReader, as_object

_BODY = "body"
_FORM = "application/x-www-form-urlencoded"
_NOT_IN_VARIABLE = re.compile(r"[^A-Za-z0-9_-]+")
_WITHOUT_BODY = frozenset({"get", "head", "options"})
_RESERVED = frozenset({"this", "else"})
_JSON = re.compile(r"application/(?:[\w.-]+\+)?json")
# OpenAPI itself says that the first three are not parameters; the others belong to the connection.
_NOT_PARAMETERS = frozenset(
    {
        *("accept", "content-type", "authorization", "cookie", "host", "content-length", "transfer-encoding"),
        *("connection", "upgrade", "proxy-authorization"),
    }
)


class Skip(Exception):
    """This operation cannot become a tool; the text says why."""


class Inputs:
    """The inputs of an operation, collected part by part."""

    def __init__(self, document: OpenApiDocument) -> None:
        self.document = document
        self.reader = SchemaReader(document, "input")
        self.path: dict[str, str] = {}
        self.left_out: list[tuple[str, str]] = []
        """Parts that callers cannot give, each with the reason."""
        self._query: dict[str, str] = {}
        self._headers: dict[str, str] = {}
        self._body: str | None = None
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []

    def add(self, place: str, name: str, schema: Any, *, required: bool) -> str:
        """Return a variable for something in the request; two of one name are told apart by their places."""
        plain = _NOT_IN_VARIABLE.sub("_", name) or place
        variable = f"{place}_{plain}" if plain in self._properties or plain in _RESERVED else plain
        if variable in self._properties:
            raise Skip(f"two parameters are named {name!r}")
        self._properties[variable] = schema
        if required:
            self._required.append(variable)
        return variable

    def put(self, place: str, name: str, variable: str) -> None:
        places = {"path": self.path, "query": self._query, "header": self._headers}
        places[place][name] = variable if place == "path" else "{{" + variable + "}}"

    def put_body(self, variable: str, content_type: str) -> None:
        self._body = "{{" + variable + "}}"
        if content_type != "application/json":
            self._headers["Content-Type"] = content_type

    def parts(self) -> dict[str, Any]:
        return {"query": self._query, "headers": self._headers, "body": self._body}

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": self._properties,
            "required": self._required,
            "additionalProperties": False,
        }
        return {**schema, "$defs": self.reader.definitions} if self.reader.definitions else schema


def read_parameter(inputs: Inputs, parameter: Mapping[str, Any]) -> None:
    """Take one parameter up."""
    name, place = str(parameter.get("name")), str(parameter.get("in"))
    required = parameter.get("required") is True or place == "path"
    if place == "header" and name.lower() in _NOT_PARAMETERS:
        inputs.left_out.append((name, "is a header that the connector sets"))
        return
    problem = _problem(inputs.document, parameter, place)
    if problem is not None:
        if required:
            raise Skip(f"the parameter {name!r} {problem}")
        inputs.left_out.append((name, problem))
        return
    schema = inputs.reader.read(_parameter_schema(parameter))
    if _is_joined(parameter, place):
        schema = {"type": "string", "description": "values separated by commas"}
    if isinstance(schema, dict) and parameter.get("description"):
        schema = {**schema, "description": str(parameter["description"])[:2_000]}
    inputs.put(place, name, inputs.add(place, name, schema, required=required))


def read_body_into(inputs: Inputs, body: Mapping[str, Any], *, method: str) -> None:
    """Take the body up: JSON if there is a choice, a form or text otherwise.

    One that only a file or the like could fill makes the operation useless, whether or not it may be left out.
    """
    content = as_object(body.get("content"))
    required = body.get("required") is True
    if method in _WITHOUT_BODY:
        if required:
            raise Skip(f"it needs a body, which a {method.upper()} of ours has not")
        inputs.left_out.append((_BODY, f"is not sent with a {method.upper()}"))
        return
    kinds = sorted(content, key=lambda kind: (_rank(kind), kind))
    if not kinds or _rank(kinds[0]) > 2:
        raise Skip(f"the body is {', '.join(sorted(content)) or 'not described'}, which is not JSON, form or text")
    kind = kinds[0]
    schema: Any = inputs.reader.read(as_object(content[kind]).get("schema") or {})
    inputs.put_body(inputs.add(_BODY, _BODY, schema, required=required), kind.partition(";")[0].strip())


def read_output(document: OpenApiDocument, responses: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read the schema of every good answer, where all of them are described; no answer at all counts as null."""
    reader = SchemaReader(document, "output")
    schemas: list[Any] = []
    for status, response in responses.items():
        if not str(status).startswith("2"):
            continue
        content = as_object(document.resolved(response).get("content"))
        kind = next((kind for kind in content if _rank(kind) == 0), None)
        if content and (kind is None or "schema" not in as_object(content[kind])):
            return None
        schemas.append({"type": "null"} if kind is None else reader.read(content[kind]["schema"]))
    if not schemas or schemas == [{"type": "null"}]:
        return None
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {**schema, "$defs": reader.definitions} if reader.definitions else dict(schema)


def _rank(kind: str) -> int:
    plain = kind.partition(";")[0].strip().lower()
    if plain == "application/json":
        return 0
    if _JSON.fullmatch(plain):
        return 0 if "patch" not in plain else 1
    return 1 if plain == _FORM else 2 if plain == "text/plain" else 3


def _parameter_schema(parameter: Mapping[str, Any]) -> Any:
    content = as_object(parameter.get("content"))
    return as_object(next(iter(content.values()))).get("schema", {}) if content else parameter.get("schema", {})


def _problem(document: OpenApiDocument, parameter: Mapping[str, Any], place: str) -> str | None:
    if place not in ("path", "query", "header"):
        return f"goes into the {place}, which a tool cannot fill"
    style = parameter.get("style", "form" if place == "query" else "simple")
    if style != ("form" if place == "query" else "simple"):
        return f"is written in the style {style!r}, which a tool cannot write"
    kind = document.resolved(_parameter_schema(parameter)).get("type")
    if kind == "object" and "content" not in parameter:
        return "is an object, which a tool cannot spread"
    return "is a list, which a tool cannot join" if kind == "array" and place == "path" else None


def _is_joined(parameter: Mapping[str, Any], place: str) -> bool:
    """Return whether a list is written as one text; the caller then writes it so."""
    is_list = as_object(_parameter_schema(parameter)).get("type") == "array"
    return is_list and (place == "header" or parameter.get("explode") is False)
