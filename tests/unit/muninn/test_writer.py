"""The writer: batches, waiters, refusals, stores that go away and come back, and the end."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Generator
from typing import Any
from uuid import UUID

import pytest

from tests.unit.muninn.fake_store import FakeStore, collector_on, writer_on
from twinraven.foundation.errors import (
    Conflict,
    InvalidInput,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from twinraven.muninn import Collector, EncodingRules, Observation, Receipt, encode_params
from twinraven.muninn.columns import Row
from twinraven.muninn.row import RowEncoder

AWAY = StorageUnavailable("the store is away")


@pytest.fixture
def store() -> Generator[FakeStore]:
    store = FakeStore()
    yield store
    store.gate.set()


def observation(collector: Collector, tool: str = "f") -> Receipt:
    return collector.observe("s").record(tool, {}, output=1)


async def test_tasks_share_a_commit(store: FakeStore) -> None:
    """Tasks that record at the same time are committed together, in the order in which they came."""
    collector = collector_on(store)
    await observation(collector)
    await asyncio.gather(*(collector.observe("s").record("f", {"n": number}) for number in range(64)))
    # A machine that is busy with other things may let the writer start before the last task had its turn.
    assert len(store.batches) <= 4
    assert [row["input_params"] for row in store.rows[1:]] == [f'{{"n":{number}}}' for number in range(64)]
    collector.close()


async def test_a_receipt_has_any_number_of_waiters(store: FakeStore) -> None:
    """Tasks, another loop and a thread may wait for one event; each learns the same, and so do latecomers."""
    store.gate.clear()
    collector = collector_on(store)
    receipt = observation(collector)

    async def wait() -> UUID:
        return await receipt

    others = [asyncio.to_thread(asyncio.run, wait()), asyncio.to_thread(receipt.result)]
    waiting = [asyncio.ensure_future(work) for work in (wait(), wait(), *others)]
    await asyncio.sleep(0.05)
    assert not any(work.done() for work in waiting)
    store.gate.set()
    assert set(await asyncio.gather(*waiting)) == {receipt.event_id}
    assert await receipt == receipt.result() == receipt.event_id
    collector.close()


async def test_a_waiter_may_go_away(store: FakeStore) -> None:
    """A cancelled waiter, or a loop that was closed, does not disturb the writer or the other waiters."""
    store.gate.clear()
    collector = collector_on(store)
    receipt = observation(collector)

    async def give_up() -> None:
        async with asyncio.timeout(0.02):
            await receipt

    def on_a_loop_that_ends() -> None:
        with pytest.raises(TimeoutError):
            asyncio.run(give_up())

    await asyncio.to_thread(on_a_loop_that_ends)
    with pytest.raises(TimeoutError):
        await give_up()
    store.gate.set()
    assert await receipt == receipt.event_id
    assert await observation(collector)
    collector.close()


@pytest.mark.parametrize("refusal", [InvalidInput("a value too odd"), Conflict("that id is taken")])
async def test_one_bad_event_does_not_cost_the_others(store: FakeStore, refusal: Exception) -> None:
    """The store refuses a batch for the fault of one event: that one is told, and all the others are stored."""
    store.refused["bad"] = refusal
    collector = collector_on(store)
    names = [f"good-{number}" for number in range(20)]
    names[7] = names[13] = "bad"
    answers = await asyncio.gather(*(observation(collector, name) for name in names), return_exceptions=True)
    assert [isinstance(answer, type(refusal)) for answer in answers] == [name == "bad" for name in names]
    assert store.tools == [name for name in names if name != "bad"]
    collector.close()


async def test_a_passing_failure_is_waited_out(store: FakeStore) -> None:
    """A store that is away for a moment costs nobody anything, not even events nobody waits for."""
    store.before_commit.extend([AWAY, AWAY])
    collector = collector_on(store)
    observation(collector, "unawaited")
    await observation(collector, "awaited")
    assert store.tools == ["unawaited", "awaited"]
    collector.flush()
    collector.close()


async def test_a_lost_answer_to_a_commit_does_not_double_events(store: FakeStore) -> None:
    """Where a commit happened but its answer was lost, the events are found by id and not written again."""
    store.after_commit.append(AWAY)
    store.after_commit.append(StorageError("input/output error during COMMIT"))
    collector = collector_on(store)
    await observation(collector, "first")
    await observation(collector, "second")
    assert store.tools == ["first", "second"]
    collector.close()


async def test_a_lasting_failure_is_told_and_the_writer_recovers(store: FakeStore) -> None:
    """No space is an error at once, for everybody in the batch; once there is room again, recording goes on."""
    store.unreachable = StorageFull("no space left")
    collector = collector_on(store)
    answers = await asyncio.gather(*(observation(collector) for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StorageFull] * 3
    store.unreachable = None
    await observation(collector, "later")
    assert store.tools == ["later"]
    collector.close()


async def test_postgres_asks_for_another_try_and_sqlite_has_waited_already() -> None:
    """A busy Postgres is tried again; a busy SQLite has been waited for by its own time-out."""
    postgres, sqlite = FakeStore("postgres"), FakeStore("sqlite")
    for store in (postgres, sqlite):
        store.before_commit.append(StorageBusy("locked"))
    collectors = [collector_on(store) for store in (postgres, sqlite)]
    assert await observation(collectors[0])
    with pytest.raises(StorageBusy):
        await observation(collectors[1])
    for collector in collectors:
        collector.close()


async def test_a_loss_nobody_waited_for_is_said(store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    """An event that was let go and could not be stored is in the program's log, and the next flush raises once."""
    store.unreachable = StorageFull("no space left")
    collector = collector_on(store)
    with caplog.at_level(logging.ERROR, "twinraven.muninn"):
        observation(collector)
        with pytest.raises(StorageFull):
            collector.flush()
    assert "1 events that nobody waits for were not stored: no space left" in caplog.text
    collector.flush()
    collector.close()


