"""What can be known of a Cypher query without a database: its parameters, and whether it could write.

The query is read only so far as to tell code from quoted text and comments; a name in a string is not a parameter and a
`DELETE` in a comment deletes nothing.
"""

from __future__ import annotations

import re
from typing import Final

from twinraven.catalog.model import Effect

_TOKEN: Final = re.compile(
    r"""
      //[^\n]*                                   # comments
    | /\*.*?\*/
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"      # texts
    | \$(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))
    | `(?:[^`]|``)*`                             # names that need quoting
    | (?P<word>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_WRITES: Final = frozenset({"CREATE", "MERGE", "DELETE", "DETACH", "SET", "REMOVE", "DROP", "FOREACH", "INSERT"})
_MAY_DO_ANYTHING: Final = frozenset({"CALL", "LOAD", "USE", "ALTER", "GRANT", "DENY", "REVOKE", "START", "STOP"})


def cypher_parameters(query: str) -> tuple[str, ...]:
    """The parameters `$name` of a query, each once, in order of appearance."""
    names = (
        found["plain"] or found["quoted"].replace("``", "`")
        for found in _TOKEN.finditer(query)
        if found["plain"] or found["quoted"]
    )
    return tuple(dict.fromkeys(names))


def cypher_effect(query: str) -> Effect:
    """Write where a clause writes, unknown where a procedure could, else read."""
    words = {found["word"].upper() for found in _TOKEN.finditer(query) if found["word"]}
    if words & _WRITES:
        return Effect.WRITE
    return Effect.UNKNOWN if words & _MAY_DO_ANYTHING or "RETURN" not in words else Effect.READ
