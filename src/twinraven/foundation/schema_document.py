"""Walks a JSON Schema as a document: its subschemas, the targets of its references, and the cost of checking it.

Schemas arrive from foreign servers. Two short ones can stall a validator that holds the interpreter: references that
double at every step (thirty of them are a billion checks), and references in a chain too long to follow. So the
work and the depth that a schema can cause are counted here, in linear time, before anything compiles it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple, cast

from twinraven.foundation.errors import InvalidSchema
from twinraven.foundation.pattern_cost import PatternCost, pattern_cost, unread

MAX_SCHEMA_DEPTH = 200
MAX_SCHEMA_WORK = 100_000
MAX_PATTERN_TEXT = 100_000
"""Characters of patterns that are read; of what comes after them the worst is assumed."""

SubSchema = dict[str, Any]

MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
SINGLE_OR_LIST = (
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "prefixItems", "additionalItems", "contains"),
    *("additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_NEVER_EVALUATED = frozenset({"$defs", "definitions"})
# One value meets at most one of these, so the dearest counts and not the sum.
_EXCLUSIVE = frozenset({"properties", "prefixItems"})
_BRANCHES = frozenset({"anyOf", "oneOf"})
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_COSTLY = _UNEVALUATED | {"uniqueItems"}
_COMPARISON = 16
"""How many checks a comparison of two objects costs, or one of a number that is large or has a fraction."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_FRACTION = 64
"""How many checks a comparison with a fraction costs: it is made exactly."""
_DIVISION = 250
_WORD = 64
"""Characters of a value that an error names in about the time of one check."""
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = ("$id", "$anchor", "$dynamicAnchor")


class SchemaCost(NamedTuple):
    """The cost of checking a schema: checks along one path into a value, levels, and recursive references.

    `mentions` counts what errors about one value can name besides: properties that are required, values of an enum.
    `branching` is the part of work and mentions below `anyOf` and `oneOf`: of these an explanation holds every error of
    every branch, where it otherwise ends with the first. `is_costly` says that the work grows with the members of one
    value; `comparisons` is the work of comparing it with objects and lists of an enum, which is done one by one, and
    of exact arithmetic.
    `patterns` is the cost of all regular expressions that one text can meet.
    """

    work: int = 0
    depth: int = 0
    returns: int = 0
    branching: int = 0
    is_costly: bool = False
    mentions: int = 0
    comparisons: int = 0
    patterns: PatternCost | None = None

    def explanation_cost(self, values: int, depth: int) -> int:
        """Bound the errors that explaining why a value does not fit can make, for so many values so deep."""
        return self.branching * values * max(self.returns, 1) ** depth


class SchemaDocument:
    """A schema that is an object, with its references resolved inside it."""

    def __init__(self, root: SubSchema) -> None:
        self.root = root
        self._named = dict(self._names())
        self._readable = MAX_PATTERN_TEXT
        self._costs: dict[int, SchemaCost] = {}
        self.cost = self._measure(root, set(), 1)
        """Raises if validating a value could take too many steps."""

    def targets(self, schema: SubSchema) -> list[SubSchema]:
        """Return the targets of one schema's references, as far as they are in this document."""
        found = [self._target(schema[keyword]) for keyword in REFERENCES if isinstance(schema.get(keyword), str)]
        return [target for target in found if target is not None]

    def cost_of(self, schema: Any) -> SchemaCost | None:
        """Return the cost of a part of the schema; None of what is no part, or is true or false."""
        return self._costs.get(id(schema))

    def _measure(self, schema: SubSchema, active: set[int], level: int) -> SchemaCost:
        """Return the extent below a schema; a reference back to one under way costs nothing, validators remember it."""
        if id(schema) in self._costs:
            return self._costs[id(schema)]
        if id(schema) in active:
            return SchemaCost(returns=1)
        active.add(id(schema))
        work, depth, returns, branching = 1, 0, 0, 0
        mentions, comparisons = _mentioned(schema), _compared(schema)
        is_costly = not _COSTLY.isdisjoint(schema)
        patterns = [self._read(pattern) for pattern in _patterns(schema)]
        for keyword, children in [*_children(schema), ("$ref", self.targets(schema))]:
            if level > MAX_SCHEMA_DEPTH:
                raise _too_deep()
            extents = [self._measure(child, active, level + 1) for child in children]
            if extents and keyword not in _NEVER_EVALUATED:
                combine = max if keyword in _EXCLUSIVE else sum
                work += combine(extent.work for extent in extents)
                returns += combine(extent.returns for extent in extents)
                mentions += combine(extent.mentions for extent in extents)
                comparisons += combine(extent.comparisons for extent in extents)
                branching += combine(
                    extent.work + extent.mentions if keyword in _BRANCHES else extent.branching for extent in extents
                )
                is_costly = is_costly or any(extent.is_costly for extent in extents)
                patterns += _together(keyword, [extent.patterns for extent in extents if extent.patterns])
                depth = max(depth, *(extent.depth for extent in extents))
        active.discard(id(schema))
        if not _UNEVALUATED.isdisjoint(schema):
            # What was evaluated is found out by going through everything beside the keyword once more.
            work *= 2
        if work > MAX_SCHEMA_WORK:
            raise InvalidSchema(f"schema's references unfold into more than {MAX_SCHEMA_WORK} checks; flatten them")
        if depth >= MAX_SCHEMA_DEPTH:
            raise _too_deep()
        met = reduce(PatternCost.plus, patterns) if patterns else None
        measured = SchemaCost(work, depth + 1, returns, branching, is_costly, mentions, comparisons, met)
        self._costs[id(schema)] = measured
        return measured

    def _read(self, pattern: str) -> PatternCost:
        self._readable -= len(pattern)
        return pattern_cost(pattern) if self._readable >= 0 else unread(pattern)

    def _names(self) -> Iterator[tuple[str, SubSchema]]:
        pending: list[Any] = [self.root]
        while pending:
            item = pending.pop()
            if isinstance(item, dict):
                schema = cast("SubSchema", item)
                for keyword in _NAMES:
                    if isinstance(schema.get(keyword), str):
                        yield (schema[keyword] if keyword == "$id" else f"#{schema[keyword]}"), schema
                pending.extend(schema.values())
            elif isinstance(item, list):
                pending.extend(cast("list[Any]", item))

    def _target(self, reference: str) -> SubSchema | None:
        if reference != "#" and not reference.startswith("#/"):
            return self._named.get(reference)
        found: Any = self.root
        for part in _decode(reference).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = cast("SubSchema", found).get(key)
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(cast("list[Any]", found)):
                found = cast("list[Any]", found)[int(key)]
            else:
                return None
        return cast("SubSchema", found) if isinstance(found, dict) else None


