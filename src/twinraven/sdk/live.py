"""Parses server-sent events: lines of fields, an empty line ends an event.

An id without data is remembered all the same, since it says from where to go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from twinraven.sdk.errors import RemoteError

_LARGEST: Final = 64 * 1024 * 1024
_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A carriage return at the very end may be the first half of a line's end."""


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream; `data` is empty where it only says its id."""

    event: str
    data: str
    last_id: str | None


class MessageReader:
    """Puts the pieces of a stream together."""

    def __init__(self, *, last_id: str | None = None) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._last_id = last_id
        self._has_id = False

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Yield the events that this piece completes."""
        *lines, self._rest = _END.split(self._rest + piece)
        if len(self._rest) > _LARGEST:
            raise RemoteError("the server's stream has no end of line")
        for line in lines:
            message = self._take(line.decode("utf-8", "replace"))
            if message is not None:
                yield message

    def _take(self, line: str) -> Message | None:
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._last_id = value or None
            self._has_id = True
        return None

    def _complete(self) -> Message | None:
        said = self._data or self._has_id
        message = Message(self._event or "message", "\n".join(self._data), self._last_id) if said else None
        self._event, self._data, self._has_id = "", [], False
        return message
