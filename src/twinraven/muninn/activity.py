"""Summarises the event log for people: recent sessions, calls per stretch of time and per tool, what follows what.

Everything is computed by the database, over a stretch of time that the caller names: from the roll-up by the hour
(`hourly_sql`) and what arrived since, or from the log alone where the roll-up is far behind or an hour is too coarse.
Both give the same figures. Whoever finds the roll-up behind has it brought up in the background.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import from_micros, iso, to_micros
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn import hourly_sql as hourly
from twinraven.muninn.outcome_sql import changed_sessions, first_time, pending, sessions_since
from twinraven.muninn.recent_sql import RecentSession, SessionFilter, recent_sessions
from twinraven.muninn.roll_up import roll_up, settled
from twinraven.muninn.store import ToolTransition, ToolUsage
from twinraven.storage import Database, Row, Transaction, Work

if TYPE_CHECKING:
    # Listing sessions at the command line needs no event loop, and loading one is most of what that would cost.
    import asyncio

T = TypeVar("T")

MOST_BUCKETS: Final = 2_000
_PAUSE_S: Final = 0.01
_BUCKETS: Final = """
SELECT (timestamp - :since) / :width AS place, count(*) AS calls, sum(raised) AS failed,
    count(DISTINCT session_id) AS sessions
FROM muninn_event_log WHERE tenant_id = :tenant AND timestamp >= :since AND timestamp < :until {tool}
GROUP BY (timestamp - :since) / :width ORDER BY 1
"""
_USES: Final = """
SELECT tool_id, count(*) AS calls, sum(raised) AS raised, sum(time_known) AS timed,
    sum(CASE WHEN time_known = 1 THEN latency_ms ELSE 0 END) AS latency_ms,
    max(CASE WHEN time_known = 1 THEN latency_ms END) AS max_latency_ms
FROM muninn_event_log WHERE tenant_id = :tenant AND timestamp >= :since AND timestamp < :until
GROUP BY tool_id ORDER BY count(*) DESC, tool_id LIMIT :limit
"""
_FAILURES: Final = """
SELECT tool_id, COALESCE(error_code, '') AS error_code, count(*) AS calls FROM muninn_event_log
WHERE tenant_id = :tenant AND timestamp >= :since AND timestamp < :until AND raised = 1
GROUP BY 1, 2 ORDER BY count(*) DESC, 1, 2 LIMIT :limit
"""
_PAIRS: Final = """
SELECT from_tool, to_tool, count(*) AS count FROM (
    SELECT COALESCE(lag(e.tool_id) OVER (PARTITION BY e.session_id ORDER BY e.timestamp, e.arrival),
        (SELECT b.tool_id FROM muninn_event_log b WHERE b.tenant_id = :tenant AND b.session_id = e.session_id
            AND b.parent_event_id IS NULL AND b.timestamp < :since
         ORDER BY b.timestamp DESC, b.arrival DESC LIMIT 1)) AS from_tool, e.tool_id AS to_tool
    FROM muninn_event_log e
    WHERE e.tenant_id = :tenant AND e.parent_event_id IS NULL AND e.timestamp >= :since AND e.timestamp < :until) pairs
WHERE from_tool IS NOT NULL GROUP BY from_tool, to_tool ORDER BY count(*) DESC, from_tool, to_tool LIMIT :limit
"""
_logger = logging.getLogger("twinraven.muninn")


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A stretch of time, from its beginning up to but not including its end."""

    since: datetime
    until: datetime
    longest: timedelta | None = None

    def __post_init__(self) -> None:
        if self.since >= self.until:
            raise InvalidInput("since must lie before until", field="since")
        if self.longest is not None and self.until - self.since > self.longest:
            raise InvalidInput(f"since must lie at most {self.longest.days} days before until", field="since")

    def in_whole_hours(self) -> TimeSpan:
        """Return the span from the beginning of its first hour to the end of its last."""
        since, until = (each.replace(minute=0, second=0, microsecond=0) for each in (self.since, self.until))
        if until < self.until:
            try:
                until += timedelta(hours=1)
            except OverflowError:
                until = self.until
        return replace(self, since=since, until=until, longest=None)

    def params(self) -> dict[str, int]:
        return {"since": to_micros(self.since, field="since"), "until": to_micros(self.until, field="until")}


