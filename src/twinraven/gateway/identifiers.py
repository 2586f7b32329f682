"""Gives every tool a Python identifier, as which a script calls it.

A name that is an identifier already is kept. Another one has its foreign characters replaced, and where that makes two
names alike, or one that Python means something by, it gets a few characters of a hash.
"""

from __future__ import annotations

import builtins
import hashlib
import keyword
import re
from collections.abc import Iterable
from typing import Final

_FOREIGN: Final = re.compile(r"\W", re.ASCII)
_HASH_LENGTH: Final = 6
_RESERVED: Final = frozenset(dir(builtins)) | {"asyncio", "call_tool", "result", "search_tools"}


def identifiers_for(names: Iterable[str]) -> dict[str, str]:
    """Return the tools' names by their identifiers.

    What a name becomes depends on the other names only if they collide.
    """
    ordered = sorted(names, key=lambda name: (not _is_free(name), name))
    found: dict[str, str] = {}
    for name in ordered:
        plain = identifier = _identifier(name)
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
        length = _HASH_LENGTH
        while identifier in found or not _is_free(identifier):
            identifier = f"{plain}_{digest[:length]}"
            length += 1
        found[identifier] = name
    return found


def _identifier(name: str) -> str:
    plain = _FOREIGN.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() or not plain else plain


def _is_free(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name not in _RESERVED
