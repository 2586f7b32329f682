"""Computes the encodings of a secret that redaction looks for: JSON, base64, URL, Python literals.

Whoever looks for a value as it was entered misses it one encoding later. Each spelling here is one that real encoders
write: JSON nested up to four deep with every common style of escaping, base64 wherever the value begins within a
longer text (three alignments, both alphabets), URL encoding with upper- and lower-case digits, and what `repr` makes of
it in messages and logs, inside JSON as well. Values are few and change rarely, so there is no need to be sparing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

SHORTEST_REDACTED = 8
"""Shorter values are left alone: they would be found all over the place by chance."""

_JSON_DEPTH = 4
"""Three deep within a text, and once more where the text is a field of what is sent or stored."""
_UNQUOTED = ("", "/", "!'()*~", "!$&'()*+,;=:@/?")
"""What encoders leave as it is: nothing, paths, browsers' components, whatever a query may hold."""
_BOTH_QUOTES = "'\""
"""Behind these, `repr` puts a text into single quotes and escapes the single quotes in it."""
_ESCAPED_CODE = re.compile(r"(?<=\\u)[0-9a-f]{4}")
_PERCENT_CODE = re.compile(r"%[0-9A-F]{2}")


def spellings(value: str) -> frozenset[bytes]:
    """Return every text that stands for the value; none for one that is too short to look for."""
    found: set[bytes] = set()
    for form in {value, value.strip()}:
        if len(form) >= SHORTEST_REDACTED:
            found.add(form.encode())
            found.update(text.encode() for text in (*_in_json(form), *_in_url(form), *_in_python(form)))
            found.update(_in_base64(form.encode()))
    return frozenset(found)


def _in_json(text: str, depth: int = _JSON_DEPTH) -> Iterator[str]:
    """Yield spellings in JSON, whose every level may have been written by another encoder."""
    level = {text}
    for _ in range(depth):
        level = {escape(inner) for inner in level for escape in (_plain, _ascii, _ascii_upper, _ascii_slashed)}
        yield from level


def _plain(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _ascii_upper(text: str) -> str:
    return _ESCAPED_CODE.sub(lambda hit: hit[0].upper(), _ascii(text))


def _ascii_slashed(text: str) -> str:
    return _ascii(text).replace("/", "\\/")


def _in_python(text: str) -> Iterator[str]:
    """As `repr` writes it, alone or within JSON; whether `'` is escaped depends on the text around the value."""
    escaped = repr(text + _BOTH_QUOTES)[1 : -len(repr(_BOTH_QUOTES)) + 1]
    for form in {escaped, escaped.replace("\\'", "'")} - {text}:
        yield form
        yield from _in_json(form, _JSON_DEPTH - 1)


def _in_url(text: str) -> Iterator[str]:
    encoders: tuple[Callable[..., str], ...] = (quote, quote_plus)
    for encode in encoders:
        for unquoted in _UNQUOTED:
            upper = encode(text, safe=unquoted)
            yield upper
            yield _PERCENT_CODE.sub(lambda hit: hit[0].lower(), upper)


def _in_base64(raw: bytes) -> Iterator[bytes]:
    """Yield the part of the encoding that depends on the value alone, for each offset in a group of three bytes."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw)
        yield whole
        yield whole.rstrip(b"=")
        for shift in range(3):
            first = -(-8 * shift // 6)
            last = 8 * (shift + len(raw)) // 6
            yield encode(b"\0" * shift + raw)[first:last]
