"""Bounds the checks that a JSON Schema makes of one value, before they are made; the validator holds the interpreter.

A JSON text that is short enough for its schema, as nearly all are, costs a comparison of its length. Of a longer one,
what the dearest path through the schema costs is taken times the values there are. Where that is too much, schema and
value are walked together as far as the schema says which part of the value is checked by which part of it
(`properties`, `items`), so that a large text or list in a member that is free costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

from twinraven.foundation.schema_document import MAPS, REFERENCES, SINGLE_OR_LIST, SchemaCost, SchemaDocument, SubSchema

# A check takes some thirty nanoseconds.
MAX_CHECKS: Final = 20_000_000
# Of these even the largest request has not too many; a plain keyword takes less than the average of all.
_FEW_CHECKS: Final = 20
_LONGEST: Final = 1 << 40
_PLAIN: Final = 1 / 8
_VISIT: Final = 120
"""What it costs to look at a part of a value here."""
_MOST_REFERENCES: Final = 20
_DIVIDED: Final = frozenset({"properties", "items", "additionalProperties"})
_APPLYING: Final = frozenset((*MAPS, *SINGLE_OR_LIST, *REFERENCES, "uniqueItems", "enum", "const")) - {
    *("$ref", "$defs", "definitions")
}
_UNDIVIDED: Final = _APPLYING - _DIVIDED


class Extent(NamedTuple):
    """How large a value is: the values in it, itself included, its levels, and the lengths of its texts and names."""

    values: int
    depth: int
    texts: list[int]


def extent_of(value: Any) -> Extent:
    """Measure a value."""
    count, depth, level = 0, 0, [value]
    texts: list[int] = []
    while level:
        depth += 1
        count += len(level)
        texts += [len(text) for item in level for text in _texts(item)]
        level = [child for item in level for child in _members(item)]
    return Extent(count, depth, texts)


class Excess(NamedTuple):
    """A part of a value that a schema would check too often."""

    path: list[str | int]
    """Where it is; the whole value, if no part of it is too much by itself."""
    extent: Extent
    longest: int | None
    """How long the text may be that it is, if the schema says so."""


class CheckBudget:
    """What checking values by one schema costs."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self.free_bytes = _free_bytes(document.cost)
        """The length of a JSON text for which the checks are not too many, whatever is in it."""

    def exceeded(self, value: Any) -> Excess | None:
        """Return the part of a value for which the checks would be too many, and how large it is."""
        extent = extent_of(value)
        if _checks(self._document.cost, extent) <= MAX_CHECKS:
            return None
        walk = _Walk(self._document)
        walk.visit(self._document.root, value)
        return None if walk.spent <= MAX_CHECKS else walk.excess or Excess([], extent, None)


class _Walk:
    """Counts the checks of a value, part by part; beyond the limit they are not counted."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._path: list[str | int] = []
        self.spent = 0.0
        self.excess: Excess | None = None

    def visit(self, schema: Any, value: Any) -> None:
        found = self._resolved(schema)
        if found is None or self.spent > MAX_CHECKS:
            return
        cost, members, is_divided = found
        if not is_divided:
            self._count(cost, members, value)
            return
        self.spent += _VISIT
        if isinstance(value, dict):
            named, others = members.get("properties", {}), members.get("additionalProperties")
            for name, member in cast("SubSchema", value).items():
                self._enter(name, named.get(name, others), member)
        elif isinstance(value, list):
            for index, item in enumerate(cast("list[Any]", value)):
                self._enter(index, members.get("items"), item)
        else:
            self._count(cost, members, value)

    def _resolved(self, schema: Any) -> tuple[SchemaCost, SubSchema, bool] | None:
        """Return a schema that checks anything, behind references to it, and whether it checks parts by parts."""
        followed = 0
        while True:
            cost = self._document.cost_of(schema)
            if cost is None or (_is_free(cost) and not cost.returns):
                return None
            members = cast("SubSchema", schema)
            targets = self._document.targets(members)
            if len(targets) != 1 or followed == _MOST_REFERENCES or not _APPLYING.isdisjoint(members):
                is_undivided = bool(targets) or not _UNDIVIDED.isdisjoint(members)
                return cost, members, not is_undivided and not isinstance(members.get("items"), list)
            schema, followed = targets[0], followed + 1

    def _enter(self, step: str | int, schema: Any, value: Any) -> None:
        self._path.append(step)
        self.visit(schema, value)
        self._path.pop()

    def _count(self, cost: SchemaCost, schema: SubSchema, value: Any) -> None:
        extent = extent_of(value)
        # What a reference leads back to is no part of the cost below it, but of the whole schema's.
        checks = _checks(self._document.cost if cost.returns else cost, extent)
        self.spent += checks
        if checks > MAX_CHECKS:
            longest = schema.get("maxLength")
            is_longer = isinstance(value, str) and isinstance(longest, int) and len(value) > longest
            self.excess = Excess([*self._path], extent, longest if is_longer else None)


def _is_free(cost: SchemaCost) -> bool:
    return not (cost.is_costly or cost.comparisons or cost.patterns or cost.work > _FEW_CHECKS)


def _free_bytes(cost: SchemaCost) -> int:
    length = _LONGEST
    while length and not _is_free(cost) and _most_checks(cost, length) > MAX_CHECKS:
        length //= 2
    return length


def _most_checks(cost: SchemaCost, length: int) -> float:
    """Bound the checks of any JSON text of this length: each value in it takes two bytes, and each text three."""
    most = Extent(length // 2 + 1, length // 2 + 1, [length])
    empty_texts = 0 if cost.patterns is None else cost.patterns.checks([0]) * (length // 3)
    return _checks(cost, most) + empty_texts * (most.depth if cost.returns else 1)


def _checks(cost: SchemaCost, extent: Extent) -> float:
    checks = (cost.work * (1 if cost.is_costly else _PLAIN) + cost.comparisons) * extent.values
    if cost.patterns:
        checks += cost.patterns.checks(extent.texts)
    return checks * (extent.depth if cost.returns else 1)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    return (key for key in cast("dict[Any, Any]", value) if isinstance(key, str)) if isinstance(value, dict) else ()


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("SubSchema", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()
