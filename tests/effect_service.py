"""A provider of effects over HTTP that fails in every way it is told to, and counts what really happened.

It serves on a thread and a loop of its own, so that workers in this process and in others speak to it alike. Each fault
is the name of a moment: before or after the effect, with an answer that lies, breaks off or never comes.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

FAULTS = (
    "refused",
    "busy",
    "error_before",
    "error_after",
    "drop_before",
    "drop_after",
    "half_answer",
    "no_json",
    "never",
    "conflict",
    "pending",
    "redirect",
)


@dataclass
class EffectService:
    """What happened under which key; `faults` are used up, one for each request that would cause an effect."""

    recognises_keys: bool = True
    faults: deque[str] = field(default_factory=deque[str])
    chance: float = 0.0
    """How likely a request meets a fault of its own accord."""
    longest_s: float = 0.0
    """How long it takes at most before an effect, and again after it."""
    happened: Counter[str] = field(default_factory=Counter[str])
    bodies: dict[str, bytes] = field(default_factory=dict[str, bytes])
    tokens: set[str] = field(default_factory=set[str])
    """What requests said in Authorization."""
    asked: int = 0
    url: str = ""
    is_mute: bool = False
    """Whether asking what became of a key fails."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, path, _ = first.split(" ")
            self.tokens.add(headers.get("authorization", ""))
            if method == "GET":
                self._tell(writer, path.rpartition("/")[2])
            else:
                await self._cause(writer, headers["idempotency-key"], body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _tell(self, writer: asyncio.StreamWriter, key: str) -> None:
        self.asked += 1
        if self.is_mute:
            _write(writer, 503, {"error": "ask later"})
        elif self.happened[key]:
            _write(writer, 200, {"id": f"ext-{key[:8]}", "status": "done"})
        else:
            _write(writer, 404, {"error": "never heard of it"})

    async def _cause(self, writer: asyncio.StreamWriter, key: str, body: bytes) -> None:
        fault = self.faults.popleft() if self.faults else "none"
        if fault == "none" and random.random() < self.chance:
            fault = random.choice(("error_before", "error_after", "drop_before", "drop_after", "half_answer"))
        early = {
            "refused": (422, "no"),
            "busy": (429, "later"),
            "error_before": (500, "oops"),
            "conflict": (409, "key"),
        }
        if fault in early:
            status, why = early[fault]
            _write(writer, status, {"message": why})
            return
        await asyncio.sleep(random.uniform(0.0, self.longest_s))
        if fault == "drop_before":
            return
        if not (self.recognises_keys and self.happened[key]):
            self.happened[key] += 1
            self.bodies[key] = body
        await asyncio.sleep(random.uniform(0.0, self.longest_s))
        done = {"id": f"ext-{key[:8]}", "status": "done", "chain_tx_hash": f"0x{key[:16]}"}
        if fault == "error_after":
            _write(writer, 500, {"message": "oops"})
        elif fault == "pending":
            _write(writer, 202, {"id": f"ext-{key[:8]}", "status": "pending"})
        elif fault == "redirect":
            writer.write(b"HTTP/1.1 303 See Other\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
        elif fault == "half_answer":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
        elif fault == "no_json":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nthx!")
        elif fault == "never":
            await asyncio.sleep(3)
        elif fault != "drop_after":
            _write(writer, 200, done)


def _write(writer: asyncio.StreamWriter, status: int, body: dict[str, str]) -> None:
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    writer.write(head.encode() + text)


@contextmanager
def effect_service(*, recognises_keys: bool = True, faults: Iterable[str] = ()) -> Generator[EffectService]:
    """The service, listening while the block lasts."""
    service = EffectService(recognises_keys, deque(faults))
    loop, ready = asyncio.new_event_loop(), threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        server = await asyncio.start_server(service.answer, "127.0.0.1", 0)
        service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/effects"
        ready.set()
        await stop.wait()
        server.close()
        await _end_tasks(loop)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield service
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Let what is still being answered end."""
    rest = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
