"""Qualifies resource URIs with their server where two servers use the same one.

A resource keeps the address its server gave it, since that address is also in tool answers, in prompts, in texts and in
the configuration of whoever used the server before. Only where two servers list the same one, each is shown as
`twinraven://SERVER/ADDRESS`, from which server and address can be read again. Such an address may be used for any
resource, and nobody but the gateway can give one out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

_PREFIX: Final = "twinraven://"
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)[^{}]*\}")
_LEADS: Final = {"#": "#", ".": ".", "/": "/", ";": ";", "?": "?", "&": "&"}
_WITHIN_SEGMENT: Final = ("", ".")
_LONGEST: Final = 2_048
_MOST_EXPRESSIONS: Final = 8
"""Beyond these a template is not tried; its addresses are still found by their scheme."""

Piece = str | tuple[str]
"""Part of a template: words as they stand, or the operator of an expression in braces."""


def qualified(server: str, uri: str) -> str:
    """Return the address, or the template of addresses, that names its server."""
    return f"{_PREFIX}{quote(server, safe='')}/{uri}"


def unqualified(uri: str) -> tuple[str, str] | None:
    """Return the server and the address on it, of an address that names its server."""
    if not is_qualified(uri):
        return None
    server, _, inner = uri[len(_PREFIX) :].partition("/")
    return (unquote(server), inner) if server and inner else None


def is_qualified(uri: str) -> bool:
    """Return whether an address has the gateway's own form.

    A server's address that looks like one must be given one.
    """
    return uri[: len(_PREFIX)].lower() == _PREFIX


def scheme(uri: str) -> str:
    return uri.partition(":")[0].lower()


def origin(uri: str) -> str:
    """Return the scheme and the authority."""
    return "/".join(uri.split("/", 3)[:3]).lower()


def matches(template: str, uri: str) -> bool:
    """Return whether a template (RFC 6570) can have produced this address.

    Templates are the words of servers, so this must not be led astray by any: all ways through the address are followed
    at once, in time that grows with its length and with the template's, never with their combinations.
    """
    reached = {0}
    pieces = _pieces(template)
    if len(uri) > _LONGEST or len(pieces) > 2 * _MOST_EXPRESSIONS + 1:
        return False
    for piece in pieces:
        if isinstance(piece, str):
            reached = {place + len(piece) for place in reached if uri.startswith(piece, place)}
        else:
            reached = _expanded(piece[0], uri, reached)
        if not reached:
            return False
    return len(uri) in reached


@lru_cache(maxsize=4_096)
def _pieces(template: str) -> tuple[Piece, ...]:
    found: list[Piece] = []
    at = 0
    for expression in _EXPRESSION.finditer(template):
        found += [template[at : expression.start()], (expression[1],)]
        at = expression.end()
    return tuple(piece for piece in (*found, template[at:]) if piece != "")


def _expanded(operator: str, uri: str, reached: set[int]) -> set[int]:
    """Return where one expression can end, from any of these places; each may expand to nothing."""
    lead = _LEADS.get(operator, "")
    begins = {place + len(lead) for place in reached if uri.startswith(lead, place)}
    if not begins:
        return reached
    if operator not in _WITHIN_SEGMENT:
        return reached | set(range(min(begins), len(uri) + 1))
    ends = set(reached)
    for begin in sorted(begins):
        place = begin
        while place not in ends or place == begin:
            ends.add(place)
            if place == len(uri) or uri[place] == "/":
                break
            place += 1
    return ends
