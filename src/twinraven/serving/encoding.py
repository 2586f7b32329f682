"""Encodes response bodies as JSON, whatever tools and arguments hold."""

from __future__ import annotations

from typing import Any

import orjson

from twinraven.foundation.canonical import canonical_json


def encode_json(body: Any) -> bytes:
    """Return the body as JSON."""
    try:
        return orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # Numbers beyond 64 bits, which tools may give and arguments may hold.
        return canonical_json(body)
