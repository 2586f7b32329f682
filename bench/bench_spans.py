"""What receiving spans costs: `POST /v1/traces` beside `POST /v1/events` with the same calls.

Both are requests to the same application, without a socket, with a key, each with a home of its own; what is measured
is processor time until everything is answered and on disk. The spans are those of `dense_spans`: around eight calls of
a trace stand an agent's span and four of a model, so the receiver reads 13 spans where the other door is told 8 calls
that somebody else has put together. Once a request has whole traces, once a trace comes in three requests and waits for
its root in between.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import uuid4

from bench.dense_spans import CALLS, CONVENTIONS, document_of, trace_spans
from bench.harness import Harness, Row
from twinraven import open_home
from twinraven.api import api_app
from twinraven.app import TwinRaven
from twinraven.serving import AsgiApp, Authenticator, Message

TRACES: Final = 10
"""Traces that are sent together."""
ROUNDS: Final = 30
_AGAINST: Final = "POST /v1/events with the same calls"


def measure(harness: Harness) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder, ExitStack() as homes:
        for convention in CONVENTIONS:
            for parts in (1, 3) if convention == "genai" else (1,):
                place = Path(folder, f"{convention}-{parts}")
                spans, events = (_Door(homes.enter_context(_home(place / name))) for name in ("spans", "events"))
                numbers = count()
                what = "whole traces" if parts == 1 else f"traces in {parts} requests, kept until their root comes"
                rows.append(
                    harness.compare(
                        f"receiving {what}, {convention}",
                        ours=_sending(spans, "/v1/traces", lambda c=convention, p=parts, n=numbers: _spans(c, p, n)),
                        theirs=_sending(events, "/v1/events", lambda p=parts: _events(p)),
                        against=_AGAINST,
                        aim=3.0,
                    )
                )
    return rows


def _sending(door: _Door, path: str, requests: Callable[[], Iterator[bytes]]) -> Callable[[], float]:
    def contender() -> float:
        bodies = [body for _ in range(ROUNDS) for body in requests()]
        before = door.recorded()
        begun = time.process_time()
        asyncio.run(door.send(path, bodies))
        spent = time.process_time() - begun
        assert door.recorded() - before == ROUNDS * TRACES * CALLS
        return spent

    return contender


def _spans(convention: str, parts: int, numbers: Iterator[int]) -> Iterator[bytes]:
    """The spans of some traces, in as many requests; the roots are in the last."""
    traces = [list(trace_spans(convention, Random(number), number)) for number in islice(numbers, TRACES)]
    for part in range(parts):
        yield document_of([span for trace in traces for span in _part(trace, part, parts)])


def _events(parts: int) -> Iterator[bytes]:
    chance = Random(7)
    calls = [_event(chance, number % TRACES) for number in range(TRACES * CALLS)]
    for part in range(parts):
        yield json.dumps({"events": _part(calls, part, parts)}).encode()


def _event(chance: Random, session: int) -> dict[str, Any]:
    return {
        "event_id": str(uuid4()),
        "session_id": f"chat-{session:07d}",
        "tool_id": "get_invoice",
        "input_params": {"customer_id": f"C-{chance.randrange(10**9)}", "page": chance.randrange(9)},
        "output": {"id": f"INV{chance.randrange(10**9)}", "total": chance.randrange(9999)},
        "latency_ms": 12,
        "turn": 1,
    }


def _part(items: list[Any], part: int, parts: int) -> list[Any]:
    size = -(-len(items) // parts)
    return items[part * size : (part + 1) * size]


def _home(folder: Path) -> TwinRaven:
    home = folder / ".twinraven"
    home.mkdir(parents=True)
    return open_home(home)


class _Door:
    """The API of a home, asked by one who has a key."""

    def __init__(self, raven: TwinRaven) -> None:
        self._raven = raven
        issued = asyncio.run(raven.tenancy.issue_key("default", "local"))
        self._key = f"Bearer {issued.clear}".encode()
        self._app: AsgiApp = api_app(raven, Authenticator(raven.tenancy))

    def recorded(self) -> int:
        connection = self._raven.database.connect()
        with connection.transaction("default", write=False) as tx:
            row = tx.fetch_one("SELECT count(*) AS events FROM muninn_event_log")
        connection.close()
        return 0 if row is None else row["events"]

    async def send(self, path: str, bodies: list[bytes]) -> None:
        for body in bodies:
            await self._ask(path, body)

    async def _ask(self, path: str, body: bytes) -> None:
        said: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            said.append(message)

        headers = [(b"host", b"x"), (b"content-type", b"application/json"), (b"authorization", self._key)]
        headers.append((b"content-length", str(len(body)).encode()))
        scope: Any = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8765),
        }
        await self._app(scope, receive, send)
        assert said[0]["status"] in (200, 201), said
