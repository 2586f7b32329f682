"""Parses server-sent events: lines of fields, an empty line ends an event.

An id without data is remembered all the same, since it says from where to go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from twinraven.foundation.errors import InvalidOutput

_LARGEST: Final = 64 * 1024 * 1024
_END: Final = re.compile(rb"\r\n|\n|\r")
_MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark that a stream may begin with."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream; `data` is empty where it only says its id or when to come again."""

    name: str
    data: str
    last_id: str | None
    retry_ms: int | None = None


class ServerEventReader:
    """Puts the pieces of a stream together."""

    def __init__(self, *, last_id: str | None = None, max_bytes: int = _LARGEST) -> None:
        self._max_bytes = max_bytes
        self._begun: list[bytes] = []
        """The pieces of a line that has not ended."""
        self._length = 0
        self._is_first, self._may_be_half = True, False
        self._name = ""
        self._data: list[str] = []
        self._last_id = last_id
        self._retry_ms: int | None = None
        self._says_more = False

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that this piece completes; raises InvalidOutput for one that is too long."""
        if self._may_be_half and piece:
            # A carriage return has ended the line already; what follows may be the other half of that end.
            piece, self._may_be_half = piece.removeprefix(b"\n"), False
        *lines, rest = _END.split(piece)
        for line in lines:
            self._begun.append(line)
            whole, self._begun = b"".join(self._begun), []
            self._count(len(line))
            event = self._take(whole)
            if event is not None:
                yield event
        self._begun.append(rest)
        self._count(len(rest))
        self._may_be_half = piece.endswith(b"\r")

    def _count(self, more: int) -> None:
        self._length += more
        if self._length > self._max_bytes:
            raise InvalidOutput(f"the stream has an event of more than {self._max_bytes} bytes")

    def _take(self, line: bytes) -> ServerEvent | None:
        if self._is_first:
            line, self._is_first = line.removeprefix(_MARK), False
        if not line:
            return self._complete()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self._last_id, self._says_more = value or None, True
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < 10:
            self._retry_ms, self._says_more = int(value), True
        return None

    def _complete(self) -> ServerEvent | None:
        said = self._data or self._says_more
        event = (
            ServerEvent(self._name or "message", "\n".join(self._data), self._last_id, self._retry_ms) if said else None
        )
        self._name, self._data, self._retry_ms, self._says_more, self._length = "", [], None, False, 0
        return event
