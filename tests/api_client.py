"""A client that hands requests straight to an ASGI application, byte for byte as the test writes them.

Clients from a library tidy up what they send; a test of bad input must be able to send it as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from twinraven.foundation.canonical import parse_json
from twinraven.serving import AsgiApp, Message

HOST = "127.0.0.1:8765"
_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def tag(self) -> str:
        return self.headers["etag"]


@dataclass(frozen=True, slots=True)
class Door:
    """An application, and who knocks: the headers that every request carries."""

    app: AsgiApp
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def keyed(self, key: str) -> Door:
        return Door(self.app, {**self.headers, "authorization": f"Bearer {key}"})

    async def ask(
        self,
        method: str,
        target: str | bytes,
        json: Any = None,
        *,
        body: bytes | Sequence[bytes] = b"",
        headers: Mapping[str, str] | None = None,
        repeated: Sequence[tuple[str, str]] = (),
    ) -> Reply:
        """Send one request; `body` as it is, in one part or in several, or `json`; `repeated` headers after all."""
        stated = {"host": HOST, **self.headers, **(headers or {})}
        if json is not None:
            body = orjson.dumps(json)
            stated.setdefault("content-type", "application/json")
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        scope = _scope(method, target, stated)
        scope["headers"] += [(name.encode(), value.encode("latin-1")) for name, value in repeated]
        await asyncio.wait_for(self.app(scope, _receiver(body), send), _PATIENCE_S)
        start, *parts = sent
        found = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        return Reply(start["status"], found, b"".join(part.get("body", b"") for part in parts))

    async def get(self, target: str, **headers: str) -> Reply:
        return await self.ask("GET", target, headers=_spelt(headers))

    async def post(self, target: str, json: Any = None, **headers: str) -> Reply:
        return await self.ask("POST", target, json, headers=_spelt(headers))

    async def patch(self, target: str, json: Any = None, **headers: str) -> Reply:
        return await self.ask("PATCH", target, json, headers=_spelt(headers))

    async def put(self, target: str, json: Any = None, **headers: str) -> Reply:
        return await self.ask("PUT", target, json, headers=_spelt(headers))

    async def delete(self, target: str, **headers: str) -> Reply:
        return await self.ask("DELETE", target, headers=_spelt(headers))

    @asynccontextmanager
    async def listen(self, target: str, **headers: str) -> AsyncGenerator[Listening]:
        """An open stream; leaving the block is the client hanging up."""
        listening = Listening()
        scope = _scope("GET", target, {"host": HOST, **self.headers, **_spelt(headers)})
        task = asyncio.ensure_future(self.app(scope, listening.receive, listening.send))
        try:
            await listening.begun()
            yield listening
        finally:
            listening.gone.set()
            await asyncio.wait_for(task, _PATIENCE_S)


class Listening:
    """The client's end of a stream of events."""

    def __init__(self) -> None:
        self.status = 0
        self.gone = asyncio.Event()
        self.ended = asyncio.Event()
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()
        self._changes: list[tuple[str | None, str | None]] = []
        self._begun = asyncio.Event()
        self._is_asked = False

    async def begun(self) -> None:
        await asyncio.wait_for(self._begun.wait(), _PATIENCE_S)

    async def receive(self) -> Message:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._begun.set()
        elif message.get("more_body"):
            self._parts.put_nowait(message["body"])
        else:
            self.ended.set()

    async def next(self, *, within_s: float = 10.0) -> tuple[int, dict[str, Any]]:
        """The next event: its id and what it says."""
        while True:
            part = await asyncio.wait_for(self._parts.get(), within_s)
            if not part.startswith(b":"):
                lines = dict(line.split(": ", 1) for line in part.decode().strip().split("\n"))
                return int(lines["id"]), parse_json(lines["data"])

    async def named(self, *, within_s: float = 10.0) -> tuple[str | None, str, dict[str, Any]]:
        """The next event of a stream that names its events: its id, if it has one, its name and what it says."""
        while True:
            part = await asyncio.wait_for(self._parts.get(), within_s)
            if not part.startswith(b":"):
                lines = dict(line.split(": ", 1) for line in part.decode().strip().split("\n"))
                return lines.get("id"), lines["event"], parse_json(lines["data"])

    async def change(self, *, within_s: float = 10.0) -> tuple[str | None, str | None]:
        """The next change that is told: its topic, and what it is about."""
        async with asyncio.timeout(within_s):
            while not self._changes:
                part = await self._parts.get()
                told = [parse_json(line[6:]) for line in part.split(b"\n") if line.startswith(b"data: ")]
                self._changes += [(each["topic"], each["about"]) for each in told]
        return self._changes.pop(0)

    async def topic(self, *, within_s: float = 10.0) -> str | None:
        """The topic of the next change that is told."""
        return (await self.change(within_s=within_s))[0]

    async def place(self, *, within_s: float = 10.0) -> int:
        """The next id that comes without an event."""
        async with asyncio.timeout(within_s):
            while True:
                part = await self._parts.get()
                if part.startswith(b":") and b"\nid: " in part:
                    return int(part.split(b"\nid: ")[1])

    async def is_silent(self, *, for_s: float = 0.8) -> bool:
        with suppress(TimeoutError):
            await self.next(within_s=for_s)
            return False
        return True


def _spelt(headers: Mapping[str, str]) -> dict[str, str]:
    """Header names from names of arguments."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _scope(method: str, target: str | bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    raw = target.encode() if isinstance(target, str) else target
    path, _, query = raw.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8765),
    }


def _receiver(body: bytes | Sequence[bytes]) -> Any:
    parts = [body] if isinstance(body, bytes) else list(body)
    pending = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)} for number, part in enumerate(parts, 1)
    ]

    async def receive() -> Message:
        return pending.pop(0) if pending else {"type": "http.disconnect"}

    return receive
