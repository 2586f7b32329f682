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


class CheckBudget:
    """What checking values by one schema costs."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self.free_bytes = _free_bytes(document.cost)
        """The length of a JSON text for which the checks are not too many, whatever is in it."""

    def exceeded(self, value: Any) -> Extent | None:
        """Return how large a value is for which the checks would be too many."""
        extent = extent_of(value)
        if _checks(self._document.cost, extent) <= MAX_CHECKS:
            return None
        return extent if self._walk(self._document.root, value, 0.0, 0) > MAX_CHECKS else None

    def _walk(self, schema: Any, value: Any, spent: float, references: int) -> float:
        """Return the checks of a value by a schema, on top of those before; beyond the limit they are not counted."""
        cost = self._document.cost_of(schema)
        if cost is None or _is_free(cost) or spent > MAX_CHECKS:
            return spent
        members = cast("SubSchema", schema)
        targets = self._document.targets(members)
        if len(targets) == 1 and references < _MOST_REFERENCES and _APPLYING.isdisjoint(members):
            return self._walk(targets[0], value, spent, references + 1)
        if targets or not _UNDIVIDED.isdisjoint(members) or isinstance(members.get("items"), list):
            return spent + _checks(cost, extent_of(value))
        spent += _VISIT
        if isinstance(value, dict):
            named, others = members.get("properties", {}), members.get("additionalProperties")
            for name, member in cast("SubSchema", value).items():
                spent = self._walk(named.get(name, others), member, spent, 0)
            return spent
        if isinstance(value, list):
            for item in cast("list[Any]", value):
                spent = self._walk(members.get("items"), item, spent, 0)
            return spent
        return spent + _checks(cost, extent_of(value))


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
