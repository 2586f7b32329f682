"""Sessions, turns and what is recorded, whichever library runs the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from twinraven.foundation.errors import (
    CallInProgress,
    Conflict,
    InvalidInput,
    StorageError,
    StorageFull,
    StorageUnavailable,
    ToolError,
    TwinRavenError,
)
from twinraven.integrations import HomeDoor, OfferedAgentTool, TurnPosition
from twinraven.integrations.call_recording import MOST_WAITING, REST_S, CallRecorder, TurnTracker, error_words, unpack
from twinraven.integrations.door import Scope, door_of
from twinraven.sdk import AsyncClient, ObservedCall, RemoteError, ServerUnreachable


class Memory:
    """A door that keeps what it is told, or fails in the way it is set to."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.calls: list[ObservedCall] = []
        self.trouble = trouble
        self.tries = 0
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def offers(self, scope: Scope) -> list[OfferedAgentTool]:
        del scope
        return []

    async def call(self, tool_id: str, arguments: dict[str, Any], place: TurnPosition) -> Any:
        return [tool_id, arguments, place]

    async def record(self, calls: Sequence[ObservedCall]) -> None:
        await asyncio.sleep(0)
        self.tries += 1
        await self.is_open.wait()
        if self.trouble is not None:
            raise self.trouble
        assert len(calls) <= 500
        if any(call.tool_id == "bad" for call in calls):
            raise InvalidInput("bad tool")
        known = {call.event_id for call in self.calls}
        self.calls.extend(call for call in calls if call.event_id not in known)
        taken = [str(call.event_id) for call in calls if call.event_id in known]
        if taken:
            raise Conflict("some events have ids that are taken; the others are recorded", event_ids=taken)

    @property
    def numbers(self) -> list[int]:
        return [call.params["n"] for call in self.calls]


class AwayOnce(Memory):
    """It cannot be reached by the first who try."""

    async def record(self, calls: Sequence[ObservedCall]) -> None:
        self.trouble = StorageUnavailable("gone") if self.tries == 0 else None
        await super().record(calls)


class ForgetfulMemory(Memory):
    """It keeps what it is told, and its answer is lost as often as it is set to."""

    loses_answers = 0

    async def record(self, calls: Sequence[ObservedCall]) -> None:
        await super().record(calls)
        if self.loses_answers:
            self.loses_answers -= 1
            raise ServerUnreachable("lost")


async def away(watch: CallRecorder, memory: Memory, *tools: str) -> None:
    """Calls that are made while memory cannot be reached."""
    memory.trouble = StorageUnavailable("gone")
    for number, tool in enumerate(tools):
        await watch.end(watch.begin(TurnPosition("s"), tool, {"n": number}), None)
    memory.trouble = None


def test_turns_are_counted_once_and_per_session() -> None:
    """The same mark is the same turn; another session has turns of its own."""
    book = TurnTracker()
    assert book.take("a") == TurnPosition("a")
    for mark in (1, 1, 2):
        book.turn("a", mark, None)
    book.turn("b", 9, None)
    assert (book.take("a").turn, book.take("b").turn) == (2, 1)


def test_what_came_from_outside_belongs_to_the_next_call() -> None:
    """A message is told once, also when the turn it came in made no call."""
    book = TurnTracker()
    book.turn("a", 1, "hello")
    book.turn("a", 2, None)
    assert [book.take("a").outside_input for _ in range(2)] == ["hello", None]


def test_a_message_that_a_library_repeats_is_told_once() -> None:
    """What a run says again at each of its turns came from outside once; the next run's message is another."""
    book, first, second = TurnTracker(), object(), object()
    told: list[str | None] = []
    for mark, run in ((1, first), (2, first), (3, second)):
        book.turn("a", mark, "hello", said_in=run)
        told.append(book.take("a").outside_input)
    assert told == ["hello", None, "hello"]


def test_sessions_that_nobody_speaks_of_any_more_are_forgotten() -> None:
    """A book does not grow for ever."""
    book = TurnTracker()
    for number in range(10_001):
        book.turn(f"s{number}", 1, "hello")
    assert book.take("s0").turn is None
    assert book.take("s10000").turn == 1


@pytest.mark.req("TR-01")
async def test_what_cannot_be_json_is_recorded_as_what_it_is() -> None:
    """Arguments that are no object and outputs without a JSON form do not lose the record."""
    memory = Memory()
    watch = CallRecorder(memory)
    loop: list[Any] = []
    loop.append(loop)
    await watch.end(watch.begin(TurnPosition("s", 3, "hello"), "t", "just text"), loop)
    await watch.end(watch.begin(TurnPosition("s"), "t", {"a": {1, 2}}), '{"n": 1}')
    first, second = memory.calls
    assert (first.params, first.turn, first.outside_input) == ({"input": "just text"}, 3, "hello")
    assert "not_recordable" in first.output
    assert (second.params, second.output) == ({"a": [1, 2]}, {"n": 1})