@dataclass(frozen=True, slots=True)
class ActivityBucket:
    """The calls of one stretch of time."""

    begins_at: datetime
    calls: int
    failed: int
    sessions: int

    def as_json(self) -> JsonObject:
        return {
            "begins_at": iso(self.begins_at),
            "calls": self.calls,
            "failed": self.failed,
            "sessions": self.sessions,
        }


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Counts the failures of a tool with one code."""

    tool_id: str
    error_code: str | None
    calls: int


class SqlActivity:
    """Aggregates the event log in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._folding: dict[str, asyncio.Task[None]] = {}

    async def recent_sessions(self, tenant_id: str, where: SessionFilter) -> list[RecentSession]:
        """Sessions by their last call, the newest first."""

        def work(tx: Transaction) -> tuple[list[RecentSession], int]:
            found = roll_up(tx, tenant_id)
            return recent_sessions(tx, tenant_id, where, found), 0 if where.outcome is None else found.behind

        return await self._counted(tenant_id, work)

    async def sessions_since(self, tenant_id: str, moments: Iterable[int]) -> dict[int, int]:
        """Count the sessions with a call since each of some moments, as far as the log is rolled up."""
        return await self._database.read(tenant_id, lambda tx: sessions_since(tx, tenant_id, moments))

    async def changed_sessions(self, tenant_id: str, *, after: int, through: int) -> dict[str, dict[str, int]]:
        """Return the sessions with calls between two arrival numbers, and their total calls per tool."""
        return await self._database.read(
            tenant_id, lambda tx: changed_sessions(tx, tenant_id, after=after, through=through)
        )

    async def pending(self, tenant_id: str, *, after: int) -> int:
        """Count the calls with a higher arrival number, up to a bound."""
        return await self._database.read(tenant_id, lambda tx: pending(tx, tenant_id, after))

    async def first_time(self, tenant_id: str, *, after: int) -> int | None:
        """Return the earliest known time of the calls with higher arrival numbers, in microseconds."""
        return await self._database.read(tenant_id, lambda tx: first_time(tx, tenant_id, after))

    async def rolled_up_to(self, tenant_id: str) -> int:
        """Return the arrival number up to which the log is rolled up."""
        return await self._database.read(tenant_id, lambda tx: roll_up(tx, tenant_id).mark)

    async def newest(self, tenant_id: str) -> int:
        """Return the highest arrival number that can be seen."""
        found = await self._database.read(tenant_id, lambda tx: roll_up(tx, tenant_id))
        return found.mark + found.behind

    async def buckets(
        self, tenant_id: str, span: TimeSpan, width_s: int, *, tool_id: str | None = None
    ) -> list[ActivityBucket]:
        """Calls per stretch of so many seconds; those without a call are left out."""
        params: dict[str, Any] = {**span.params(), "width": width_s * 1_000_000}
        if (params["until"] - params["since"]) / params["width"] > MOST_BUCKETS:
            raise InvalidInput(f"at most {MOST_BUCKETS} buckets; ask for wider ones or for less time", field="bucket_s")
        tool = "" if tool_id is None else "AND tool_id = :tool"
        if tool_id is not None:
            params["tool"] = tool_id
        sql = _BUCKETS.format(tool=tool)
        is_by_hours = width_s * 1_000_000 % hourly.HOUR == 0 and hourly.hour_of(params["since"]) == params["since"]

        def work(tx: Transaction) -> tuple[list[Row], int]:
            if not is_by_hours or tool_id is not None:
                return tx.fetch_all(sql, tenant=tenant_id, **params), 0
            found = roll_up(tx, tenant_id)
            if found.is_near:
                return hourly.counted_buckets(tx, tenant_id, found.mark, params), found.behind
            return tx.fetch_all(sql, tenant=tenant_id, **params), found.behind

        rows = await self._counted(tenant_id, work)
        begin, width = params["since"], params["width"]
        return [
            ActivityBucket(
                from_micros(begin + row["place"] * width), int(row["calls"]), int(row["failed"]), row["sessions"]
            )
            for row in rows
        ]

    async def tool_uses(self, tenant_id: str, span: TimeSpan, *, limit: int) -> list[ToolUsage]:
        """Return the tools that were called most."""
        params = span.params()

        def work(tx: Transaction) -> tuple[list[Row], int]:
            found = roll_up(tx, tenant_id)
            if found.is_near:
                return hourly.counted_uses(tx, tenant_id, found.mark, params, limit), found.behind
            return tx.fetch_all(_USES, tenant=tenant_id, limit=limit, **params), found.behind

        return [
            ToolUsage(
                tool_id=row["tool_id"],
                calls=int(row["calls"]),
                raised=int(row["raised"]),
                mean_latency_ms=int(row["latency_ms"]) / int(row["timed"]) if row["timed"] else None,
                max_latency_ms=row["max_latency_ms"],
            )
            for row in await self._counted(tenant_id, work)
        ]

    async def failures(self, tenant_id: str, span: TimeSpan, *, limit: int) -> list[FailureCount]:
        """Return failures by tool and code, the commonest first."""
        params = span.params()

        def work(tx: Transaction) -> tuple[list[Row], int]:
            found = roll_up(tx, tenant_id)
            if found.is_near:
                return hourly.counted_failures(tx, tenant_id, found.mark, params, limit), found.behind
            return tx.fetch_all(_FAILURES, tenant=tenant_id, limit=limit, **params), found.behind

        rows = await self._counted(tenant_id, work)
        return [FailureCount(row["tool_id"], row["error_code"] or None, int(row["calls"])) for row in rows]

    async def transitions(self, tenant_id: str, span: TimeSpan, *, limit: int) -> list[ToolTransition]:
        """Return which tool directly followed which, the commonest first, in the whole hours of a span.

        A pair is counted in the hour of its later call.
        """
        params = span.in_whole_hours().params()

        def work(tx: Transaction) -> tuple[list[Row], int]:
            found = roll_up(tx, tenant_id)
            if found.is_near:
                return hourly.counted_pairs(tx, tenant_id, found, params, limit), found.behind
            return tx.fetch_all(_PAIRS, tenant=tenant_id, limit=limit, **params), found.behind

        rows = await self._counted(tenant_id, work)
        return [ToolTransition(row["from_tool"], row["to_tool"], int(row["count"])) for row in rows]

    async def fold(self, tenant_id: str) -> None:
        """Bring the roll-up of a tenant up to the log, in short transactions."""
        import asyncio

        known = await settled(self._database, tenant_id)
        has_more = True
        while has_more:
            has_more = await self._database.write(tenant_id, lambda tx: hourly.fold(tx, tenant_id, known))
            # Calls that are being recorded go first.
            await asyncio.sleep(_PAUSE_S)

    async def aclose(self) -> None:
        """Stop what goes on in the background of this event loop."""
        import asyncio

        here = asyncio.get_running_loop()
        tasks = [task for task in self._folding.values() if task.get_loop() is here]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _counted(self, tenant_id: str, work: Work[tuple[list[T], int]]) -> list[T]:
        rows, behind = await self._database.read(tenant_id, work)
        if behind > hourly.FOLD_BEYOND and tenant_id not in self._folding:
            import asyncio

            task = self._folding[tenant_id] = asyncio.ensure_future(self._fold_quietly(tenant_id))
            task.add_done_callback(lambda _: self._folding.pop(tenant_id, None))
        return rows

    async def _fold_quietly(self, tenant_id: str) -> None:
        try:
            await self.fold(tenant_id)
        except TwinRavenError as error:
            # Figures come from the log meanwhile, and the next who asks tries again.
            _logger.warning("the roll-up of activity was not brought up: %s", error)
