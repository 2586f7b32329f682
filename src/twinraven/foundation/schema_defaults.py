"""Fills in the defaults of a JSON Schema.

Validators only read `default`; a call needs the value. The schema is read once into a tree of places where a default
can be reached (through properties, items, allOf and local references, also recursive ones). Filling walks the value and
that tree together and copies nothing but the objects it changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from twinraven.foundation.canonical import MAX_DEPTH, canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput, InvalidSchema
from twinraven.foundation.schema_document import SchemaDocument, SubSchema, only_schemas

MAX_NESTED_DEFAULTS = 10_000
_MAX_PLACES = 10_000


class _Default(NamedTuple):
    """A default as text, so that every use gets a copy of its own, and the identity of the schema that states it."""

    text: bytes
    origin: int


_Trail = frozenset[int]


@dataclass(slots=True, eq=False)
class _Place:
    """What is known of one place in a value."""

    defaults: dict[str, _Default] = field(default_factory=dict[str, _Default])
    properties: dict[str, _Place] = field(default_factory=dict[str, "_Place"])
    leading: list[_Place] = field(default_factory=list["_Place"])
    items: _Place | None = None

    def below(self) -> list[_Place]:
        return [*self.properties.values(), *self.leading, *([self.items] if self.items else [])]


class Defaults:
    """The defaults of one schema; `fill` gives the value itself when there is nothing to add."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._places: dict[frozenset[int], _Place] = {}
        root = self._place([document.root])
        fruitful = self._fruitful()
        self._root = root if root in fruitful else None
        for place in fruitful:
            place.properties = {name: child for name, child in place.properties.items() if child in fruitful}
            place.items = place.items if place.items in fruitful else None

    def fill(self, value: Any) -> Any:
        return value if self._root is None else _Filling().fill(self._root, value, 0, frozenset())

    def _place(self, schemas: list[SubSchema]) -> _Place:
        """Return the place that all of these schemas describe at once."""
        merged = self._in_place(schemas)
        key = frozenset(id(schema) for schema in merged)
        if key in self._places:
            return self._places[key]
        if len(self._places) >= _MAX_PLACES:
            raise InvalidSchema(f"schema describes more than {_MAX_PLACES} places; flatten its references")
        place = self._places[key] = _Place()
        properties: dict[str, list[SubSchema]] = {}
        leading: list[list[SubSchema]] = []
        items: list[SubSchema] = []
        for schema in merged:
            _gather_properties(schema, place, properties)
            _gather_items(schema, leading, items)
        place.properties = {name: self._place(found) for name, found in properties.items()}
        place.leading = [self._place(found) for found in leading]
        place.items = self._place(items) if items else None
        return place

    def _in_place(self, schemas: list[SubSchema]) -> list[SubSchema]:
        """These schemas and all that apply to the same value with them."""
        merged: dict[int, SubSchema] = {}
        pending = schemas[::-1]
        while pending:
            schema = pending.pop()
            if id(schema) not in merged:
                merged[id(schema)] = schema
                pending += [*self._document.targets(schema), *only_schemas(schema.get("allOf", []))]
        return list(merged.values())

    def _fruitful(self) -> set[_Place]:
        """Return the places from which a default can be reached."""
        fruitful = {place for place in self._places.values() if place.defaults}
        grown = True
        while grown:
            more = [place for place in self._places.values() if not fruitful.isdisjoint(place.below())]
            grown = not fruitful.issuperset(more)
            fruitful.update(more)
        return fruitful


class _Filling:
    """One pass over a value; counts what defaults inside defaults add, because they can multiply."""

    def __init__(self) -> None:
        self._nested = 0

    def fill(self, place: _Place, value: Any, depth: int, trail: _Trail) -> Any:
        if depth > MAX_DEPTH:
            raise InvalidInput(f"value is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            return self._fill_object(place, cast("dict[str, Any]", value), depth, trail)
        if not isinstance(value, list):
            return value
        items = filled = cast("list[Any]", value)
        for index, item in enumerate(items):
            child = place.leading[index] if index < len(place.leading) else place.items
            if child is None:
                break
            done = self.fill(child, item, depth + 1, trail)
            if done is not item:
                filled = list(items) if filled is items else filled
                filled[index] = done
        return filled

    def _fill_object(self, place: _Place, members: dict[str, Any], depth: int, trail: _Trail) -> dict[str, Any]:
        filled = members
        for name, child in place.properties.items():
            if name in members:
                done = self.fill(child, members[name], depth + 1, trail)
                if done is not members[name]:
                    filled = dict(members) if filled is members else filled
                    filled[name] = done
        for name, default in place.defaults.items():
            # A default that contains itself would be filled in for ever; it stops at its second occurrence.
            if name not in members and default.origin not in trail:
                filled = dict(members) if filled is members else filled
                filled[name] = self._insert(default, place.properties.get(name), depth, trail)
        return filled

    def _insert(self, default: _Default, child: _Place | None, depth: int, trail: _Trail) -> Any:
        if trail:
            self._nested += 1
            if self._nested > MAX_NESTED_DEFAULTS:
                raise InvalidInput(f"the schema's defaults contain each other more than {MAX_NESTED_DEFAULTS} times")
        value = parse_json(default.text)
        return value if child is None else self.fill(child, value, depth + 1, trail | {default.origin})


def _gather_properties(schema: SubSchema, place: _Place, properties: dict[str, list[SubSchema]]) -> None:
    members = schema.get("properties")
    if not isinstance(members, dict):
        return
    for name, member in cast("SubSchema", members).items():
        if isinstance(member, dict):
            described = cast("SubSchema", member)
            properties.setdefault(name, []).append(described)
            if "default" in described:
                place.defaults.setdefault(name, _Default(canonical_json(described["default"]), id(described)))


def _gather_items(schema: SubSchema, leading: list[list[SubSchema]], items: list[SubSchema]) -> None:
    described = schema.get("items")
    listed = cast("list[Any]", described if isinstance(described, list) else schema.get("prefixItems", []))
    for index, item in enumerate(listed):
        if index == len(leading):
            leading.append([])
        leading[index] += only_schemas(item)
    if isinstance(described, dict):
        items.append(cast("SubSchema", described))
