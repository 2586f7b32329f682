"""Sessions, turns and what is recorded, whichever library runs the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from twinraven.foundation.errors import Conflict, InvalidInput, StorageFull, StorageUnavailable, ToolError
from twinraven.integrations import HomeDoor, Offer, Place
from twinraven.integrations.door import Scope, door_of
from twinraven.integrations.watching import MOST_WAITING, REST_S, Book, Watch, error_words, unpack
from twinraven.sdk import ObservedCall


class Memory:
    """A door that keeps what it is told, or fails in the way it is set to."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.calls: list[ObservedCall] = []
        self.trouble = trouble
        self.tries = 0

    async def offers(self, scope: Scope) -> list[Offer]:
        del scope
        return []

    async def call(self, tool_id: str, arguments: dict[str, Any], place: Place) -> Any:
        return [tool_id, arguments, place]

    async def record(self, calls: Sequence[ObservedCall]) -> None:
        await asyncio.sleep(0)
        self.tries += 1
        if self.trouble is not None:
            raise self.trouble
        self.calls.extend(calls)


def test_turns_are_counted_once_and_per_session() -> None:
    """The same mark is the same turn; another session has turns of its own."""
    book = Book()
    assert book.take("a") == Place("a")
    for mark in (1, 1, 2):
        book.turn("a", mark, None)
    book.turn("b", 9, None)
    assert (book.take("a").turn, book.take("b").turn) == (2, 1)


def test_what_came_from_outside_belongs_to_the_next_call() -> None:
    """A message is told once, also when the turn it came in made no call."""
    book = Book()
    book.turn("a", 1, "hello")
    book.turn("a", 2, None)
    assert [book.take("a").outside_input for _ in range(2)] == ["hello", None]


def test_a_message_that_a_library_repeats_is_told_once() -> None:
    """What a run says again at each of its turns came from outside once; the next run's message is another."""
    book, first, second = Book(), object(), object()
    told: list[str | None] = []
    for mark, run in ((1, first), (2, first), (3, second)):
        book.turn("a", mark, "hello", said_in=run)
        told.append(book.take("a").outside_input)
    assert told == ["hello", None, "hello"]


def test_sessions_that_nobody_speaks_of_any_more_are_forgotten() -> None:
    """A book does not grow for ever."""
    book = Book()
    for number in range(10_001):
        book.turn(f"s{number}", 1, "hello")
    assert book.take("s0").turn is None
    assert book.take("s10000").turn == 1


@pytest.mark.req("TR-01")
async def test_what_cannot_be_json_is_recorded_as_what_it_is() -> None:
    """Arguments that are no object and outputs without a JSON form do not lose the record."""
    memory = Memory()
    watch = Watch(memory)
    loop: list[Any] = []
    loop.append(loop)
    await watch.end(watch.begin(Place("s", 3, "hello"), "t", "just text"), loop)
    await watch.end(watch.begin(Place("s"), "t", {"a": {1, 2}}), '{"n": 1}')
    first, second = memory.calls
    assert (first.params, first.turn, first.outside_input) == ({"input": "just text"}, 3, "hello")
    assert "not_recordable" in first.output
    assert (second.params, second.output) == ({"a": [1, 2]}, {"n": 1})


async def test_a_cancelled_call_is_recorded() -> None:
    """A call that was called off happened all the same."""
    memory = Memory()
    watch = Watch(memory)
    begun = watch.begin(Place("s"), "t", {})

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            await watch.fail(begun, error)
            raise

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(call.error_code, call.error) for call in memory.calls] == [("CancelledError", "CancelledError")]


async def test_what_memory_refuses_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be recorded is said with the code that says why, and is not tried again."""
    memory = Memory(StorageFull("no space left"))
    watch = Watch(memory)
    await watch.fail(watch.begin(Place("s"), "t", {}), "broken")
    assert "1 calls, the last of t in session s, were not recorded: STORAGE_FULL: no space left" in caplog.text
    assert await watch.flush() == 0


async def test_memory_that_comes_back_gets_what_waited(caplog: pytest.LogCaptureFixture) -> None:
    """While memory cannot be reached nobody waits for it; afterwards all is recorded, once and in order."""
    now = [0.0]
    memory = Memory(StorageUnavailable("gone"))
    watch = Watch(memory, clock=lambda: now[0])
    for number in range(3):
        await watch.end(watch.begin(Place("s"), "t", {"n": number}), None)
    assert (memory.tries, len(memory.calls)) == (1, 0)
    assert "wait to be recorded" in caplog.text
    memory.trouble = None
    now[0] = REST_S
    await watch.end(watch.begin(Place("s"), "t", {"n": 3}), None)
    assert [call.params["n"] for call in memory.calls] == [0, 1, 2, 3]
    assert len({call.event_id for call in memory.calls}) == 4


async def test_calls_that_are_there_already_are_settled() -> None:
    """Where an answer was lost, sending again finds the ids taken, and that is the end of it."""
    watch = Watch(Memory(Conflict("some events have ids that are taken")))
    await watch.end(watch.begin(Place("s"), "t", {}), None)
    assert await watch.flush() == 0


async def test_what_waits_is_limited() -> None:
    """An agent that works on without memory does not fill its own."""
    memory = Memory(StorageUnavailable("gone"))
    watch = Watch(memory, clock=lambda: 0.0)
    for number in range(MOST_WAITING + 2):
        await watch.end(watch.begin(Place("s"), "t", {"n": number}), None)
    memory.trouble = None
    assert await watch.flush() == 0
    assert [memory.calls[place].params["n"] for place in (0, -1)] == [2, MOST_WAITING + 1]


def test_text_that_only_looks_like_json_stays_text() -> None:
    """Only what is JSON is turned back into what it was."""
    assert unpack("[not json") == "[not json"
    assert unpack("[1, 2]") == [1, 2]
    assert unpack("7") == "7"


def test_errors_in_words() -> None:
    """A model reads the code, the message and what would help."""
    assert error_words(ToolError("no paper")) == "TOOL_FAILED: no paper"
    assert error_words(ToolError("no paper", fix="add some")) == "TOOL_FAILED: no paper (fix: add some)"


def test_an_adapter_needs_a_home_or_a_client() -> None:
    """A door of one's own will do; anything else is refused by its name."""
    memory = Memory()
    assert door_of(memory) is memory
    with pytest.raises(InvalidInput, match="not str"):
        door_of("http://localhost")  # pyright: ignore[reportArgumentType]
    assert HomeDoor.__doc__
