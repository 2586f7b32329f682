"""Takes documents out of arrays and envelopes, such as pages of an API that list traces under `data`.

Most formats are written one document a line, and people keep the same documents in one array, or save what a service
answered. A line that is itself nothing that its format knows, but holds a list of what it knows, is read item by item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

import orjson

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import TwinRavenError
from twinraven.muninn.formats.lines import Line

_ENVELOPES: Final = ("data", "traces", "runs", "results", "items", "records", "simulations", "samples")
_PACKED: Final = re.compile(rb'\s*(?:\[|\{[^\[]{0,300}?"(?:%b)"\s*:\s*\[)' % "|".join(_ENVELOPES).encode())
"""How a line begins that may hold others; to parse each line twice would cost more than anything else about it."""
_LATE: Final = (b'"simulations"', b'"samples"')
"""What holds the conversations in files of tau2-bench and Inspect, behind much else."""
_LOOKED_AT: Final = 50

Recognises = Callable[[Any], bool]


def inner_documents(value: Any) -> Iterator[Any]:
    """Yield the items of an array, or of the list that an envelope holds; none of anything else."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        value = next((members[name] for name in _ENVELOPES if isinstance(members.get(name), list)), None)
    if isinstance(value, list):
        yield from cast("list[Any]", value)


def unpacked(documents: Iterable[Line], recognises: Recognises) -> Iterator[Line]:
    """Documents as they are, but one that only holds what is recognised as its items."""
    for number, text in documents:
        items = _inside(text, recognises) if _PACKED.match(text) or any(name in text for name in _LATE) else None
        if items is None:
            yield number, text
        else:
            yield from ((number, _encoded(item)) for item in items)


def _inside(text: bytes, recognises: Recognises) -> list[Any] | None:
    try:
        value = parse_json(text)
    except TwinRavenError:
        return None
    if recognises(value):
        return None
    items = list(inner_documents(value))
    return items if any(map(recognises, items[:_LOOKED_AT])) else None


def _encoded(item: Any) -> bytes:
    try:
        return orjson.dumps(item)
    except TypeError:
        # Integers beyond 64 bits, which orjson does not write.
        return canonical_json(item)
