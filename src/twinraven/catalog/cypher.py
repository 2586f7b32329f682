"""Parses Cypher queries without a database: finds their parameters and whether they could write.

The query is read only so far as to tell code from quoted text and comments; a name in a string is not a parameter and a
`DELETE` in a comment deletes nothing. Text or a comment that is never closed reaches to the end of the query: no
alternative of the pattern is tried and given up, so reading takes time linear in the query.
"""

from __future__ import annotations

import re
from typing import Final

from twinraven.catalog.model import Effect

_TOKEN: Final = re.compile(
    r"""
      //[^\n]*                                   # comments
    | /\*.*?(?:\*/|(?P<open_comment>\Z))
    | '(?:[^'\\]|\\.?)*(?:'|(?P<open_single>\Z)) # texts
    | "(?:[^"\\]|\\.?)*(?:"|(?P<open_double>\Z))
    | \$(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))
    | `(?:[^`]|``)*`                             # names that need quoting
    | (?P<word>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNCLOSED: Final = frozenset({"open_comment", "open_single", "open_double"})
_WRITES: Final = frozenset({"CREATE", "MERGE", "DELETE", "DETACH", "SET", "REMOVE", "DROP", "FOREACH", "INSERT"})
_MAY_DO_ANYTHING: Final = frozenset({"CALL", "LOAD", "USE", "ALTER", "GRANT", "DENY", "REVOKE", "START", "STOP"})


def cypher_parameters(query: str) -> tuple[str, ...]:
    """Return the parameters `$name` of a query, each once, in order of appearance."""
    names = (
        found["plain"] or found["quoted"].replace("``", "`")
        for found in _TOKEN.finditer(query)
        if found["plain"] or found["quoted"]
    )
    return tuple(dict.fromkeys(names))


def cypher_effect(query: str) -> Effect:
    """Write where a clause writes, unknown where a procedure could or a text is never closed, else read."""
    words: set[str] = set()
    is_closed = True
    for found in _TOKEN.finditer(query):
        if found["word"]:
            words.add(found["word"].upper())
        is_closed = is_closed and found.lastgroup not in _UNCLOSED
    if words & _WRITES:
        return Effect.WRITE
    is_read = is_closed and "RETURN" in words and not words & _MAY_DO_ANYTHING
    return Effect.READ if is_read else Effect.UNKNOWN