class OddEncoder(RowEncoder):
    """Raises what the test wants, for a tool of that name."""

    def __init__(self) -> None:
        super().__init__(EncodingRules())
        self.surprises: dict[str, BaseException] = {}

    def encode(self, seen: Observation) -> tuple[Row, Row | None]:
        surprise = self.surprises.get(seen.tool_id)
        if surprise is not None:
            raise surprise
        return super().encode(seen)


def seen(tool: str) -> Observation:
    facts: dict[str, Any] = dict.fromkeys(Observation._fields)
    facts.update(
        tenant_id="default",
        event_id=UUID(int=len(tool)),
        session_id="s",
        tool_id=tool,
        params=encode_params({}),
        timestamp=0,
        latency_ms=0,
        outcome="partial",
        tags=(),
        raised=False,
        time_known=True,
    )
    return Observation(**facts)


def test_an_event_that_cannot_be_encoded_is_alone_in_that(store: FakeStore) -> None:
    """A surprise while encoding one event is that event's error; the thread and the others go on."""
    encoder = OddEncoder()
    encoder.surprises = {"odd": ZeroDivisionError("1/0"), "odder": InvalidInput("no")}
    writer = writer_on(store, encoder)
    receipts = [writer.submit(seen(tool)) for tool in ("a", "odd", "odder", "b")]
    with pytest.raises(StorageError, match="1/0"):
        receipts[1].result()
    with pytest.raises(InvalidInput):
        receipts[2].result()
    assert [receipts[place].result().int for place in (0, 3)] == [1, 1]
    writer.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_leaves_nobody_waiting(store: FakeStore) -> None:
    """If the writer's thread is killed, its batch is told, and what is queued is written by the next thread."""
    encoder = OddEncoder()
    encoder.surprises["deadly"] = KeyboardInterrupt()
    writer = writer_on(store, encoder)
    with pytest.raises(StorageError, match="KeyboardInterrupt"):
        writer.submit(seen("deadly")).result(timeout=5)
    for thread in threading.enumerate():
        if thread.name == "twinraven-muninn":
            thread.join(timeout=5)
    writer.submit(seen("later")).result(timeout=5)
    assert store.tools == ["later"]
    writer.close()


