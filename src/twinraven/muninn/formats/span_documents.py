"""Parses long OTLP documents a part at a time, with the attributes of spans by name.

A parsed document takes many times the room of its text, mostly for the two objects around each attribute: one of some
hundred spans is beyond the processor's caches by the time it is read. So the lists of spans in a long document are cut
into parts. Each is parsed alone and the attributes of its spans are flattened before the next is looked at. A document
that cannot be cut so is parsed whole, which also says what is wrong with it.

The cut is safe because a quotation mark in a text is escaped: what looks like the beginning of a list of spans is none
inside of one. A part must be JSON by itself up to a comma, so what follows is an item of the same list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, cast

import orjson

from twinraven.foundation.canonical import has_long_number
from twinraven.foundation.errors import TwinRavenError
from twinraven.muninn.formats.trace import parse_object

Members = dict[str, Any]
Flatten = Callable[[Any], Members]
"""Gives listed attributes by name."""

_PART: Final = 24_576
"""Bytes of a part at least; a document of two is parsed whole, because it stays within the caches."""
_LIST: Final = re.compile(rb'"spans"\s*:\s*\[\s*(\{\s*"[A-Za-z_]+"\s*:)')
"""The beginning of a list of spans, with that of its first span: others that begin alike are where it may be cut."""
_MARK: Final = "spans cut off: "


def parse_spans(line: bytes, flatten: Flatten) -> Members:
    """Parse a line that must be a JSON object; the attributes of its spans may be flattened already."""
    if len(line) > 2 * _PART:
        # What is wrong with it, if anything is, shows when it is parsed whole.
        with suppress(TwinRavenError, LookupError, TypeError, ValueError, AttributeError):
            return _put_together(line, flatten)
    return parse_object(line)


def _put_together(line: bytes, flatten: Flatten) -> Members:
    """Return the document out of its parts; raise where it is not made as expected."""
    cut: dict[str, list[Members]] = {}
    around: list[bytes] = []
    place = 0
    begins = list(_LIST.finditer(line))
    for found, limit in zip(begins, [*(each.start() for each in begins[1:]), len(line)], strict=True):
        begin = found.start(1)
        spans, end = _cut_off(line, begin, limit, found[1], flatten)
        if spans:
            mark = f"{_MARK}{len(cut)}"
            cut[mark] = spans
            around += (line[place:begin], b'"%b",' % mark.encode())
            place = end
    rest = b"".join((*around, line[place:]))
    if rest.count(_MARK.encode()) != len(cut):
        raise LookupError("the document has such marks itself")
    document = parse_object(rest)
    for listed in _lists_in(document):
        if listed and isinstance(listed[0], str):
            listed[:1] = cut.pop(listed[0])
    if cut:
        raise LookupError("what looked like a list of spans is none")
    return document


def _cut_off(line: bytes, begin: int, limit: int, opening: bytes, flatten: Flatten) -> tuple[list[Members], int]:
    """Parse the spans of a list up to the last place where it can be cut; gives that place as well."""
    found: list[Members] = []
    while (end := line.find(opening, begin + _PART, limit)) > 0:
        text = line[begin:end].rstrip()
        if not text.endswith(b",") or has_long_number(text):
            raise ValueError("this is not between two spans, or has numbers that are not read exactly here")
        spans = orjson.loads(b"[%b]" % text[:-1])
        _flatten_all(spans, flatten)
        found += spans
        begin = end
    return found, begin


def _flatten_all(spans: list[Members], flatten: Flatten) -> None:
    for span in spans:
        try:
            span["attributes"] = flatten(span.get("attributes"))
        except TwinRavenError:
            continue  # It is refused again when it is read, with its place.


def _lists_in(document: Any) -> Iterator[list[Any]]:
    for resource in cast("Members", document)["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield scope["spans"]
