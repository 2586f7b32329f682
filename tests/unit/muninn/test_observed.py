"""`@observed`: every call of a function becomes an event, however it ends, and the function stays what it was."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from twinraven.foundation.errors import StorageError
from twinraven.muninn import Collector, MuninnEvent, Outcome, SqlEventStore, observed
from twinraven.storage import Database


@pytest.fixture
def collector(sqlite_database: Database) -> Generator[Collector]:
    collector = Collector(sqlite_database)
    yield collector
    collector.close()


@pytest.fixture
def store(sqlite_database: Database) -> SqlEventStore:
    return SqlEventStore(sqlite_database)


def read(collector: Collector, store: SqlEventStore, session: str = "s") -> tuple[MuninnEvent, ...]:
    collector.flush()
    return asyncio.run(store.session("default", session)).events


@observed()
def add(a: int, b: int = 2, *more: int, scale: int = 1) -> int:
    """Add."""
    return (a + b + sum(more)) * scale


@observed("fail", durable=False)
def fail_with(error: BaseException) -> None:
    raise error


class Desk:
    @observed(outcome=Outcome.SUCCESS)
    def look(self, order: dict[str, Any]) -> dict[str, Any]:
        order["seen"] = True
        return order


def test_a_sync_call_is_recorded_and_durable(collector: Collector, store: SqlEventStore) -> None:
    """Arguments are recorded by name, the result as output, and the event is there when the call returns."""
    with collector.observe("s"):
        assert add(1, 2, 3, scale=2) == 12
    (event,) = asyncio.run(store.session("default", "s")).events
    assert (event.tool_id, event.input_params) == ("add", {"a": 1, "b": 2, "more": [3], "scale": 2})
    assert (event.output_summary, event.outcome) == ("12", Outcome.PARTIAL)
    assert add.__doc__ == "Add."


def test_the_parentheses_may_be_left_out(collector: Collector, store: SqlEventStore) -> None:
    """`@observed` alone is what most people type first."""

    @observed
    def double(n: int) -> int:
        return 2 * n

    with collector.observe("s"):
        assert double(4) == 8
    (event,) = read(collector, store)
    assert (event.tool_id, event.input_params) == ("double", {"n": 4})


@pytest.mark.req("TR-08")
def test_a_method_is_recorded_without_its_object(collector: Collector, store: SqlEventStore) -> None:
    """`self` is no argument, and what the function does to its arguments afterwards does not rewrite the record."""
    with collector.observe("s"):
        result = Desk().look({"id": 1})
    result["id"] = 99
    (event,) = read(collector, store)
    assert (event.tool_id, event.outcome) == ("look", Outcome.SUCCESS)
    assert event.output_summary == '{"id":1,"seen":true}'


@pytest.mark.req("TR-01")
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_a_call_that_raised_is_recorded_and_raises(
    collector: Collector, store: SqlEventStore, error: BaseException
) -> None:
    """Whatever ends a call, the event says so and the caller gets the very same exception."""
    with collector.observe("s"), pytest.raises(type(error)) as caught:
        fail_with(error)
    assert caught.value is error
    (event,) = read(collector, store)
    assert (event.raised, event.error_code, event.outcome) == (True, type(error).__name__, Outcome.FAILURE)


def test_arguments_that_do_not_fit_are_recorded_as_they_came(collector: Collector, store: SqlEventStore) -> None:
    """A call with the wrong arguments raises as it would have, and is recorded as well as it can be."""
    with collector.observe("s"), pytest.raises(TypeError):
        add(unheard=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    (event,) = read(collector, store)
    assert (event.error_code, event.input_params) == ("TypeError", {"args": [], "unheard": 1})


def test_what_cannot_be_recorded_does_not_break_the_call(collector: Collector, store: SqlEventStore) -> None:
    """A call happened even if its arguments or its result cannot be written down; the reason is, in their place."""

    @observed()
    def grow(number: int) -> int:
        return number * 2**9000

    with collector.observe("s"):
        assert grow(1) == 2**9000
        assert grow(2**9000) == 2**18000
    small, large = read(collector, store)
    assert (small.input_params, "not_recordable" in str(small.output_summary)) == ({"number": 1}, True)
    assert "not_recordable" in large.input_params


def test_outside_of_a_session_a_function_just_runs(
    collector: Collector, store: SqlEventStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Without an open session the function runs, sync or async, nothing is recorded, and the debug log says so."""

    @observed()
    async def add_later(number: int) -> int:
        return number + 1

    with caplog.at_level("DEBUG"):
        assert (add(1), asyncio.run(add_later(1))) == (3, 2)
    assert [record.message.split()[0] for record in caplog.records if "not recorded" in record.message] == [
        "add",
        "add_later",
    ]
    with collector.observe("s"):
        add(5)
    assert [event.input_params["a"] for event in read(collector, store)] == [5]


def test_sessions_nest_and_threads_have_their_own(collector: Collector, store: SqlEventStore) -> None:
    """The innermost session gets the call; another thread has none unless it opens one."""
    with collector.observe("outer"):
        with collector.observe("inner"):
            add(1)
        add(2)
        thread = threading.Thread(target=add, args=(3,))
        thread.start()
        thread.join()
    assert [event.input_params["a"] for event in read(collector, store, "inner")] == [1]
    assert [event.input_params["a"] for event in read(collector, store, "outer")] == [2]


async def test_one_observer_serves_many_tasks(collector: Collector, store: SqlEventStore) -> None:
    """Tasks that enter the same observer at once leave it in any order."""
    observer = collector.observe("s")

    @observed()
    async def step(number: int) -> int:
        await asyncio.sleep(0.001 * (5 - number))
        return number

    async def work(number: int) -> None:
        with observer:
            await step(number)

    await asyncio.gather(*(work(number) for number in range(5)))
    assert (await store.session("default", "s")).event_count == 5


@pytest.mark.req("TR-01")
async def test_an_async_call_is_recorded_however_it_ends(collector: Collector, store: SqlEventStore) -> None:
    """Results, exceptions and cancellation of a coroutine each leave one event."""

    @observed()
    async def wait(seconds: float) -> float:
        if seconds < 0:
            raise ValueError("negative")
        await asyncio.sleep(seconds)
        return seconds

    with collector.observe("s"):
        assert await wait(0.0) == 0.0
        with pytest.raises(ValueError, match="negative"):
            await wait(-1.0)
        task = asyncio.create_task(wait(60.0))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.to_thread(collector.flush)
    events = (await store.session("default", "s")).events
    assert sorted(str(event.error_code) for event in events) == ["CancelledError", "None", "ValueError"]


async def test_the_loop_is_never_blocked(collector: Collector, store: SqlEventStore) -> None:
    """Recording from coroutines, awaited or not, and observed functions of both kinds, never stop the loop."""

    @observed()
    async def step(number: int) -> int:
        return number

    with blockbuster_ctx("twinraven"), collector.observe("s") as session:
        await session.record("f", {})
        session.record("f", {})
        await step(1)
        add(1)
        await asyncio.gather(*(session.record("f", {"n": number}) for number in range(100)))
        assert (await store.session("default", "s")).event_count >= 102


async def test_a_closed_collector_says_so(collector: Collector) -> None:
    """An observed call after closing raises rather than vanish."""

    @observed(durable=False)
    async def step() -> int:
        return 1

    session = collector.observe("s")
    collector.close()
    with session, pytest.raises(StorageError, match="closed"):
        await step()