def test_a_store_that_surprises_is_survived(store: FakeStore) -> None:
    """Even an error that no driver should raise becomes one of ours, and the next batch is stored."""
    store.before_commit.append(RuntimeError("what?"))
    collector = collector_on(store)
    with pytest.raises(StorageError, match="what"):
        observation(collector).result()
    observation(collector).result()
    collector.close()


def test_a_full_queue_slows_threads_down(store: FakeStore) -> None:
    """A thread that outruns the store waits for room, and everything it recorded is stored."""
    store.gate.clear()
    collector = collector_on(store, queue_size=10)
    done = threading.Event()

    def outrun() -> None:
        for number in range(600):
            collector.observe("s").record("f", {"n": number})
        done.set()

    thread = threading.Thread(target=outrun)
    thread.start()
    assert not done.wait(0.1)
    store.gate.set()
    assert done.wait(10)
    collector.close()
    assert len(store.rows) == 600


async def test_a_full_queue_refuses_coroutines_rather_than_block_the_loop(store: FakeStore) -> None:
    """A coroutine may overdraw, so that tasks who waited for room together all pass; then it is refused at once."""
    store.gate.clear()
    collector = collector_on(store, queue_size=10)
    observation(collector)
    # The writer has taken that one and waits for the store; from now on nothing leaves the queue.
    assert await asyncio.to_thread(store.entered.wait, 5)
    begun = time.perf_counter()
    assert _record_until_refused(collector) == 20
    assert time.perf_counter() - begun < 5
    waiting = asyncio.create_task(collector.room())
    await asyncio.sleep(0.02)
    assert not waiting.done()
    store.gate.set()
    await asyncio.wait_for(waiting, 5)
    await observation(collector)
    collector.close()
    assert len(store.rows) == 22


def _record_until_refused(collector: Collector) -> int:
    for accepted in range(600):
        try:
            observation(collector)
        except StorageBusy as refusal:
            assert "room" in refusal.message
            return accepted
    raise AssertionError("the queue has no end")


def test_closing_writes_what_is_queued(store: FakeStore) -> None:
    """Everything recorded before the end is stored; afterwards recording is refused, closing again does nothing."""
    collector = collector_on(store)
    session = collector.observe("s")
    receipts = [session.record("f", {"n": number}) for number in range(2000)]
    collector.close()
    assert len(store.rows) == 2000
    assert receipts[-1].result() == receipts[-1].event_id
    for _ in range(2):
        with pytest.raises(StorageError, match="closed"):
            session.record("f", {})
        collector.close()
        collector.flush()


def test_closing_with_a_store_that_is_away_ends(store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    """A process that wants to end does not wait for a lost store batch by batch."""
    store.unreachable = AWAY
    store.gate.clear()
    collector = collector_on(store, queue_size=5000)
    receipts = [observation(collector) for _ in range(2000)]
    threading.Timer(0.05, store.gate.set).start()
    begun = time.perf_counter()
    collector.close()
    assert time.perf_counter() - begun < 3
    assert "nobody waits for were not stored" in caplog.text
    with pytest.raises(StorageUnavailable):
        receipts[-1].result()


def test_recording_while_closing_is_stored_or_refused(store: FakeStore) -> None:
    """An event that races the end is either stored or refused, never accepted and forgotten."""
    for _ in range(30):
        store.rows.clear()
        collector = collector_on(store)
        receipts: list[Receipt] = []

        def race(collector: Collector = collector, receipts: list[Receipt] = receipts) -> None:
            try:
                while True:
                    receipts.append(observation(collector))
            except StorageError:
                return

        racers = [threading.Thread(target=race) for _ in range(2)]
        for racer in racers:
            racer.start()
        time.sleep(0.002)
        collector.close()
        for racer in racers:
            racer.join()
        assert {str(receipt.result(timeout=2)) for receipt in receipts} == {row["event_id"] for row in store.rows}
