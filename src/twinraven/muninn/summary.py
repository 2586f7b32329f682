"""Deterministic summaries: the shape of an output and as much of its content as fits.

A short output is its own summary. A long one keeps its structure: the keys of an object, the first items of an array
and how many there are, the beginning of a long string. The same output always gives the same summary.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

from twinraven.foundation.canonical import canonical_json, parse_json

_WIDTH = 40
_ITEMS = 2
_KEYS = 100
_DEPTH = 2


def summarize(encoded: bytes, limit: int) -> str:
    """A JSON text in at most `limit` characters."""
    if len(encoded) <= limit:
        return encoded.decode()
    shorter = canonical_json(_shrink(parse_json(encoded, field="output"), _DEPTH)).decode()
    return shorter if len(shorter) <= limit else shorter[: limit - 1] + "…"


def _shrink(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _WIDTH else f"{value[:_WIDTH]}… ({len(value)} characters)"
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if depth == 0:
            return f"object of {len(members)}"
        return {key: _shrink(member, depth - 1) for key, member in islice(members.items(), _KEYS)}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if depth == 0:
            return f"array of {len(items)}"
        kept = [_shrink(item, depth - 1) for item in items[:_ITEMS]]
        return [*kept, f"… {len(items) - _ITEMS} more"] if len(items) > _ITEMS else kept
    return value
