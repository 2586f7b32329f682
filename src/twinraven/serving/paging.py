"""Pages lists by cursor: a cursor says where the next page begins, whatever is added meanwhile.

A cursor holds the place of the last thing shown, not a count of things, so that nothing is shown twice or left out
because something else came or went. It belongs to the question it was given for and is refused for another.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import orjson

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput
from twinraven.foundation.loop_turn import loop_turn

T = TypeVar("T")
Place = list[Any]
"""Where something stands in its order: strings and whole numbers."""
_SLICE = 16


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the things asked for, and where the rest begins."""

    items: list[Any]
    next_place: Place | None = None
    count: int | None = None
    """How many there are in all, where the list says so."""


def page_of(found: Sequence[T], limit: int, *, place: Callable[[T], Place], show: Callable[[T], Any]) -> Page:
    """Return a page out of at most `limit` + 1 things: the one too many says that there are more."""
    shown = found[:limit]
    more = len(found) > limit
    return Page([show(each) for each in shown], place(shown[-1]) if more else None)


async def long_page_of(
    found: Sequence[T], limit: int, *, place: Callable[[T], Place], show: Callable[[T], Any]
) -> Page:
    """Return a page of many things as `page_of` does; other requests of the same event loop are served meanwhile."""
    page = page_of(found, limit, place=place, show=lambda each: each)
    for begin in range(0, len(page.items), _SLICE):
        if begin:
            await loop_turn()
        page.items[begin : begin + _SLICE] = map(show, page.items[begin : begin + _SLICE])
    return page


def slice_of(
    everything: Sequence[T], query: Mapping[str, Any], *, key: Callable[[T], str], show: Callable[[T], Any]
) -> Page:
    """Return a page of a list that is all in memory, ordered by a key of its own."""
    after = query.get("cursor")
    begun = str(after[0]) if after else ""
    rest = sorted((each for each in everything if not after or key(each) > begun), key=key)
    return page_of(rest, int(query["limit"]), place=lambda each: [key(each)], show=show)


def encode_cursor(question: str, query: Mapping[str, Any], place: Place) -> str:
    body = orjson.dumps([_mark(question, query), place])
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def decode_cursor(question: str, query: Mapping[str, Any], cursor: str, kinds: Sequence[type]) -> Place:
    """Return the place in a cursor that was given for this question."""
    try:
        body: object = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise _refusal("is not one that was given out") from None
    parts = cast("list[Any]", body) if isinstance(body, list) else []
    if len(parts) != 2 or not isinstance(parts[1], list):
        raise _refusal("is not one that was given out")
    if parts[0] != _mark(question, query):
        raise _refusal("belongs to another question; leave it out to begin anew")
    place = cast("Place", parts[1])
    if [type(each) for each in place] != list(kinds) or any(_is_out_of_range(each) for each in place):
        raise _refusal("is not one that was given out")
    return place


def _is_out_of_range(each: object) -> bool:
    return "\0" in each if isinstance(each, str) else not isinstance(each, int) or abs(each) >= 2**63


def _mark(question: str, query: Mapping[str, Any]) -> str:
    import xxhash

    asked = {name: value for name, value in query.items() if name not in ("cursor", "limit")}
    return xxhash.xxh64_hexdigest(question.encode() + b"\0" + canonical_json(asked))


def _refusal(why: str) -> InvalidInput:
    return InvalidInput(f"cursor {why}", field="cursor")
