"""Opaque identifiers: 128 random bits, no meaning inside.

Nothing may be read out of an id (no time, no type, no tenant); order comes from sequence columns. TwinRaven's own
three kinds (events, chains, validation results) are UUIDv4 because their seed says so; everything else is plain hex.
"""

from __future__ import annotations

import os
import uuid


def new_id() -> str:
    """128 random bits in hex."""
    return os.urandom(16).hex()


def new_uuid() -> uuid.UUID:
    """A UUIDv4."""
    return uuid.uuid4()