def written_references(root: Any) -> Iterator[tuple[str, list[str | int]]]:
    """Yield every `$ref` in a schema and where it is written."""
    pending: list[tuple[Any, list[str | int]]] = [(root, [])]
    while pending:
        item, path = pending.pop()
        if isinstance(item, dict):
            members = cast("SubSchema", item)
            if isinstance(members.get("$ref"), str):
                yield members["$ref"], [*path, "$ref"]
            pending.extend((member, [*path, key]) for key, member in members.items())
        elif isinstance(item, list):
            pending.extend((member, [*path, index]) for index, member in enumerate(cast("list[Any]", item)))


def _children(schema: SubSchema) -> Iterator[tuple[str, list[SubSchema]]]:
    for keyword in MAPS:
        members = schema.get(keyword)
        if isinstance(members, dict):
            yield keyword, only_schemas(list(cast("SubSchema", members).values()))
    for keyword in SINGLE_OR_LIST:
        if keyword in schema:
            yield keyword, only_schemas(schema[keyword])


def _patterns(schema: SubSchema) -> list[str]:
    """Return the regular expressions that a value, or the name of a member of it, is matched with here."""
    names: Any = schema.get("patternProperties")
    found: list[Any] = [schema.get("pattern"), *(cast("SubSchema", names) if isinstance(names, dict) else ())]
    return [pattern for pattern in found if isinstance(pattern, str)]


def _together(keyword: str, costs: list[PatternCost]) -> list[PatternCost]:
    """Return the costs that one text can meet below a keyword: of members that exclude each other the dearest ones."""
    if keyword not in _EXCLUSIVE or not costs:
        return costs
    return [PatternCost(*(max(kind) for kind in zip(*costs, strict=True)))]


def _mentioned(schema: SubSchema) -> int:
    """Count what the errors of one value can name: each required property is an error, each lists the whole enum."""
    depending: Any = schema.get("dependentRequired")
    lists: list[Any] = [schema.get("required"), *(depending.values() if isinstance(depending, dict) else ())]
    names = sum(len(cast("list[Any]", each)) for each in lists if isinstance(each, list))
    return names + sum(1 + len(str(each)) // _WORD for each in _wanted_values(schema))


def _compared(schema: SubSchema) -> int:
    """Weigh the comparisons of one value with limits and with objects and lists of an enum; others are looked up."""
    wanted = sum(_COMPARISON for each in _wanted_values(schema) if isinstance(each, (dict, list)))
    limits = [schema[keyword] for keyword in _BOUNDS if keyword in schema]
    divisions = _DIVISION if "multipleOf" in schema else 0
    return wanted + divisions + sum(_FRACTION if isinstance(limit, float) else _COMPARISON for limit in limits)


def _wanted_values(schema: SubSchema) -> list[Any]:
    enum: Any = schema.get("enum")
    listed = cast("list[Any]", enum) if isinstance(enum, list) else []
    return [*listed, schema["const"]] if "const" in schema else listed


def only_schemas(found: Any) -> list[SubSchema]:
    """Return the object schemas in a keyword that takes one schema or a list of them."""
    items: list[Any] = cast("list[Any]", found) if isinstance(found, list) else [found]
    return [cast("SubSchema", item) for item in items if isinstance(item, dict)]


def _too_deep() -> InvalidSchema:
    return InvalidSchema(f"schema is nested deeper than {MAX_SCHEMA_DEPTH} levels, references followed")


def _decode(reference: str) -> str:
    if "%" not in reference:
        return reference
    from urllib.parse import unquote

    return unquote(reference)
