"""Compresses response bodies with gzip, where the client accepts it and the body is large enough to gain by it."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

SMALLEST: Final = 1_400
"""About what fits into one packet: less would arrive no sooner."""

_LEVEL: Final = 4
_ON_THE_LOOP: Final = 32 * 1024
_TEXTS: Final = ("application/json", "application/problem+json", "text/plain")


def accepts_gzip(stated: bytes | None) -> bool:
    """Return whether an Accept-Encoding header allows gzip."""
    if stated is None:
        return False
    weights: dict[str, float] = {}
    for part in stated.decode("latin-1").lower().split(","):
        name, _, parameters = part.partition(";")
        weights[name.strip()] = _weight(parameters)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _weight(parameters: str) -> float:
    name, _, value = parameters.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def is_worthwhile(body: bytes, media: str) -> bool:
    """Return whether a body of this type would shrink noticeably."""
    return len(body) >= SMALLEST and media.partition(";")[0] in _TEXTS


async def compress(body: bytes) -> bytes:
    """Compress the body with gzip; a large one on a thread, so as not to block the event loop."""
    return _compress(body) if len(body) <= _ON_THE_LOOP else await asyncio.to_thread(_compress, body)


def _compress(body: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, wbits=31)
    return packer.compress(body) + packer.flush()
