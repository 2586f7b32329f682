"""Completes short ids: commands take the beginning of an id that a list shows.

A beginning is looked for among the newest records, as many as `LOOKED_AT`; a whole id needs no look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from twinraven.foundation.errors import InvalidInput

LOOKED_AT: Final = 500
"""How many of the newest records are asked for their ids."""
_WHOLE: Final = 32
"""An id of this length or more is whole."""


def is_whole(given: str) -> bool:
    """Say whether an id needs no completion."""
    return len(given) >= _WHOLE


def complete_id(given: str, known: Iterable[str], *, what: str) -> str:
    """Give the one id that begins so; one that nothing begins with is given back for its service to refuse."""
    found = sorted({each for each in known if each.startswith(given)})
    if given in found or not found:
        return given
    if len(found) > 1:
        # How many there are is not known: only some were looked at.
        shown = ", ".join(found[:3])
        raise InvalidInput(
            f"more than one {what} begins with {given!r}, such as {shown}; give more of the id", field=what
        )
    return found[0]
