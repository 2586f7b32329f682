"""Declares the protocol between a scheduler and its driver: events go in, actions come out.

`Schedule` decides and does nothing; a driver does and decides nothing. The asyncio driver (`run`) makes calls, the
replaying one (`replay`) answers them from history, and a durable one answers them from a journal, by `StepRun.place`.
All of these are tuples, because some are made for every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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


class StepRun(NamedTuple):
    """Identifies one attempt of one call of a run, as its invoker is told."""

    step_index: int
    item: int | None = None
    """The position in the list of a for_each step."""
    attempt: int = 1
    fallback: int | None = None
    """The position in the step's fallback sequence."""
    id: str | None = None
    """The step's own id, if it has one."""

    @property
    def step_id(self) -> str:
        return str(self.step_index) if self.id is None else self.id

    @property
    def key_suffix(self) -> str:
        """The suffix of this call's idempotency key, unique in the run and the same for every attempt."""
        parts = [self.step_id]
        if self.item is not None:
            parts.append(str(self.item))
        if self.fallback is not None:
            parts.append(f"f{self.fallback}")
        return ":".join(parts)

    @property
    def place(self) -> str:
        """The place of this attempt, unique in the run, such as `3`, `3:17`, `3:f0` or `3#2`."""
        return self.key_suffix if self.attempt == 1 else f"{self.key_suffix}#{self.attempt}"


class Answered(NamedTuple):
    """Event: a call gave its output."""

    run: StepRun
    output: Any


class Failed(NamedTuple):
    """Event: a call failed."""

    run: StepRun
    error: TwinRavenError


class Rested(NamedTuple):
    """Event: the pause before an attempt is over."""

    run: StepRun


class Deferred(NamedTuple):
    """Event: a call, or the pause before it, has to wait."""

    run: StepRun
    until: int | None


class Halted(NamedTuple):
    """Event: the run is cancelled with this error; writes under way finish, nothing else starts."""

    error: TwinRavenError


class TimedOut(NamedTuple):
    """Event: the time of the whole run is over, in these words; everything under way is interrupted."""

    what: str


CallEvent = Answered | Failed | Rested | Deferred
Event = CallEvent | Halted | TimedOut


class MakeCall(NamedTuple):
    """Action: call a tool. The parameters are the driver's own copy."""

    run: StepRun
    tool_id: str
    params: JsonObject
    timeout_ms: int | None
    """The step's own time; a driver ends the call after it, with `late_call`."""
    is_write: bool


class Pause(NamedTuple):
    """Action: wait before this attempt, then tell that it `Rested`."""

    run: StepRun
    milliseconds: int


class CancelCall(NamedTuple):
    """Action: give up a call or a pause; nothing has to be told of it any more."""

    run: StepRun


class Finish(NamedTuple):
    """Action: the run has ended; it is the last action, and no event is asked for after it."""

    result: FlowResult


Action = MakeCall | Pause | CancelCall | Finish
