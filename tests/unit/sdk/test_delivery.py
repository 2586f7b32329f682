"""Calls on their way to memory, and who may send them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.errors import CallInProgress, Conflict, InvalidInput, StorageFull, TwinRavenError
from twinraven.sdk import FifoLock, ObservedCall, RemoteError, deliver


def make_calls(*kinds: str) -> list[ObservedCall]:
    return [ObservedCall("s", kind, {"n": n}, event_id=uuid4()) for n, kind in enumerate(kinds)]


class Store:
    """Keeps each id once, and refuses as a whole what holds a bad call."""

    def __init__(self, trouble: TwinRavenError | None = None) -> None:
        self.kept: list[ObservedCall] = []
        self.trouble = trouble or InvalidInput("bad")

    async def send(self, calls: Sequence[ObservedCall]) -> None:
        if any(call.tool_id == "bad" for call in calls):
            raise self.trouble
        known = {call.event_id for call in self.kept}
        self.kept += [call for call in calls if call.event_id not in known]
        taken = [str(call.event_id) for call in calls if call.event_id in known]
        if taken:
            raise Conflict("taken", event_ids=taken)


@given(st.lists(st.sampled_from(["good", "bad", "stored"]), max_size=40))
def test_only_what_is_bad_is_left_out(kinds: list[str]) -> None:
    """Whatever stands beside it, each good call is kept once and in order, and each bad one is named."""
    calls = make_calls(*kinds)
    store = Store()
    store.kept = [call for call in calls if call.tool_id == "stored"]
    refused = asyncio.run(deliver(store.send, calls))
    assert [call for call, _ in refused] == [call for call in calls if call.tool_id == "bad"]
    assert [call for call in store.kept if call.tool_id == "good"] == [call for call in calls if call.tool_id == "good"]
    assert len(store.kept) == len(calls) - len(refused)


async def test_what_is_too_large_together_is_sent_in_parts() -> None:
    """A body that is too large, by the server's word or a proxy's, is no reason to lose what is in it."""
    named = RemoteError("too large")
    named.code = "PAYLOAD_TOO_LARGE"
    for trouble in (named, RemoteError("too large", status=413)):
        store = Store(trouble)
        refused = await deliver(store.send, calls := make_calls("good", "bad", "good"))
        assert ([call for call, _ in refused], len(store.kept)) == ([calls[1]], 2)


@pytest.mark.parametrize(
    "trouble", [StorageFull("full"), CallInProgress("wait"), Conflict("taken", event_ids=[str(uuid4())])]
)
async def test_what_concerns_all_is_raised(trouble: TwinRavenError) -> None:
    """A full disk is no call's fault, and a conflict about something else does not say that these calls are there."""
    store = Store(trouble)
    with pytest.raises(type(trouble)):
        await deliver(store.send, make_calls("good", "bad"))
    assert store.kept == []


async def test_one_at_a_time_in_the_order_they_came() -> None:
    """Nobody enters while another is inside."""
    turns, seen = FifoLock(), list[int]()

    async def enter(number: int) -> None:
        async with turns:
            seen.append(number)
            await asyncio.sleep(0)
            seen.append(number)

    await asyncio.gather(*map(enter, range(5)))
    assert seen == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


async def test_whoever_goes_away_blocks_nobody() -> None:
    """One that is cancelled while waiting, or at the moment of being let in, leaves the way free."""
    turns = FifoLock()

    async def enter() -> None:
        async with turns:
            pass

    for is_let_in in (False, True):
        async with turns:
            waiting = [asyncio.ensure_future(enter()) for _ in range(3)]
            await asyncio.sleep(0)
            if not is_let_in:
                waiting[0].cancel()
        waiting[0].cancel()
        done = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
        assert [type(each) for each in done] == [asyncio.CancelledError, type(None), type(None)]
        await asyncio.wait_for(enter(), 5)


def test_loops_on_several_threads_take_turns() -> None:
    """Whoever waits on one loop is let in by whoever leaves on another."""
    turns, inside, most = FifoLock(), [0], [0]

    async def enter() -> None:
        async with turns:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            await asyncio.sleep(0.001)
            inside[0] -= 1

    async def work() -> None:
        await asyncio.wait_for(asyncio.gather(*(enter() for _ in range(10))), 10)

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    assert (most, inside) == ([1], [0])
    assert not any(thread.is_alive() for thread in threads)
