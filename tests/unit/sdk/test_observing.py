"""A session recorder that several share, over a wire that loses answers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from twinraven.foundation.errors import Conflict, InvalidInput
from twinraven.sdk import AsyncSessionRecorder, ObservedCall, ServerUnreachable, SessionRecorder


class Server:
    """Keeps each id once, takes its time, and loses the answers it is told to."""

    def __init__(self) -> None:
        self.kept: list[ObservedCall] = []
        self.is_away = False
        self.loses_answers = 0
        self.tries = 0
        self.stays = 0
        """Until it has so many calls, then it goes away; 0 is for ever."""

    async def send(self, calls: Sequence[ObservedCall]) -> None:
        seen = list(calls)
        await asyncio.sleep(0.01)
        self.take(seen)

    async def send_blocking(self, calls: Sequence[ObservedCall]) -> None:
        seen = list(calls)
        time.sleep(0.002)
        self.take(seen)

    def take(self, calls: list[ObservedCall]) -> None:
        self.tries += 1
        self.is_away = self.is_away or 0 < self.stays == len(self.kept)
        if self.is_away:
            self.stays = 0
            raise ServerUnreachable("away")
        if any(call.tool_id == "bad" for call in calls):
            raise InvalidInput("bad tool", field="events[0].tool_id")
        known = {call.event_id for call in self.kept}
        self.kept += [call for call in calls if call.event_id not in known]
        if self.loses_answers:
            self.loses_answers -= 1
            raise ServerUnreachable("lost")
        taken = [str(call.event_id) for call in calls if call.event_id in known]
        if taken:
            raise Conflict("some events have ids that are taken", event_ids=taken)

    @property
    def numbers(self) -> list[int]:
        return [call.params["n"] for call in self.kept]


async def test_many_tasks_record_into_one_session() -> None:
    """Each call is stored once and in order, and nobody is told of a conflict with another's sending."""
    server = Server()
    async with AsyncSessionRecorder(server.send, "s") as session:
        ids = await asyncio.gather(*(session.record("t", {"n": n}) for n in range(250)))
    assert server.numbers == list(range(250))
    assert [call.event_id for call in server.kept] == ids


async def test_a_call_that_comes_while_others_are_sent_is_sent_next() -> None:
    """Two overlapping flushes let go only what each of them sent."""
    server = Server()
    session = AsyncSessionRecorder(server.send, "s")
    await session.record("t", {"n": 0})
    first = asyncio.ensure_future(session.flush())
    await asyncio.sleep(0)
    await session.record("t", {"n": 1})
    second = asyncio.ensure_future(session.flush())
    await asyncio.sleep(0)
    await session.record("t", {"n": 2})
    await asyncio.gather(first, second)
    await session.flush()
    assert server.numbers == [0, 1, 2]


async def test_a_lost_answer_does_not_stick() -> None:
    """What the server already has counts as sent, and what came since follows it."""
    server = Server()
    server.loses_answers = 1
    session = AsyncSessionRecorder(server.send, "s")
    await session.record("t", {"n": 0})
    with pytest.raises(ServerUnreachable):
        await session.flush()
    await session.record("t", {"n": 1})
    await session.flush()
    await session.flush()
    assert (server.numbers, server.tries) == ([0, 1], 2)


async def test_a_cancelled_flush_loses_nothing() -> None:
    """What was on its way is sent again, and is there once."""
    server = Server()
    session = AsyncSessionRecorder(server.send, "s")
    await session.record("t", {"n": 0})
    sending = asyncio.ensure_future(session.flush())
    await asyncio.sleep(0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await session.flush()
    assert server.numbers == [0]


async def test_nobody_waits_for_an_absent_server_behind_another() -> None:
    """All who stood behind a try that failed are told with it; the next try is made all the same."""
    server = Server()
    server.is_away = True
    session = AsyncSessionRecorder(server.send, "s")
    told = await asyncio.gather(*(session.record("t", {"n": n}) for n in range(150)), return_exceptions=True)
    assert sum(isinstance(each, ServerUnreachable) for each in told) == 51
    assert server.tries == 1
    server.is_away = False
    await session.flush()
    assert server.numbers == list(range(150))


async def test_a_call_that_is_refused_holds_up_no_other() -> None:
    """The good ones are stored; the bad one is told once, by its id, and not sent again."""
    server = Server()
    session = AsyncSessionRecorder(server.send, "s")
    bad = None
    for n in range(5):
        event_id = await session.record("bad" if n == 2 else "t", {"n": n})
        bad = event_id if n == 2 else bad
    with pytest.raises(InvalidInput, match="bad tool") as raised:
        await session.flush()
    assert raised.value.details == {"field": "events[0].tool_id", "event_ids": [str(bad)]}
    await session.flush()
    assert server.numbers == [0, 1, 3, 4]


async def test_a_refusal_is_told_although_the_server_went_away_after_it() -> None:
    """What was refused before the rest could not be sent is raised when the rest is there."""
    server = Server()
    server.is_away = True
    session = AsyncSessionRecorder(server.send, "s")
    calls = (session.record("bad" if n == 0 else "t", {"n": n}) for n in range(600))
    await asyncio.gather(*calls, return_exceptions=True)
    server.is_away = False
    server.stays = 499
    with pytest.raises(ServerUnreachable):
        await session.flush()
    server.is_away = False
    with pytest.raises(InvalidInput):
        await session.flush()
    assert server.numbers == list(range(1, 600))


def test_many_threads_record_into_one_session() -> None:
    """Without an event loop it is the same."""
    server = Server()
    troubles: list[Exception] = []

    def work(thread: int) -> None:
        try:
            for n in range(150):
                session.record("t", {"n": thread * 1000 + n})
        except Exception as error:  # noqa: BLE001 - told below
            troubles.append(error)

    with SessionRecorder(server.send_blocking, "s") as session:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert troubles == []
    assert len(server.numbers) == 600
    for thread in range(4):
        assert [n for n in server.numbers if n // 1000 == thread] == [thread * 1000 + n for n in range(150)]
