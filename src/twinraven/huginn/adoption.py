"""Measures the adoption of learned tools: sessions they were offered to, fitted in and were taken by, and turns saved.

What each session says of each tool (`adoption_count`) is kept beside the log (`adoption_sql`) and brought up by reading
only the sessions that got calls since, without arguments and answers. A tool that comes into service is counted over
the newest `MOST_CALLS`, and from then on over all that follow. Who must have exact figures waits until everything
recorded is counted. Others have the same where little is to be counted; else they have what is kept, with the number of
calls that are pending, and the rest is counted in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Final

from twinraven.foundation.clock import from_micros, to_micros
from twinraven.foundation.errors import Conflict, TwinRavenError
from twinraven.huginn import adoption_sql as kept
from twinraven.huginn.adoption_count import CountedTool, SessionFigures, figures_of, last_time
from twinraven.huginn.traces import load_traces
from twinraven.huginn.validation.judge import wilson_low
from twinraven.muninn import EventStore, SqlActivity
from twinraven.registry import Adoption, RegisteredTool, UsedDay
from twinraven.storage import Database

MOST_CALLS: Final = 50_000
"""Calls that a tool is counted over when it comes into service, the newest of the log."""
AT_ONCE: Final = 1_000
"""Calls that are counted in one step, and that a question counts before it is answered."""
_PAUSE_S: Final = 0.01
_RACES: Final = 5
_logger = logging.getLogger("twinraven.huginn")


class LoggedAdoption:
    """Measures adoption from the log, for the registry."""

    def __init__(
        self,
        database: Database,
        events: EventStore,
        activity: SqlActivity,
        *,
        idle_gap_s: float,
        most_calls: int = MOST_CALLS,
        at_once: int = AT_ONCE,
    ) -> None:
        self._database = database
        self._events = events
        self._activity = activity
        self._idle_gap_s = idle_gap_s
        self._most_calls = most_calls
        self._at_once = at_once
        self._counting: dict[str, asyncio.Task[None]] = {}

    async def measure(
        self, tenant_id: str, tools: Sequence[RegisteredTool], *, since: datetime, wait: bool = True
    ) -> dict[str, Adoption]:
        """Return the adoption of each tool from its promotion on, or from `since` if that is later, by tool id.

        Without `wait`, one that is being counted for the first time is left out.
        """
        if not tools:
            return {}
        if wait or await self._pending(tenant_id, tools) <= self._at_once:
            await self._count(tenant_id, tools, at_most=None if wait else self._at_once)
        elif tenant_id not in self._counting:
            task = self._counting[tenant_id] = asyncio.ensure_future(self._count_quietly(tenant_id, tools))
            task.add_done_callback(lambda _: self._counting.pop(tenant_id, None))
        return await self._kept(tenant_id, tools, to_micros(since))

    async def aclose(self) -> None:
        """Stop what goes on in the background of this event loop."""
        here = asyncio.get_running_loop()
        tasks = [task for task in self._counting.values() if task.get_loop() is here]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pending(self, tenant_id: str, tools: Sequence[RegisteredTool]) -> int:
        """Return how many calls are to be read before the figures are those of the log.

        A great number where it is many.
        """
        there = await self._database.read(tenant_id, lambda tx: kept.counted(tx, tenant_id))
        marks = [found.up_to for tool in tools if (found := self._found(there, tool)) is not None]
        if len(marks) == len(tools):
            return await self._activity.pending(tenant_id, after=min(marks))
        newest = (await self._activity.newest(tenant_id)) - self._most_calls
        return await self._activity.pending(tenant_id, after=max(0, min([newest, *marks])))

    def _found(self, there: Mapping[str, kept.CountCursor], tool: RegisteredTool) -> kept.CountCursor | None:
        """Return how far a tool is counted as it is now."""
        found = there.get(tool.record.tool_id)
        return found if found is not None and found.basis == self._basis(tool) else None

    async def _count_quietly(self, tenant_id: str, tools: Sequence[RegisteredTool]) -> None:
        try:
            await self._count(tenant_id, tools)
        except TwinRavenError as error:
            # What is kept is told meanwhile, and the next who asks tries again.
            _logger.warning("the adoption of learned tools was not counted: %s", error)

    async def _count(self, tenant_id: str, tools: Sequence[RegisteredTool], *, at_most: int | None = None) -> None:
        """Count what was recorded, in short steps; with `at_most`, only if the sessions it is in have no more calls."""
        await self._activity.fold(tenant_id)
        through = await self._activity.rolled_up_to(tenant_id)
        await self._begin(tenant_id, tools, through)
        by_id = {tool.record.tool_id: tool for tool in tools}
        races = 0
        while True:
            there = await self._database.read(tenant_id, lambda tx: kept.counted(tx, tenant_id))
            behind = {tool_id: each for tool_id, each in there.items() if tool_id in by_id and each.up_to < through}
            if not behind:
                return
            try:
                if not await self._step(tenant_id, by_id, behind, through, at_most):
                    return
            except Conflict:
                # A session was pruned between counting and keeping.
                races += 1
                if races == _RACES:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def _begin(self, tenant_id: str, tools: Sequence[RegisteredTool], through: int) -> None:
        there = await self._database.read(tenant_id, lambda tx: kept.counted(tx, tenant_id))
        changed = {tool.record.tool_id: tool for tool in tools if self._found(there, tool) is None}
        if not changed:
            return
        first = max(0, through - self._most_calls)
        # Older calls are not read, so nothing is claimed of the time before the first that is.
        floor = await self._activity.first_time(tenant_id, after=first) if first else None
        wanted = {
            name: kept.CountCursor(self._basis(tool), max(_served_since(tool), floor or 0), first, through)
            for name, tool in changed.items()
        }
        await self._database.write(tenant_id, lambda tx: kept.begin(tx, tenant_id, wanted))

    async def _step(
        self,
        tenant_id: str,
        tools: Mapping[str, RegisteredTool],
        behind: Mapping[str, kept.CountCursor],
        through: int,
        at_most: int | None,
    ) -> bool:
        """Count the next calls for the tools that are furthest behind; False where they are too many."""
        mark = min(each.up_to for each in behind.values())
        chosen = {tool_id: each for tool_id, each in behind.items() if each.up_to == mark}
        others = [each.up_to for each in behind.values() if each.up_to > mark]
        through = min([through, mark + self._at_once, *others])
        sessions = await self._activity.changed_sessions(tenant_id, after=mark, through=through)
        wanted = [CountedTool.of(tools[name].current.definition, each.since) for name, each in chosen.items()]
        fitting = [name for name, found in sessions.items() if any(each.may_fit(found.keys()) for each in wanted)]
        if at_most is not None and sum(sum(sessions[name].values()) for name in fitting) > 2 * at_most:
            return False
        log = await load_traces(
            self._events, tenant_id, idle_gap_s=self._idle_gap_s, sessions=fitting, with_values=False
        )

        def rows() -> list[kept.SessionRow]:
            found = (
                kept.SessionRow(tool.definition.tool_id, each.session_id, last_time(each), figures_of(each, tool))
                for each in log.sessions
                for tool in wanted
            )
            return [row for row in found if row.figures != SessionFigures()]

        counted = await asyncio.to_thread(rows)
        await self._database.write(
            tenant_id,
            lambda tx: kept.replace_rows(
                tx, tenant_id, chosen, through=through, sessions=sorted(sessions), rows=counted
            ),
        )
        return True

    async def _kept(self, tenant_id: str, tools: Sequence[RegisteredTool], since: int) -> dict[str, Adoption]:
        there = await self._database.read(tenant_id, lambda tx: kept.counted(tx, tenant_id))
        figures = await self._database.read(tenant_id, lambda tx: kept.sums(tx, tenant_id, since=since))
        days = await self._database.read(tenant_id, lambda tx: kept.used_days(tx, tenant_id, since=since))
        ready = {tool.record.tool_id: each for tool in tools if (each := self._found(there, tool)) and each.is_ready}
        begun = {tool_id: max(since, each.since) for tool_id, each in ready.items()}
        offered = await self._activity.sessions_since(tenant_id, begun.values())
        pending = {
            mark: await self._activity.pending(tenant_id, after=mark) for mark in {e.up_to for e in ready.values()}
        }
        return {
            tool_id: replace(
                _adoption(
                    figures.get(tool_id, SessionFigures()),
                    since=begun[tool_id],
                    offered=offered[begun[tool_id]],
                    pending=pending[each.up_to],
                ),
                days=tuple(UsedDay(from_micros(day), uses, turns) for day, uses, turns in days.get(tool_id, ())),
            )
            for tool_id, each in ready.items()
        }

    def _basis(self, tool: RegisteredTool) -> str:
        """Names what a count rests on; with another basis it begins anew."""
        steps = [step.tool_id for step in tool.current.definition.steps]
        about = (tool.record.tool_id, steps, _served_since(tool), self._idle_gap_s, self._most_calls)
        return sha256(repr(about).encode()).hexdigest()


def _served_since(tool: RegisteredTool) -> int:
    started = tool.record.in_service_since
    return 0 if started is None else to_micros(started)


def _adoption(figures: SessionFigures, *, since: int, offered: int, pending: int) -> Adoption:
    has_hand = bool(figures.by_hand)
    by_hand = figures.by_hand if has_hand else figures.earlier
    hand_turns = figures.hand_turns if has_hand else figures.earlier_turns
    return Adoption(
        since=from_micros(since),
        offered=offered,
        fitted=figures.fitted,
        taken=figures.taken,
        share_low=wilson_low(figures.taken, figures.fitted),
        share_high=1.0 - wilson_low(figures.fitted - figures.taken, figures.fitted),
        uses=figures.uses,
        raised=figures.raised,
        by_hand=by_hand,
        turns_per_use=figures.use_turns / figures.uses if figures.uses else None,
        turns_by_hand=hand_turns / by_hand if by_hand else None,
        pending=pending,
    )
