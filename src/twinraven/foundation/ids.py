"""Makes opaque identifiers: 128 random bits, no meaning inside.

Nothing may be read out of an id (no time, no type, no tenant); order comes from sequence columns. TwinRaven's own
three kinds (events, chains, validation results) are UUIDv4 because their seed says so; everything else is plain hex.

Randomness comes from the operating system, many ids' worth at a time: asking it for sixteen bytes costs as much as
asking for thousands, and a call needs five ids. What was drawn is given out once, also between threads, and a forked
child forgets what its parent had drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import Final
from uuid import UUID, SafeUUID

_BYTES: Final = 16
_VERSION_4: Final = 4 << 76 | 2 << 62
_RANDOM: Final = (1 << 128) - 1 ^ (0xF << 76 | 3 << 62)
_UNKNOWN: Final = SafeUUID.unknown
_make: Final = object.__new__
_set: Final = object.__setattr__
_number: Final = int.from_bytes
_drawn: Final[list[bytes]] = []
_AT_ONCE: Final = 256
_cut: Final[Callable[[bytes], tuple[bytes, ...]]] = Struct(f"{_BYTES}s" * _AT_ONCE).unpack


def new_id() -> str:
    """128 random bits in hex."""
    return _draw().hex()


def id_digest(name: str) -> str:
    """Return 16 hexadecimal digits of an id's SHA-256: whoever knows the id recognises it, and nobody learns it."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def new_uuid() -> UUID:
    """Return a UUIDv4."""
    return uuid_of(_draw())


def uuid_of(random: bytes) -> UUID:
    """Return a UUIDv4 of sixteen bytes that are random, or a hash."""
    return _uuid(_number(random, "big") & _RANDOM | _VERSION_4)


def read_uuid(text: str) -> UUID:
    """Return a UUID from the text that `str` makes of one."""
    return _uuid(int(text.replace("-", ""), 16))


def _uuid(number: int) -> UUID:
    # What the constructor does at the end; before, it finds out which of six forms it was given.
    made = _make(UUID)
    _set(made, "int", number)
    _set(made, "is_safe", _UNKNOWN)
    return made


def _draw() -> bytes:
    try:
        # Taking from the end of a list is one step to the interpreter, so no two threads are given the same.
        return _drawn.pop()
    except IndexError:
        first, *rest = _cut(os.urandom(_BYTES * _AT_ONCE))
        _drawn.extend(rest)
        return first


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)
