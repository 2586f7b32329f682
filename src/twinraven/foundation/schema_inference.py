"""Infers a JSON Schema from sample values.

It says what was seen and no more: the types at each place, which members were always there, what lists contain.
It guesses no enums, formats or bounds, because a sample never shows what else is allowed. The order of the samples does
not matter, and every sample fits the schema that it helped to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

MAX_INFERRED_DEPTH = 64
"""Below this level anything is allowed."""

_TYPE_ORDER = ("null", "boolean", "integer", "number", "string", "array", "object")


def infer_schema(values: Sequence[Any]) -> dict[str, Any]:
    """Return a schema that all of these JSON values fit; no values suggest nothing, which allows everything."""
    return _infer(values, 0)


def json_type(value: Any) -> str:
    """Return the JSON Schema name of a value's type; a float is a number even when it is whole."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


def _infer(values: Iterable[Any], depth: int) -> dict[str, Any]:
    by_type: dict[str, list[Any]] = {}
    for value in values:
        by_type.setdefault(json_type(value), []).append(value)
    if not by_type or depth >= MAX_INFERRED_DEPTH:
        return {}
    if "number" in by_type:
        by_type.pop("integer", None)
    types = [name for name in _TYPE_ORDER if name in by_type]
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    _infer_members(schema, by_type.get("object", []), depth)
    elements = [item for items in by_type.get("array", []) for item in items]
    if elements:
        schema["items"] = _infer(elements, depth + 1)
    return schema


def _infer_members(schema: dict[str, Any], objects: list[dict[str, Any]], depth: int) -> None:
    found: dict[str, list[Any]] = {}
    for members in objects:
        for name, member in members.items():
            found.setdefault(name, []).append(member)
    if not found:
        return
    schema["properties"] = {name: _infer(found[name], depth + 1) for name in sorted(found)}
    required = [name for name in sorted(found) if len(found[name]) == len(objects)]
    if required:
        schema["required"] = required
