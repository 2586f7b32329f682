"""Declares the protocol between a scheduler and its driver: events go in, actions come out.

`Schedule` decides and does nothing; a driver does and decides nothing. The asyncio driver (`run`) makes calls, the
replaying one (`replay`) answers them from history, and a durable one answers them from a journal, by `StepRun.place`.
All of these have slots and are not frozen, because some are made for every call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinraven.flow.step_run import StepRun
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import TwinRavenError

if TYPE_CHECKING:
    from twinraven.flow.results import FlowResult


class Waiting(Exception):
    """Raised by an invoker or a pause that cannot go on now: it waits for a person, an event or a moment.

    It is no failure, so it leads to no retry, fallback or skip: the other steps go on, and then the run ends with the
    status `waiting`. Running it again later with the outcomes that are known by then resumes it.
    """

    def __init__(self, until: int | None = None) -> None:
        super().__init__("waiting")
        self.until = until
        """A moment in microseconds since the epoch; None until the run is woken."""


@dataclass(slots=True)
class Answered:
    """Event: a call gave its output."""

    run: StepRun
    output: Any


@dataclass(slots=True)
class Failed:
    """Event: a call failed."""

    run: StepRun
    error: TwinRavenError


@dataclass(slots=True)
class Rested:
    """Event: the pause before an attempt is over."""

    run: StepRun


@dataclass(slots=True)
class Deferred:
    """Event: a call, or the pause before it, has to wait."""

    run: StepRun
    until: int | None


@dataclass(slots=True)
class Halted:
    """Event: the run is cancelled with this error; writes under way finish, nothing else starts."""

    error: TwinRavenError


@dataclass(slots=True)
class TimedOut:
    """Event: the time of the whole run is over, in these words; everything under way is interrupted."""

    what: str


CallEvent = Answered | Failed | Rested | Deferred
Event = CallEvent | Halted | TimedOut


@dataclass(slots=True)
class MakeCall:
    """Action: call a tool. The parameters are the driver's own copy."""

    run: StepRun
    tool_id: str
    params: JsonObject
    timeout_ms: int | None
    """The step's own time; a driver ends the call after it, with `late_call`."""
    is_write: bool


@dataclass(slots=True)
class Pause:
    """Action: wait before this attempt, then tell that it `Rested`."""

    run: StepRun
    milliseconds: int


@dataclass(slots=True)
class CancelCall:
    """Action: give up a call or a pause; nothing has to be told of it any more."""

    run: StepRun


@dataclass(slots=True)
class Finish:
    """Action: the run has ended; it is the last action, and no event is asked for after it."""

    result: FlowResult


Action = MakeCall | Pause | CancelCall | Finish
