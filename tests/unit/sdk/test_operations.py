"""What a client makes of several answers: a stream resumed, batches recorded, a refusal remembered, a long session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from twinraven.foundation.errors import ApprovalDenied, Conflict, NotFound, StorageBusy
from twinraven.sdk import Event, ObservedCall, ServerUnreachable
from twinraven.sdk.exchange import Exchange
from twinraven.sdk.operations import Operations
from twinraven.sdk.wire import Reply, Stream, WireRequest, each, finish

GATEWAY = Reply(502, {}, b"<html>")


def said(body: Any, *, status: int = 200) -> Reply:
    return Reply(status, {}, orjson.dumps(body))


def problem(status: int, code: str, *, retryable: bool = False, **details: Any) -> Reply:
    return said({"code": code, "detail": code, "retryable": retryable, "details": details}, status=status)


BUSY = problem(503, "STORAGE_BUSY", retryable=True)


def event(number: int) -> dict[str, Any]:
    return {
        "session_id": "s",
        "tool_id": "t",
        "input_hash": "h",
        "input_params": {"n": number},
        "latency_ms": 0,
        "outcome": "success",
        "event_id": str(UUID(int=number)),
        "timestamp": "2026-01-01T00:00:00.000000Z",
    }


class ScriptedWire:
    """Answers from a script; a lost answer is None, and a stream gives its body and breaks off."""

    def __init__(self, *answers: Reply | None) -> None:
        self.answers = list(answers)
        self.letters: list[WireRequest] = []
        self.pauses = 0

    async def exchange(self, request: WireRequest) -> Reply:
        self.letters.append(request)
        answer = self.answers.pop(0)
        if answer is None:
            raise ServerUnreachable("lost")
        return answer

    @asynccontextmanager
    async def stream(self, request: WireRequest) -> AsyncGenerator[Stream]:
        reply = await self.exchange(request)
        yield Stream(reply, _parts(reply.body))

    async def pause(self, seconds: float) -> None:
        del seconds
        self.pauses += 1

    async def close(self) -> None:
        self.answers.clear()


async def _parts(body: bytes) -> AsyncGenerator[bytes]:
    if body:
        yield body


def live(*numbers: int) -> Reply:
    told = (b"id: %d\ndata: %s\n\n" % (number, orjson.dumps(event(number))) for number in numbers)
    return Reply(200, {}, b"".join(told))


def over(*answers: Reply | None) -> tuple[ScriptedWire, Operations]:
    wire = ScriptedWire(*answers)
    return wire, Operations(Exchange(wire, "http://h", None))


def numbers(events: Iterable[Event]) -> list[int]:
    return [each.input_params["n"] for each in events]


def test_a_stream_outlasts_a_busy_server() -> None:
    """Busy, away or hidden by a proxy: the stream goes on behind the last event; a refusal ends it."""
    wire, operations = over(live(1, 2), BUSY, None, GATEWAY, live(3), problem(404, "NOT_FOUND"))
    stream = each(operations.follow())
    seen = [next(stream) for _ in range(3)]
    with pytest.raises(NotFound):
        next(stream)
    assert numbers(seen) == [1, 2, 3]
    assert [request.headers.get("Last-Event-ID") for request in wire.letters] == [None, "2", "2", "2", "2", "3"]


def test_a_stream_does_not_wait_for_ever() -> None:
    """A server that stays busy is told in the end."""
    wire, operations = over(live(1), *[BUSY] * 20)
    stream = each(operations.follow())
    assert numbers([next(stream)]) == [1]
    with pytest.raises(StorageBusy):
        next(stream)
    assert 5 < len(wire.letters) < 15


def test_a_conflict_in_one_batch_keeps_no_other_from_being_sent() -> None:
    """All batches go out; the conflict that is raised then names every id that is taken."""
    calls = [ObservedCall("s", "t", {"n": n}, event_id=uuid4()) for n in range(1200)]
    first, last = str(calls[0].event_id), str(calls[-1].event_id)
    wire, operations = over(
        problem(409, "CONFLICT", event_ids=[first]),
        said({"event_ids": [str(call.event_id) for call in calls[500:1000]]}, status=201),
        problem(409, "CONFLICT", event_ids=[last]),
    )
    with pytest.raises(Conflict) as raised:
        finish(operations.record(calls))
    assert raised.value.details == {"event_ids": [first, last]}
    sent = [len(orjson.loads(request.content or b"")["events"]) for request in wire.letters]
    assert sent == [500, 500, 200]


def test_a_refused_call_gives_its_key_back() -> None:
    """While a call waits it is made again under its key; after a no, the same call is a new one."""
    tool = said({"tool_id": "t", "description": "d", "input_schema": {}, "effect": "write"})
    waits = said({"id": "1", "request_id": "2", "status": "failed", "error": {"code": "APPROVAL_PENDING"}})
    wire, operations = over(tool, waits, waits, problem(403, "APPROVAL_DENIED"), waits)
    for _ in range(2):
        assert finish(operations.invoke("t", session_id="s")).is_pending
    with pytest.raises(ApprovalDenied):
        finish(operations.invoke("t", session_id="s"))
    assert finish(operations.invoke("t", session_id="s")).is_pending
    one, two, three, four = (request.headers["Idempotency-Key"] for request in wire.letters[1:])
    assert one == two == three
    assert four != one


def session_of(count: int, shown: Iterable[int], **more: Any) -> Reply:
    moment = "2026-01-01T00:00:00.000000Z"
    about = {"session_id": "s", "event_count": count, "outcome": "success", "started_at": moment, "ended_at": moment}
    return said({**about, "events": [event(n) for n in shown], **more})


def test_a_long_session_is_whole() -> None:
    """What one answer leaves out is fetched page by page; an answer that holds everything is enough."""
    wire, operations = over(
        session_of(5, [1, 2], events_truncated=True),
        said({"items": [event(n) for n in (1, 2, 3)], "next_cursor": "c"}),
        said({"items": [event(n) for n in (4, 5)], "next_cursor": None}),
        session_of(2, [1, 2]),
    )
    assert numbers(finish(operations.session("s")).events) == [1, 2, 3, 4, 5]
    assert numbers(finish(operations.session("s")).events) == [1, 2]
    assert len(wire.letters) == 4
