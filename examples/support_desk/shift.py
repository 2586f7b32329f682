"""A shift at the desk: a batch of tickets worked through the one call path, several at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from examples.support_desk.agent import Resolution, solve
from examples.support_desk.report import Effort, effort_of
from examples.support_desk.tickets import Ticket
from examples.support_desk.worker import LearnedTool
from twinraven.calls import CallContext, Calls
from twinraven.muninn import EventStore, Outcome

AT_ONCE = 8


class CallDoor:
    """The agent's door to the tools: every call goes through the call path and is remembered under one session."""

    def __init__(self, calls: Calls, session_id: str) -> None:
        self._calls = calls
        self._session_id = session_id

    async def call(self, tool_id: str, params: dict[str, Any], *, turn: int, outside_input: str | None) -> Any:
        context = CallContext(session_id=self._session_id, turn=turn, outside_input=outside_input)
        return await self._calls.call(tool_id, params, context)


@dataclass(frozen=True, slots=True)
class Shift:
    """What a batch of tickets came to."""

    resolutions: list[Resolution]
    effort: Effort


async def work_shift(
    calls: Calls,
    events: EventStore,
    tickets: Sequence[Ticket],
    *,
    name: str,
    turn_s: float,
    learned: Sequence[LearnedTool] = (),
    progress: Callable[[int], None] | None = None,
) -> Shift:
    """Work all tickets; afterwards each session's verdict says how its ticket ended."""
    places = asyncio.Semaphore(AT_ONCE)
    done = 0

    async def work(ticket: Ticket) -> Resolution:
        nonlocal done
        session_id = f"{name}-{ticket.ticket_id}"
        async with places:
            door = CallDoor(calls, session_id)
            resolution = await solve(ticket, door, learned=learned, turn_s=turn_s)
        if resolution.calls:
            await events.state_verdict("default", session_id, Outcome(resolution.outcome), stated_by="demo")
        done += 1
        if progress is not None:
            progress(done)
        return resolution

    started = time.perf_counter()
    resolutions = list(await asyncio.gather(*(work(ticket) for ticket in tickets)))
    return Shift(resolutions, effort_of(resolutions, time.perf_counter() - started))