async def test_a_cancelled_call_is_recorded() -> None:
    """A call that was called off happened all the same."""
    memory = Memory()
    watch = CallRecorder(memory)
    begun = watch.begin(TurnPosition("s"), "t", {})

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
    watch = CallRecorder(memory)
    await watch.fail(watch.begin(TurnPosition("s"), "t", {}), "broken")
    assert "1 calls, the last of t in session s, were not recorded: STORAGE_FULL: no space left" in caplog.text
    assert await watch.flush() == 0


async def test_memory_that_comes_back_gets_what_waited(caplog: pytest.LogCaptureFixture) -> None:
    """While memory cannot be reached nobody waits for it; afterwards all is recorded, once and in order."""
    now = [0.0]
    memory = Memory(StorageUnavailable("gone"))
    watch = CallRecorder(memory, clock=lambda: now[0])
    for number in range(3):
        await watch.end(watch.begin(TurnPosition("s"), "t", {"n": number}), None)
    assert (memory.tries, len(memory.calls)) == (1, 0)
    assert "wait to be recorded" in caplog.text
    memory.trouble = None
    now[0] = REST_S
    await watch.end(watch.begin(TurnPosition("s"), "t", {"n": 3}), None)
    assert [call.params["n"] for call in memory.calls] == [0, 1, 2, 3]
    assert len({call.event_id for call in memory.calls}) == 4


async def test_calls_that_are_there_already_are_settled() -> None:
    """Where an answer was lost, sending again finds the ids taken, and that is the end of it."""
    watch = CallRecorder(Memory(Conflict("some events have ids that are taken")))
    await watch.end(watch.begin(TurnPosition("s"), "t", {}), None)
    assert await watch.flush() == 0


async def test_what_is_there_already_keeps_nothing_else_from_being_recorded() -> None:
    """Many calls go out in parts; ids that are taken in one of them settle that one, and the others are sent."""
    memory = ForgetfulMemory()
    watch = CallRecorder(memory)
    await away(watch, memory, *["t"] * 1200)
    memory.loses_answers = 1
    assert await watch.flush() == 1200
    assert await watch.flush() == 0
    assert memory.numbers == list(range(1200))


@pytest.mark.parametrize(
    "trouble", [CallInProgress("the same request is under way"), StorageError("lost at the end", commit="unknown")]
)
async def test_what_may_not_be_there_is_sent_again(trouble: TwinRavenError) -> None:
    """A conflict that will pass says nothing about the calls, nor does a store that went away while it stored them."""
    memory = Memory(trouble)
    watch = CallRecorder(memory)
    await watch.end(watch.begin(TurnPosition("s"), "t", {"n": 0}), None)
    memory.trouble = None
    assert await watch.flush() == 0
    assert memory.numbers == [0]


async def test_a_call_that_is_refused_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    """Only what memory will never accept is left out, and it is named."""
    memory = Memory()
    watch = CallRecorder(memory)
    await away(watch, memory, "t", "t", "bad", "t", "t", "bad", "t")
    caplog.clear()
    assert await watch.flush() == 0
    assert memory.numbers == [0, 1, 3, 4, 6]
    told = "1 calls, the last of bad in session s, were not recorded: VALIDATION_FAILED: bad tool"
    assert [record.getMessage() for record in caplog.records] == [told, told]


async def test_an_agent_that_is_cancelled_leaves_its_calls_recorded() -> None:
    """Whoever is cancelled while a call is being recorded ends at once; the call, and what waited with it, is kept."""
    memory = Memory()
    watch = CallRecorder(memory)
    await away(watch, memory, "t", "t")
    memory.is_open.clear()
    sending = asyncio.ensure_future(watch.flush())
    ending = asyncio.ensure_future(watch.end(watch.begin(TurnPosition("s"), "t", {"n": 2}), None))
    await asyncio.sleep(0.01)
    for task in (sending, ending):
        task.cancel()
    done = await asyncio.wait_for(asyncio.gather(sending, ending, return_exceptions=True), 5)
    assert [type(each) for each in done] == [asyncio.CancelledError] * 2
    memory.is_open.set()
    assert await watch.flush() == 0
    assert memory.numbers == [0, 1, 2]


async def test_a_flush_sends_though_whoever_sent_before_it_fails() -> None:
    """A call that is being sent when somebody flushes, and fails then, is sent again by the flush."""
    memory = AwayOnce()
    watch = CallRecorder(memory)
    memory.is_open.clear()
    ending = asyncio.ensure_future(watch.end(watch.begin(TurnPosition("s"), "t", {"n": 0}), None))
    flushing = asyncio.ensure_future(watch.flush())
    await asyncio.sleep(0.01)
    assert memory.tries == 1
    memory.is_open.set()
    await ending
    assert await flushing == 0
    assert memory.numbers == [0]


