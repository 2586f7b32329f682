"""Runs programs durably: code that decides step by step what to call next, over the journal of a run.

A flow is known before it runs; a program, such as the kernel of plans, is not. It is one step of its run, and makes
calls of its own, each at a place that it names and that keeps its outcome. A program that is taken up again runs from
the start: what a place has is given back at once, so it comes to where it was without calling anything twice. It must
therefore decide by nothing but what its calls gave it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from twinraven.catalog import ToolEntry
from twinraven.engine.journal import CallOutcome, Journal
from twinraven.flow import StepRun
from twinraven.foundation.canonical import JsonObject

PROGRAM: Final = "program:"
"""Names a program in place of a tool; only who owns the program starts runs of it."""


class CallFraming(NamedTuple):
    """The session suffix and the turn of a program's call in the event log."""

    session_suffix: str = ""
    """Added to the run's session, for calls that are none of its agent's work."""
    turn: int | None = None


class StepCaller(Protocol):
    """Makes the calls of a run."""

    async def call_at(
        self, step: StepRun, tool_id: str, params: JsonObject, framing: CallFraming, *, held: bool = False
    ) -> CallOutcome: ...

    async def pause(self, step: StepRun, seconds: float) -> None: ...

    async def flush(self) -> None: ...

    def tool_of(self, tool_id: str) -> ToolEntry | None: ...

    def offered(self) -> list[ToolEntry]: ...


class ProgramRun:
    """One run as its program sees it."""

    def __init__(self, caller: StepCaller, journal: Journal, *, user_id: str | None) -> None:
        self._caller = caller
        self._journal = journal
        self.tenant_id = journal.lease.tenant_id
        self.run_id = journal.lease.run_id
        self.user_id = user_id
        """On whose behalf it runs."""

    def known(self, place: str) -> CallOutcome | None:
        """Return the outcome that a place already has."""
        return self._journal.known(place)

    async def call(
        self,
        place: str,
        tool_id: str,
        params: JsonObject,
        *,
        attempt: int = 1,
        framing: CallFraming | None = None,
        held: bool = False,
    ) -> CallOutcome:
        """Return the output of a call, made now or earlier; raise Waiting where the run must be suspended first.

        What cost money is stored before this returns. A program that only computes until it keeps something, or calls
        something else, says `held`: then both are stored by one transaction.
        """
        step = StepRun(0, id=place, attempt=attempt)
        known = self._journal.known(step.place)
        if known is not None:
            return known
        return await self._caller.call_at(step, tool_id, params, framing or CallFraming(), held=held)

    async def pause(self, place: str, attempt: int, seconds: float) -> None:
        """Pause before an attempt, counted from the failure before it."""
        await self._caller.pause(StepRun(0, id=place, attempt=attempt), seconds)

    async def keep(self, place: str, value: Any) -> None:
        """Keep a value at a place; what the place has already stays."""
        if self._journal.known(place) is None:
            self._journal.note(place, CallOutcome("program", self._journal.now(), value))
            await self._caller.flush()

    def now(self) -> int:
        """Return the time in microseconds; a program keeps what it decides by."""
        return self._journal.now()

    def tool(self, tool_id: str) -> ToolEntry | None:
        """Return the tool of this name that the run may call."""
        return self._caller.tool_of(tool_id)

    def offered(self) -> list[ToolEntry]:
        """Return every tool that the run may call, by name."""
        return self._caller.offered()


Program = Callable[[JsonObject, ProgramRun], Awaitable[Any]]
"""Gives the output of a run, or raises a TwinRavenError that ends it."""
