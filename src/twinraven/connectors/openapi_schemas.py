"""Converts schemas of an OpenAPI document into self-contained JSON Schemas.

OpenAPI 3.0 has a dialect of its own (`nullable`, exclusive bounds as flags), and its schemas point at one another
across the document. A tool's schema is checked by itself, so what it points at comes along as `$defs`, and nothing
outside the document is ever fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from twinraven.foundation.errors import InvalidInput

MAX_REFERENCES = 100

Direction = Literal["input", "output"]
"""What is read-only is not sent, what is write-only does not come back."""

_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLES = frozenset(
    {
        *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
_NOT_SCHEMA = frozenset({"nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly"})
_HIDDEN = {"input": "readOnly", "output": "writeOnly"}


class OutsideReference(InvalidInput):
    """Something is described in another document, which is not read."""


class OpenApiDocument:
    """A parsed document, with its local references."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def resolved(self, value: Any) -> dict[str, Any]:
        """Return an object of the document, references followed."""
        for _ in range(MAX_REFERENCES):
            found = as_object(value)
            if "$ref" not in found:
                return found
            value = self.target(found["$ref"])
        raise InvalidInput("references go round in a circle", field="$ref")

    def target(self, reference: Any) -> Any:
        """Resolve a reference inside this document."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise OutsideReference(f"{str(reference)[:100]!r} points outside the document", field="$ref")
        found: Any = self.root
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~").replace("%7B", "{").replace("%7D", "}")
            found = as_object(found).get(name)
        if found is None:
            raise InvalidInput(f"{reference[:100]!r} points at nothing", field="$ref")
        return found


class SchemaReader:
    """Rewrites the schemas of one tool in one direction and gathers what they point at."""

    def __init__(self, document: OpenApiDocument, direction: Direction) -> None:
        self._document = document
        self._direction = direction
        self._names: dict[str, str] = {}
        self.definitions: dict[str, Any] = {}

    def read(self, schema: Any) -> Any:
        """Read a schema as JSON Schema; its `$ref`s point into `definitions`."""
        if isinstance(schema, bool):
            return schema
        given = as_object(schema)
        if "$ref" in given:
            return {"$ref": f"#/$defs/{self._definition(given['$ref'])}"}
        read = {name: self._member(name, value) for name, value in given.items() if name not in _NOT_SCHEMA}
        _set_bounds(read)
        self._hide(read, given)
        return _nullable(read) if given.get("nullable") is True else read

    def _member(self, name: str, value: Any) -> Any:
        if name in _MAPS:
            return {key: self.read(member) for key, member in as_object(value).items()}
        if name in _LISTS and isinstance(value, list):
            return [self.read(item) for item in cast("list[Any]", value)]
        return self.read(value) if name in _SINGLES and isinstance(value, (dict, bool)) else value

    def _hide(self, read: dict[str, Any], given: Mapping[str, Any]) -> None:
        properties = as_object(given.get("properties"))
        mark = _HIDDEN[self._direction]
        hidden = {name for name, member in properties.items() if as_object(member).get(mark) is True}
        if isinstance(read.get("required"), list):
            read["required"] = [name for name in read["required"] if name not in hidden]

    def _definition(self, reference: Any) -> str:
        if reference in self._names:
            return self._names[reference]
        target = self._document.target(reference)
        name = str(reference).rpartition("/")[2].replace("~", "_").replace("%", "_")
        while name in self.definitions:
            name += "_"
        self._names[reference] = name
        self.definitions[name] = {}
        self.definitions[name] = self.read(target)
        return name


def as_object(value: Any) -> dict[str, Any]:
    """Return an object, or an empty one where something else stands."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _set_bounds(schema: dict[str, Any]) -> None:
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(flag) is True and bound in schema:
            schema[flag] = schema.pop(bound)
        elif isinstance(schema.get(flag), bool):
            del schema[flag]


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema and "const" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
