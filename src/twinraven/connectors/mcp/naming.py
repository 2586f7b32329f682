"""Makes tool names that every client and every model provider accepts.

Upstream tools are called `server__tool`. Model providers take letters, digits, `_` and `-`, at most 64 of them; what
does not fit is replaced and cut, and a few characters of a hash keep such names apart.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

SEPARATOR: Final = "__"
LONGEST: Final = 64
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_LENGTH: Final = 8


def upstream_tool_id(server: str, tool: str) -> str:
    """Return the catalogue's name for a tool of a server; two tools never share one."""
    # A server's name in which the separator could be seen is told apart like one that had to be changed.
    is_exact = _is_legal(server) and _is_legal(tool) and SEPARATOR not in f"{server}_"
    return _fitted(f"{_legal(server)}{SEPARATOR}{_legal(tool)}", (server, tool), is_exact=is_exact)


def distinct_tool_id(server: str, tool: str) -> str:
    """Another name for the same tool, where something else has the first one."""
    return _fitted(f"{_legal(server)}{SEPARATOR}{_legal(tool)}", (server, tool), is_exact=False)


def legal_name(tool_id: str) -> str:
    """Return the name under which a tool of any kind is shown to clients; its own wherever that is legal."""
    return _fitted(_legal(tool_id), (tool_id,), is_exact=_is_legal(tool_id))


def _is_legal(name: str) -> bool:
    return bool(name) and _legal(name) == name


def _legal(name: str) -> str:
    return _FOREIGN.sub("_", name)


def _fitted(name: str, source: tuple[str, ...], *, is_exact: bool) -> str:
    if is_exact and len(name) <= LONGEST:
        return name
    digest = hashlib.sha256("\0".join(source).encode("utf-8", "replace")).hexdigest()[:_HASH_LENGTH]
    return f"{name[: LONGEST - _HASH_LENGTH - 1]}_{digest}"