def test_a_loop_that_ends_takes_no_calls_with_it() -> None:
    """A loop that is closed ends what was being sent on it; the calls still wait, and are recorded on another."""
    memory = Memory()
    watch = CallRecorder(memory)

    async def ends_early() -> None:
        memory.is_open.clear()
        ending = asyncio.ensure_future(watch.end(watch.begin(TurnPosition("s"), "t", {"n": 0}), None))
        await asyncio.sleep(0.01)
        ending.cancel()

    asyncio.run(ends_early())
    assert memory.tries == 1
    memory.is_open.set()
    assert asyncio.run(watch.flush()) == 0
    assert memory.numbers == [0]


async def test_calls_that_end_together_are_recorded_once() -> None:
    """Each has been recorded when its own result goes on; those that come meanwhile go out together."""
    memory = Memory()
    watch = CallRecorder(memory)

    async def work(number: int) -> None:
        await watch.end(watch.begin(TurnPosition("s"), "t", {"n": number}), None)
        assert number in memory.numbers

    await asyncio.gather(*map(work, range(50)))
    assert memory.numbers == list(range(50))
    assert memory.tries < 5


async def test_memory_that_is_away_is_tried_once_for_all() -> None:
    """Calls that end together do not wait for absent memory one after the other."""
    memory = Memory(StorageUnavailable("gone"))
    watch = CallRecorder(memory)
    await asyncio.gather(*(watch.end(watch.begin(TurnPosition("s"), "t", {"n": n}), None) for n in range(20)))
    assert memory.tries == 1
    memory.trouble = None
    assert await watch.flush() == 0
    assert memory.numbers == list(range(20))


async def test_a_proxy_without_a_server_is_absent_memory() -> None:
    """A bare 502 or 504 from something before the server costs no call."""
    status = [502]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(b"HTTP/1.1 %d Bad\r\ncontent-length: 5\r\n\r\nhello" % status[0])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, AsyncClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        for status[0] in (502, 504):
            with pytest.raises(RemoteError) as raised:
                await client.revoke_key("k")
            watch = CallRecorder(memory := Memory(raised.value))
            await watch.end(watch.begin(TurnPosition("s"), "t", {"n": 0}), None)
            assert watch.is_resting
            memory.trouble = None
            assert (await watch.flush(), memory.numbers) == (0, [0])


async def test_what_waits_is_limited() -> None:
    """An agent that works on without memory does not fill its own."""
    memory = Memory(StorageUnavailable("gone"))
    watch = CallRecorder(memory, clock=lambda: 0.0)
    for number in range(MOST_WAITING + 2):
        await watch.end(watch.begin(TurnPosition("s"), "t", {"n": number}), None)
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


async def test_memory_that_takes_long_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """One result waits as long as patience lasts, none waits while the answer is owed; then all is there, once."""
    now = [0.0]
    memory = Memory()
    watch = CallRecorder(memory, patience_s=0.05, clock=lambda: now[0])
    memory.is_open.clear()
    await watch.end(watch.begin(TurnPosition("s"), "t", {"n": 0}), None)
    assert "1 calls wait to be recorded: no answer within 0.05 s" in caplog.text
    now[0] = REST_S * 10
    for number in range(1, 4):
        await watch.end(watch.begin(TurnPosition("s"), "t", {"n": number}), None)
    assert (watch.is_resting, memory.tries) == (True, 1)
    memory.is_open.set()
    assert await watch.flush() == 0
    assert not watch.is_resting
    assert memory.numbers == list(range(4))


async def test_memory_that_answers_late_is_in_use_again_at_once() -> None:
    """An answer that comes after patience ended is an answer: the next call is recorded before its result goes on."""
    memory = Memory()
    watch = CallRecorder(memory, patience_s=0.05)
    memory.is_open.clear()
    await watch.end(watch.begin(TurnPosition("s"), "t", {"n": 0}), None)
    memory.is_open.set()
    while watch.is_resting:  # noqa: ASYNC110 - it tells nobody when it is over
        await asyncio.sleep(0.01)
    await watch.end(watch.begin(TurnPosition("s"), "t", {"n": 1}), None)
    assert memory.numbers == [0, 1]


def test_a_late_answer_ends_with_its_loop() -> None:
    """What is owed on a loop that is no more does not keep later calls from being recorded."""
    memory = Memory()
    watch = CallRecorder(memory, patience_s=0.05, clock=lambda: 0.0)

    async def work(number: int) -> None:
        await watch.end(watch.begin(TurnPosition("s"), "t", {"n": number}), None)

    memory.is_open.clear()
    asyncio.run(work(0))
    memory.is_open.set()
    assert asyncio.run(watch.flush()) == 0
    asyncio.run(work(1))
    assert memory.numbers == [0, 1]
