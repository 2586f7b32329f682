"""Spells the fields of answers in camelCase where a request asks for it (`?case=camel`).

The schema of an answer says which names are fields and which are data: what a schema lists by name is spelt anew, and
what it leaves open (a connection schema, parameters, facets) is given as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from twinraven.foundation.errors import InvalidInput
from twinraven.serving.contract import JsonSchema, Route

_PARTS: Final = "#/components/schemas/"
_CASES: Final = {b"camel": True, b"snake": False}
_ANYTHING: Final[JsonSchema] = {}
_CHOICES: Final = ("allOf", "anyOf", "oneOf")

Components = Callable[[], Mapping[str, Any]]


def camel_case(name: str) -> str:
    """Return a name in snake_case as camelCase."""
    first, *rest = name.split("_")
    return "".join([first, *(word.capitalize() for word in rest)])


def take_case(route: Route, query: bytes) -> tuple[bytes, bool]:
    """Take `case` out of a query string; gives the rest, and whether fields are to be in camelCase."""
    if not query or b"case=" not in query or route.answer is None or route.media != "application/json":
        return query, False
    pairs = query.split(b"&")
    stated = [pair.partition(b"=")[2] for pair in pairs if pair.startswith(b"case=")]
    if len(stated) > 1 or not _CASES.keys() >= set(stated):
        raise InvalidInput("case must be camel or snake, and given once", field="case")
    return b"&".join(pair for pair in pairs if not pair.startswith(b"case=")), any(_CASES[each] for each in stated)


class CamelCase:
    """Spells answers by their schemas; `components` are looked up when the first answer is asked for so."""

    def __init__(self, components: Components) -> None:
        self._components = components

    def spell(self, value: Any, schema: JsonSchema) -> Any:
        """Return the value with the fields that the schema lists in camelCase."""
        if isinstance(value, list):
            items: JsonSchema = next((part["items"] for part in self._parts(schema) if "items" in part), _ANYTHING)
            return [self.spell(each, items) for each in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        fields: dict[str, JsonSchema] = {}
        for part in self._parts(schema):
            fields.update(part.get("properties", {}))
        return {
            camel_case(name) if name in fields else name: self.spell(each, fields[name]) if name in fields else each
            for name, each in cast("dict[str, Any]", value).items()
        }

    def _parts(self, schema: JsonSchema) -> Iterator[JsonSchema]:
        """Yield a schema and all that it is made of, or may be."""
        if "$ref" in schema:
            yield from self._parts(self._components().get(str(schema["$ref"]).removeprefix(_PARTS), _ANYTHING))
            return
        yield schema
        for word in _CHOICES:
            for each in cast("list[JsonSchema]", schema.get(word, [])):
                yield from self._parts(each)
