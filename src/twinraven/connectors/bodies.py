"""Reads response bodies of untrusted services: bounded before and after decompression, then decoded by content type.

A gzip of a hundred kilobytes can hold a hundred megabytes, so it is inflated in pieces no larger than what is still
allowed. We ask for gzip and take nothing else, and one layer of it, because nobody honest sends two.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Literal

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, InvalidOutput

ACCEPTED = "gzip"
MAX_MEMBERS = 100

Reading = Literal["auto", "json", "text"]

_PIECE = 64 * 1024
_GZIP_BITS = 16 + zlib.MAX_WBITS
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]{1,40})", re.IGNORECASE)
_JSON = re.compile(r"(?:application|text)/(?:[\w.-]+\+)?json", re.IGNORECASE)
_TEXT = re.compile(
    r"text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:xml|yaml|javascript|x-www-form-urlencoded)", re.IGNORECASE
)


class BodyReader:
    """Takes a body piece by piece; raises InvalidOutput when it grows beyond the limit, or cuts it there."""

    def __init__(
        self, encoding: str, *, limit: int, cut: bool = False, hear: Callable[[bytes], None] | None = None
    ) -> None:
        """`hear` is given each part as it was decompressed."""
        self._hear = hear
        self._limit = limit
        self._cut = cut
        self._pieces: list[bytes] = []
        self._size = 0
        self._received = 0
        self._gzip = gunzip_of(encoding)

    @property
    def is_full(self) -> bool:
        """Whether enough was read of a body that may be cut."""
        return self._cut and max(self._size, self._received) >= self._limit

    def feed(self, piece: bytes) -> None:
        self._received += len(piece)
        if self._received > self._limit and not self._cut:
            raise self._too_large()
        for part in (piece,) if self._gzip is None else self._gzip.parts(piece):
            self._size += len(part)
            if self._size > self._limit and not self._cut:
                raise self._too_large()
            self._pieces.append(part)
            if self._hear is not None:
                self._hear(part)
            if self.is_full:
                return

    def body(self) -> bytes:
        """Return all of it; a compressed body that breaks off is not all of it."""
        if self._gzip is not None and not self._gzip.is_complete and not self._cut:
            raise InvalidOutput("the answer's compressed body breaks off")
        return b"".join(self._pieces)[: self._limit]

    def _too_large(self) -> InvalidOutput:
        return InvalidOutput(f"the answer is larger than {self._limit} bytes", limit=self._limit)


class Gunzip:
    """Inflates a stream of one or a few members, in parts of bounded size."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP_BITS)
        self._members = 0
        self._begun = False

    @property
    def is_complete(self) -> bool:
        return self._inflater.eof or not self._begun

    def parts(self, data: bytes) -> Iterator[bytes]:
        """Decompress one received piece lazily: a caller that stops iterating decompresses no more of it."""
        while data:
            if self._inflater.eof or not self._begun:
                self._begin_member()
            try:
                part = self._inflater.decompress(data, _PIECE)
            except zlib.error as error:
                raise InvalidOutput(f"the answer's compression is broken: {error}") from None
            yield part
            data = self._inflater.unconsumed_tail or self._inflater.unused_data

    def _begin_member(self) -> None:
        self._begun = True
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise InvalidOutput(f"the answer's compression has more than {MAX_MEMBERS} members")
        self._inflater = zlib.decompressobj(_GZIP_BITS)


def gunzip_of(encoding: str) -> Gunzip | None:
    """Choose the decompressor for a Content-Encoding: none for identity, gzip otherwise; others raise InvalidOutput."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip"):
        return Gunzip()
    raise InvalidOutput(f"the answer is encoded as {name[:40]!r}, which was not asked for", encoding=name[:40])


def read_body(body: bytes, content_type: str, *, reading: Reading = "auto") -> Any:
    """Read a body as a JSON value: JSON as it is, text as text, anything else in base64."""
    if not body:
        return None
    kind = content_type.partition(";")[0].strip()
    if reading == "json" or (reading == "auto" and _JSON.fullmatch(kind)):
        return _read_json(body)
    if reading == "text" or _TEXT.fullmatch(kind):
        return _read_text(body, content_type)
    return {"content_type": kind, "base64": base64.b64encode(body).decode("ascii")}


def _read_json(body: bytes) -> Any:
    try:
        return parse_json(body.removeprefix(b"\xef\xbb\xbf"), field="answer")
    except InvalidInput as error:
        raise InvalidOutput(f"the answer is not JSON: {error.message}") from None


def _read_text(body: bytes, content_type: str) -> str:
    found = _CHARSET.search(content_type)
    try:
        return body.decode(found[1] if found else "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")
