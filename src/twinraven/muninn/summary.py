"""Summarises outputs deterministically: their shape, and as much of their content as fits.

A short output is its own summary. A long one keeps its structure: the keys of an object, the first items of an array
and how many there are, the beginning of a long string. The same output always gives the same summary.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

import orjson

from twinraven.foundation.canonical import canonical_json, parse_json

_WIDTH = 40
_ITEMS = 2
_KEYS = 100
_DEPTH = 2
_AS_THEY_ARE = frozenset({int, float, bool, type(None)})


def summarize(encoded: bytes, limit: int) -> str:
    """Return a JSON text in at most `limit` characters."""
    if len(encoded) <= limit:
        return encoded.decode()
    shrunk = _shrink(parse_json(encoded, field="output"), _DEPTH)
    try:
        shorter = orjson.dumps(shrunk).decode()
    except TypeError:
        # Integers beyond 64 bits, which orjson does not write.
        shorter = canonical_json(shrunk).decode()
    return shorter if len(shorter) <= limit else shorter[: limit - 1] + "…"


def _shrink(value: Any, depth: int) -> Any:
    # Runs for every long output, so types are compared and not asked, and plain members cost no call.
    kind = cast("type[object]", type(value))
    if kind is str:
        return value if len(value) <= _WIDTH else f"{value[:_WIDTH]}… ({len(value)} characters)"
    if kind is dict:
        if depth == 0:
            return f"object of {len(value)}"
        members = value.items() if len(value) <= _KEYS else islice(value.items(), _KEYS)
        return {key: item if type(item) in _AS_THEY_ARE else _shrink(item, depth - 1) for key, item in members}
    if kind is list:
        if depth == 0:
            return f"array of {len(value)}"
        kept = [_shrink(item, depth - 1) for item in value[:_ITEMS]]
        return [*kept, f"… {len(value) - _ITEMS} more"] if len(value) > _ITEMS else kept
    return value
