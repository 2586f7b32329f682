"""One key, one effect: repetitions, other bodies, lost answers and callers who go away."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import suppress

import pytest

from tests.unit.calls.world import World, code, open_world
from twinraven.foundation.errors import StorageError
from twinraven.storage import Database


@pytest.fixture
def world(database: Database) -> Generator[World]:
    with open_world(database) as world:
        yield world


async def test_the_same_key_gives_the_same_answer_and_one_effect(world: World) -> None:
    """A repeated request is answered from the record; nothing is sent again, and the log shows both calls."""
    first = await world.invoke("refund", {"order_id": 1}, idempotency_key="k")
    again = await world.invoke("refund", {"order_id": 1, "amount": "1.00"}, idempotency_key="k")
    assert again.output == first.output == {"refunded": 1, "amount": "1.00", "number": 1}
    assert (first.replayed, again.replayed) == (False, True)
    assert world.tools.effects == [1]
    assert [event.tags for event in await world.events()] == [[], ["cached-result"]]


async def test_concurrent_callers_cause_one_effect(world: World) -> None:
    """Of many who ask at once under one key, one causes the effect; the others get its answer or are told to wait."""
    responses = await asyncio.gather(*(world.invoke("refund", {"order_id": 1}, idempotency_key="k") for _ in range(8)))
    assert world.tools.effects == [1]
    assert {code(response) for response in responses} <= {None, "CALL_IN_PROGRESS"}
    assert sum(not response.replayed and response.error is None for response in responses) == 1


async def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    """A key belongs to one request."""
    await world.invoke("refund", {"order_id": 1}, idempotency_key="k")
    assert code(await world.invoke("refund", {"order_id": 2}, idempotency_key="k")) == "IDEMPOTENCY_CONFLICT"
    assert world.tools.effects == [1]


async def test_a_retryable_failure_frees_the_key(world: World) -> None:
    """After a failure that may be tried again, the same key tries again."""
    world.tools.is_down = True
    assert code(await world.invoke("refund", {"order_id": 1}, idempotency_key="k")) == "TOOL_UNAVAILABLE"
    world.tools.is_down = False
    assert (await world.invoke("refund", {"order_id": 1}, idempotency_key="k")).status == "success"
    assert world.tools.effects == [1]
    assert [event.tags for event in await world.events()] == [[], ["retry"]]


async def test_what_was_not_sent_frees_the_key_though_it_will_not_come_back_by_itself(world: World) -> None:
    """A tool that somebody has turned off was not called: once it is on again, the same key calls it."""
    world.tools.is_off = True
    off = await world.invoke("refund", {"order_id": 1}, idempotency_key="k")
    assert off.error is not None
    assert (off.error["code"], off.error["retryable"]) == ("TOOL_UNAVAILABLE", False)
    world.tools.is_off = False
    assert (await world.invoke("refund", {"order_id": 1}, idempotency_key="k")).status == "success"
    assert world.tools.effects == [1]


async def test_a_write_that_called_what_is_away_is_not_made_again(world: World) -> None:
    """What a tool did before the tool that it called failed stays done: the key is not free, whatever that one says."""
    for is_off in (False, True):
        world.tools.is_off, world.tools.is_down = is_off, not is_off
        key = f"k-{is_off}"
        first = await world.invoke("pay_and_refund", {"order_id": 1}, idempotency_key=key)
        again = await world.invoke("pay_and_refund", {"order_id": 1}, idempotency_key=key)
        assert first.error is not None
        assert (first.error["code"], first.error["retryable"]) == ("TOOL_UNAVAILABLE", False)
        assert (again.error, again.replayed) == (first.error, True)
    assert world.tools.effects == ["paid", "paid"]


async def test_a_final_failure_is_kept(world: World) -> None:
    """A failure that would fail again is answered from the record."""
    first = await world.invoke("pay_badly", idempotency_key="k")
    again = await world.invoke("pay_badly", idempotency_key="k")
    assert (code(first), first.replayed, again.replayed) == ("TOOL_FAILED", False, True)
    assert again.error == first.error
    assert [event.raised for event in await world.events()] == [True, True]


async def test_a_write_past_its_time_is_unknown(world: World) -> None:
    """A write that was not answered in time may have happened: it is unknown, and is not sent again."""
    response = await world.invoke("refund_late", {"order_id": 1}, idempotency_key="k")
    assert code(response) == "EFFECT_UNKNOWN"
    await asyncio.sleep(0.3)
    again = await world.invoke("refund_late", {"order_id": 1}, idempotency_key="k")
    assert (code(again), again.replayed) == ("EFFECT_UNKNOWN", True)
    assert world.tools.effects == [1]


async def test_a_cancelled_write_is_unknown(world: World) -> None:
    """A caller who goes away in the middle of a write leaves an unknown effect under the key and in the log."""
    task = asyncio.create_task(world.invoke("refund_patiently", {"order_id": 1}, idempotency_key="k"))
    await world.tools.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = await world.invoke("refund_patiently", {"order_id": 1}, idempotency_key="k")
    assert (code(again), again.replayed) == ("EFFECT_UNKNOWN", True)
    assert [event.error_code for event in await world.events()] == ["EFFECT_UNKNOWN", "EFFECT_UNKNOWN"]


async def test_a_cancelled_read_frees_its_key(world: World) -> None:
    """A read that was given up is recorded once and may be asked again under the same key."""
    task = asyncio.create_task(world.invoke("read_patiently", idempotency_key="k"))
    await world.tools.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.tools.go_on.set()
    assert (await world.invoke("read_patiently", idempotency_key="k")).output == 1
    assert [event.raised for event in await world.events()] == [True, False]


async def test_a_caller_cancelled_at_any_moment_leaves_a_key_that_can_be_judged(world: World) -> None:
    """Wherever a cancellation strikes, the key ends free, settled or unknown, never running; one effect at most."""
    world.tools.go_on.set()
    for steps in range(12):
        key = f"k{steps}"
        task = asyncio.create_task(world.invoke("refund_patiently", {"order_id": steps}, idempotency_key=key))
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.05)
        again = await world.invoke("refund_patiently", {"order_id": steps}, idempotency_key=key)
        assert code(again) in (None, "EFFECT_UNKNOWN"), steps
        assert world.tools.effects.count(steps) <= 1


async def test_a_key_is_settled_though_the_event_cannot_be_recorded(world: World) -> None:
    """If the log refuses the event, the caller learns of it, and the effect is still never repeated."""
    world.collector.close()
    with pytest.raises(StorageError, match="closed"):
        await world.invoke("refund", {"order_id": 1}, idempotency_key="k")
    assert world.tools.effects == [1]
    with pytest.raises(StorageError, match="closed"):
        await world.invoke("refund", {"order_id": 1}, idempotency_key="k")
    assert world.tools.effects == [1]
