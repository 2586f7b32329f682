"""Tracks sessions and turns of an agent, and records the calls of its own tools, for every library.

Recording never changes what an agent does. A call is recorded before its result is returned, so that a session is
complete when its run has ended. While the server or home cannot be reached, calls are buffered, up to a limit, and
delivered with a later one after a pause. If recording takes longer than `patience_s`, the agent continues; delivery
finishes in the background and is not awaited again until then. A call leaves the buffer when it is stored, or when it
never can be, which is logged.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from time import perf_counter_ns
from typing import Any, Final, cast

from twinraven.foundation.canonical import parse_json, to_json_value
from twinraven.foundation.clock import utc_now
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.ids import new_uuid
from twinraven.integrations.door import Door, TurnPosition
from twinraven.sdk import MOST_AT_ONCE, FifoLock, ObservedCall, deliver, failed

_logger = logging.getLogger("twinraven.integrations")
_MOST_SESSIONS: Final = 10_000
_LONGEST_INPUT: Final = 10_000

MOST_WAITING: Final = 10_000
REST_S: Final = 10.0
"""How long memory that could not be reached is left alone."""
PATIENCE_S: Final = 5.0
"""How long an agent waits for memory at most."""
FLUSH_S: Final = 30.0
"""How long whoever asks for it waits until everything is recorded."""


@dataclass(slots=True)
class _SessionTurns:
    mark: object = None
    said_in: object = None
    turn: int | None = None
    outside_input: str | None = None


class TurnTracker:
    """Tracks the turn of each session, and the outside input since its last call."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, _SessionTurns] = OrderedDict()
        # Some libraries run tools on threads.
        self._lock = threading.Lock()

    def turn(self, session_id: str, mark: object, outside_input: str | None, *, said_in: object = None) -> None:
        """Note a turn of the model; `mark` identifies it, so that noting it twice counts once.

        A library that repeats what came from outside at every turn of a run names the run in `said_in`.
        """
        with self._lock:
            page = self._page(session_id)
            if page.turn is not None and page.mark == mark:
                return
            page.mark = mark
            page.turn = 1 if page.turn is None else page.turn + 1
            if outside_input is not None and (said_in is None or page.said_in is not said_in):
                page.said_in = said_in
                page.outside_input = outside_input[:_LONGEST_INPUT]

    def take(self, session_id: str) -> TurnPosition:
        """Return the place of the next call; what came from outside belongs to the first call after it."""
        with self._lock:
            page = self._page(session_id)
            place = TurnPosition(session_id, page.turn, page.outside_input)
            page.outside_input = None
            return place

    def _page(self, session_id: str) -> _SessionTurns:
        page = self._pages.setdefault(session_id, _SessionTurns())
        self._pages.move_to_end(session_id)
        while len(self._pages) > _MOST_SESSIONS:
            self._pages.popitem(last=False)
        return page


@dataclass(frozen=True, slots=True)
class StartedCall:
    """A call that has started."""

    place: TurnPosition
    tool_id: str
    params: dict[str, Any]
    started_at: datetime = field(default_factory=utc_now)
    clock_ns: int = field(default_factory=perf_counter_ns)


