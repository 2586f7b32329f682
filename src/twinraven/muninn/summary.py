"""Deterministic summaries: the shape of an output and as much of its content as fits.

A short output is its own summary. A long one keeps its structure: every key of an object, the first items of an array
and how many there are, the beginning of a long string. The same output always gives the same summary.
"""

from __future__ import annotations

from typing import Any, cast

import orjson

_ITEMS = 3
_TEXTS = (120, 60, 30, 12)


def summarize(encoded: bytes, limit: int) -> str:
    """A JSON text in at most `limit` characters."""
    text = encoded.decode()
    if len(text) <= limit:
        return text
    value = orjson.loads(encoded)
    for width in _TEXTS:
        shorter = orjson.dumps(_shrink(value, width, 3)).decode()
        if len(shorter) <= limit:
            return shorter
    return orjson.dumps(_shrink(value, _TEXTS[-1], 1)).decode()[: limit - 1] + "…"


def _shrink(value: Any, width: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= width else f"{value[:width]}… ({len(value)} characters)"
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if depth == 0:
            return f"object with {len(members)} keys"
        return {key: _shrink(member, width, depth - 1) for key, member in members.items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if depth == 0:
            return f"array of {len(items)}"
        kept = [_shrink(item, width, depth - 1) for item in items[:_ITEMS]]
        return [*kept, f"… {len(items) - _ITEMS} more"] if len(items) > _ITEMS else kept
    return value
