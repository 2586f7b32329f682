"""Reads and writes JSON-RPC messages, one per line, on the pipes of a program.

This is also the place where a peer is not trusted: a line that is too long, broken, or one of too many ends the
connection with a reason instead of filling the memory or leaving a caller to wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, cast

from mcp.shared.dispatcher import CallOptions
from mcp_types import PARSE_ERROR

from twinraven.connectors.mcp.messages import MessageDispatcher
from twinraven.connectors.mcp.wire import Message, encode_message, unsent
from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput

_NOISE_ALLOWED: Final = 64
"""Lines that are no JSON at all (banners, stray prints) and are passed over before a peer is given up."""


class LineDispatcher(asyncio.Protocol, MessageDispatcher):
    """Both directions of one pipe; as a protocol it is fed bytes, as a dispatcher it is given to the SDK."""

    def __init__(
        self,
        *,
        max_bytes: int,
        on_fault: Callable[[str], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(on_fault=on_fault, monotonic=monotonic)
        self._max_bytes = max_bytes
        self._output: asyncio.WriteTransport | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._buffer = bytearray()
        self._searched = 0
        self._noise = 0

    # What the event loop calls.

    def attach(self, output: asyncio.WriteTransport) -> None:
        """Set the writer of messages to the peer."""
        self._output = output

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while not self.is_closed:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > self._max_bytes:
                    self.give_up(f"it sent a message of more than {self._max_bytes} bytes")
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            if len(line) > self._max_bytes:
                self.give_up(f"it sent a message of more than {self._max_bytes} bytes")
            elif line.strip():
                self._read(line)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.close()

    def close(self) -> None:
        """End everything that waits on this pipe."""
        if not self.is_closed:
            super().close()
            self._can_write.set()
            self._buffer.clear()

    # What the dispatcher calls.

    async def write(self, message: Message, opts: CallOptions | None = None) -> None:
        del opts
        if not self._can_write.is_set():
            await self._can_write.wait()
        self.write_now(message)

    def write_now(self, message: Message) -> None:
        if self.is_closed or self._output is None or self._output.is_closing():
            raise unsent()
        self._output.write(encode_message(message) + b"\n")

    def can_write_now(self) -> bool:
        return not self.is_closed and self._can_write.is_set()

    # Inside.

    def _read(self, line: bytes) -> None:
        try:
            found = parse_json(line, field="message")
        except InvalidInput:
            self._refuse(line)
            return
        for message in cast("list[Any]", found) if isinstance(found, list) else [found]:
            if not isinstance(message, dict):
                self._refuse(line)
                return
            self.dispatch(cast("Message", message))

    def _refuse(self, line: bytes) -> None:
        """A line that is no message: noise is passed over for a while, a broken message is an answer lost."""
        if self._on_fault is None:
            error = {"code": PARSE_ERROR, "message": "Parse error"}
            self.write_now({"jsonrpc": "2.0", "id": None, "error": error})
            return
        self._noise += 1
        if line.lstrip()[:1] in (b"{", b"[") or self._noise > _NOISE_ALLOWED:
            self.give_up("it sent something that is not JSON-RPC")