class CallRecorder:
    """Records calls that an agent made with its own tools."""

    def __init__(
        self, door: Door, *, patience_s: float = PATIENCE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._door = door
        self._patience_s = patience_s
        self._clock = clock
        self._waiting: deque[ObservedCall] = deque()
        self._rests_until = 0.0
        self._turns = FifoLock()
        self._guard = threading.Lock()
        self._sending: set[asyncio.Future[None]] = set()
        self._late: asyncio.Future[None] | None = None

    @property
    def is_resting(self) -> bool:
        """Whether memory could not be reached a moment ago, or a delivery is still under way in the background."""
        late = self._late
        return self._was_away or not (late is None or late.done() or late.get_loop().is_closed())

    @property
    def _was_away(self) -> bool:
        return self._clock() < self._rests_until

    def rest(self) -> None:
        """Pause deliveries for a while, because memory cannot be reached."""
        self._rests_until = self._clock() + REST_S

    def begin(self, place: TurnPosition, tool_id: str, params: object) -> StartedCall:
        """Start recording a call with these arguments."""
        return StartedCall(place, tool_id, _params(params))

    async def end(self, begun: StartedCall, output: object) -> None:
        """It gave this."""
        await self._record(_call(begun, _plain(unpack(output))))

    async def fail(self, begun: StartedCall, error: BaseException | str) -> None:
        """It raised this."""
        await self._record(failed(_call(begun, None), error))

    async def flush(self, *, within_s: float = FLUSH_S) -> int:
        """Record what waits; says how many calls still do."""
        self._rests_until = 0.0
        await self._send(within_s, anew=True)
        return len(self._waiting)

    async def _record(self, call: ObservedCall) -> None:
        with self._guard:
            self._waiting.append(call)
            if len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
        if not self.is_resting:
            await self._send(self._patience_s)

    async def _send(self, within_s: float, *, anew: bool = False) -> None:
        """Send what waits, shielded from cancellation of its caller: the agent may end, its calls are recorded."""
        sending = asyncio.ensure_future(self._send_in_turn(anew=anew))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        done, _ = await asyncio.wait({sending}, timeout=within_s)
        if done:
            sending.result()
            return
        # Whoever sends behind it ends after it, so the last one that is late stands for all of them.
        self._late = sending
        self.rest()
        _logger.error("%d calls wait to be recorded: no answer within %g s", len(self._waiting), within_s)

    async def _send_in_turn(self, *, anew: bool) -> None:
        """Send what waits; `anew` also where an earlier delivery could not reach memory."""
        async with self._turns:
            if anew:
                self._rests_until = 0.0
            while not self._was_away and (calls := self._first()):
                try:
                    for call, error in await deliver(self._door.record, calls):
                        _complain(error, [call])
                except TwinRavenError as error:
                    _complain(error, calls)
                    if _may_pass(error):
                        self.rest()
                        return
                self._let_go(calls)
                self._rests_until = 0.0

    def _first(self) -> list[ObservedCall]:
        with self._guard:
            return list(islice(self._waiting, MOST_AT_ONCE))

    def _let_go(self, calls: Sequence[ObservedCall]) -> None:
        settled = {call.event_id for call in calls}
        with self._guard:
            # They stood in front, and too many waiting may have pushed some of them out already.
            while self._waiting and self._waiting[0].event_id in settled:
                self._waiting.popleft()


def _may_pass(error: TwinRavenError) -> bool:
    """Return whether the calls may be sent again; they have ids, so also where it is unknown if they were stored."""
    return error.retryable or error.details.get("commit") == "unknown"


def _complain(error: TwinRavenError, calls: Sequence[ObservedCall]) -> None:
    last = calls[-1]
    _logger.error(
        "%d calls, the last of %s in session %s, %s: %s: %s",
        len(calls),
        last.tool_id,
        last.session_id,
        "wait to be recorded" if _may_pass(error) else "were not recorded",
        error.code,
        error.message,
    )


def error_words(error: TwinRavenError) -> str:
    """Return a failed call in words that a model can act on."""
    fix = error.details.get("fix")
    return f"{error.code}: {error.message}" + (f" (fix: {fix})" if fix else "")


def unpack(output: object) -> object:
    """Decode a tool's answer; text that a library made of an object is parsed as JSON again."""
    if isinstance(output, str) and output[:1] in ("{", "["):
        try:
            return parse_json(output)
        except InvalidInput:
            return output
    return output


def _call(begun: StartedCall, output: Any) -> ObservedCall:
    return ObservedCall(
        begun.place.session_id,
        begun.tool_id,
        begun.params,
        output=output,
        latency_ms=(perf_counter_ns() - begun.clock_ns) // 1_000_000,
        timestamp=begun.started_at,
        turn=begun.place.turn,
        outside_input=begun.place.outside_input,
        event_id=new_uuid(),
    )


def _params(params: object) -> dict[str, Any]:
    plain = _plain(params)
    return cast("dict[str, Any]", plain) if isinstance(plain, dict) else {"input": plain}


def _plain(value: object) -> Any:
    """Return the value as JSON, or why it has none."""
    try:
        return to_json_value(value)
    except InvalidInput as error:
        return {"not_recordable": error.message}
