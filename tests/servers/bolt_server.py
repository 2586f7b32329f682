"""A server that speaks Bolt 4.4 and has no graph: it answers queries as a test says, and fails where a test says.

A real database cannot be made to break off between a commit and its answer; this one can. It keeps the messages it
received, and which transactions were committed.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

PASSWORD = "s3cret-password"

_HELLO, _GOODBYE, _RESET, _RUN, _BEGIN, _COMMIT, _ROLLBACK, _PULL = 0x01, 0x02, 0x0F, 0x10, 0x11, 0x12, 0x13, 0x3F
_NAMES = {_RUN: "RUN", _BEGIN: "BEGIN", _COMMIT: "COMMIT", _ROLLBACK: "ROLLBACK", _RESET: "RESET"}
_SUCCESS, _RECORD, _FAILURE = 0x70, 0x71, 0x7F


@dataclass(frozen=True)
class Struct:
    """A structure of PackStream, such as a node."""

    tag: int
    fields: tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """What a query gives: columns, rows, and what it says that it changed."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    created: int = 0


@dataclass(frozen=True)
class Fault:
    """A failure as the server states it."""

    code: str
    message: str = "no"


class Drop(Exception):
    """Hang up without a word."""


Behaviour = Callable[[str, dict[str, Any]], Table | Fault]


class BoltServer:
    """Answers RUN by `behave`; `at_commit` may raise Drop or wait."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.at_commit: Callable[[], Any] | None = None
        self.password = PASSWORD
        self.messages: list[str] = []
        self.modes: list[str] = []
        self.committed = 0
        self.connections = 0
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await reader.readexactly(20)
            writer.write(b"\x00\x00\x04\x04")
            await _Session(self, reader, writer).run()
        except (asyncio.IncompleteReadError, ConnectionError, Drop, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Session:
    def __init__(self, server: BoltServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._table = Table((), ())
        self._failed = False

    async def run(self) -> None:
        while True:
            message = _Unpacker(await self._read()).value()
            tag, fields = message.tag, message.fields
            if tag in _NAMES:
                self._server.messages.append(_NAMES[tag])
            if tag == _GOODBYE:
                return
            if tag == _RESET:
                self._failed = False
            if self._failed:
                self._send(0x7E)
                continue
            await self._answer(tag, fields)
            await self._writer.drain()

    async def _answer(self, tag: int, fields: tuple[Any, ...]) -> None:
        if tag == _HELLO:
            if fields[0].get("credentials") not in (None, self._server.password):
                self._fail(Fault("Neo.ClientError.Security.Unauthorized", "wrong password"))
                return
            self._send(_SUCCESS, {"server": "Neo4j/4.4.0", "connection_id": "bolt-1"})
        elif tag == _RUN:
            answer = self._server.behave(fields[0], fields[1])
            if isinstance(answer, Fault):
                self._fail(answer)
            else:
                self._table = answer
                self._send(_SUCCESS, {"fields": list(answer.columns), "qid": 0})
        elif tag == _PULL:
            for row in self._table.rows:
                self._send(_RECORD, list(row))
            stats = {"nodes-created": self._table.created} if self._table.created else {}
            self._send(_SUCCESS, {"type": "rw", "db": "graph", **({"stats": stats} if stats else {})})
        else:
            if tag == _BEGIN:
                self._server.modes.append(fields[0].get("mode", "w"))
            if tag == _COMMIT:
                await self._commit()
            self._send(_SUCCESS, {})

    async def _commit(self) -> None:
        self._server.committed += 1
        if self._server.at_commit is not None:
            waited = self._server.at_commit()
            if waited is not None:
                await waited

    def _fail(self, fault: Fault) -> None:
        self._failed = True
        self._send(_FAILURE, {"code": fault.code, "message": fault.message})

    async def _read(self) -> bytes:
        pieces: list[bytes] = []
        while True:
            (size,) = struct.unpack(">H", await self._reader.readexactly(2))
            if size:
                pieces.append(await self._reader.readexactly(size))
            elif pieces:
                return b"".join(pieces)

    def _send(self, tag: int, *fields: Any) -> None:
        packed = pack(Struct(tag, fields))
        for start in range(0, len(packed), 0xFFFF):
            piece = packed[start : start + 0xFFFF]
            self._writer.write(struct.pack(">H", len(piece)) + piece)
        self._writer.write(b"\x00\x00")


@asynccontextmanager
async def serving_bolt(behave: Behaviour, *, context: ssl.SSLContext | None = None) -> AsyncGenerator[BoltServer]:
    """A server for the time of a test."""
    server = BoltServer(behave)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.close()
        await listener.wait_closed()


def pack(value: Any) -> bytes:
    """A value in PackStream."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcb" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xc1" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return b"\xce" + struct.pack(">I", len(value)) + value
    if isinstance(value, str):
        raw = value.encode()
        return b"\xd2" + struct.pack(">I", len(raw)) + raw
    if isinstance(value, Struct):
        return bytes([0xB0 + len(value.fields), value.tag]) + b"".join(pack(field) for field in value.fields)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        body = b"".join(pack(key) + pack(member) for key, member in members.items())
        return b"\xda" + struct.pack(">I", len(members)) + body
    items: list[Any] = list(value)
    return b"\xd6" + struct.pack(">I", len(items)) + b"".join(pack(item) for item in items)


class _Unpacker:
    """Reads what a client packed; clients use the small forms too."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self) -> Any:
        marker = self._number(1)
        high, low = marker & 0xF0, marker & 0x0F
        if marker < 0x80 or marker >= 0xF0:
            return marker if marker < 0x80 else marker - 0x100
        if high in (0x80, 0x90, 0xA0, 0xB0):
            return self._sized(high, low)
        if marker in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[marker]
        if marker == 0xC1:
            return struct.unpack(">d", self._take(8))[0]
        if 0xC8 <= marker <= 0xCB:
            return int.from_bytes(self._take(1 << (marker - 0xC8)), "big", signed=True)
        if 0xCC <= marker <= 0xCE:
            return self._take(self._number(1 << (marker - 0xCC)))
        kind = {0xD0: 0x80, 0xD4: 0x90, 0xD8: 0xA0}[marker & 0xFC]
        return self._sized(kind, self._number(1 << (marker & 0x03)))

    def _sized(self, kind: int, size: int) -> Any:
        if kind == 0x80:
            return self._take(size).decode()
        if kind == 0x90:
            return [self.value() for _ in range(size)]
        if kind == 0xA0:
            return {self.value(): self.value() for _ in range(size)}
        tag = self._number(1)
        return Struct(tag, tuple(self.value() for _ in range(size)))

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")
