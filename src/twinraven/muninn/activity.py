"""Summarises the event log for people: recent sessions, calls per stretch of time and per tool, what follows what.

Everything is computed by the database from the log itself, over a stretch of time that the caller names. Recent
sessions are found by walking the log back in time and taking each session at its last call, so that a page costs what
its sessions have in calls, however long the log is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import from_micros, iso, to_micros
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.model import Outcome
from twinraven.muninn.store import ToolUse, Transition
from twinraven.storage import Database, Row, Transaction

MOST_BUCKETS: Final = 2_000
_MOST_TOOLS: Final = 20
_MOST_WORDS: Final = 200
_LAST_CALLS: Final = """
SELECT e.session_id, e.timestamp, e.arrival FROM muninn_event_log e
WHERE e.tenant_id = :tenant {conditions} AND NOT EXISTS (
    SELECT 1 FROM muninn_event_log later WHERE later.tenant_id = :tenant AND later.session_id = e.session_id
    AND (later.timestamp, later.arrival) > (e.timestamp, e.arrival))
ORDER BY e.timestamp DESC, e.arrival DESC LIMIT :limit
"""
_SUMMARIES: Final = """
SELECT session_id, count(*) AS event_count, sum(raised) AS failed, count(DISTINCT turn) AS turns,
    min(timestamp) AS started_at, max(timestamp) AS ended_at, min(time_known) AS time_known,
    (SELECT count(*) FROM session_verdicts v WHERE v.tenant_id = :tenant AND v.session_id = log.session_id) AS verdicts,
    COALESCE((SELECT v.outcome FROM session_verdicts v WHERE v.tenant_id = :tenant AND v.session_id = log.session_id
     ORDER BY v.arrival DESC LIMIT 1),
    CASE WHEN min(outcome) = max(outcome) THEN min(outcome) ELSE 'partial' END) AS outcome
FROM muninn_event_log log WHERE tenant_id = :tenant AND session_id = :session GROUP BY session_id
"""
_OF_OUTCOME: Final = """
AND COALESCE(
    (SELECT v.outcome FROM session_verdicts v WHERE v.tenant_id = :tenant AND v.session_id = e.session_id
     ORDER BY v.arrival DESC LIMIT 1),
    (SELECT CASE WHEN min(o.outcome) = max(o.outcome) THEN min(o.outcome) ELSE 'partial' END
     FROM muninn_event_log o WHERE o.tenant_id = :tenant AND o.session_id = e.session_id)) = :outcome
"""
_OLDER_THAN: Final = """
AND (e.timestamp, e.arrival) < (SELECT o.timestamp, o.arrival FROM muninn_event_log o
    WHERE o.tenant_id = :tenant AND o.session_id = :older_than ORDER BY o.timestamp DESC, o.arrival DESC LIMIT 1)
"""
_TOOLS: Final = """
SELECT tool_id FROM muninn_event_log WHERE tenant_id = :tenant AND session_id = :session AND parent_event_id IS NULL
GROUP BY tool_id ORDER BY min(timestamp), tool_id LIMIT :most
"""
_WORDS: Final = """
SELECT outside_input FROM muninn_event_log WHERE tenant_id = :tenant AND session_id = :session
AND outside_input IS NOT NULL ORDER BY timestamp, arrival LIMIT 1
"""
_BUCKETS: Final = """
SELECT (timestamp - :since) / :width AS place, count(*) AS calls, sum(raised) AS failed,
    count(DISTINCT session_id) AS sessions
FROM muninn_event_log WHERE tenant_id = :tenant AND timestamp >= :since AND timestamp < :until {tool}
GROUP BY (timestamp - :since) / :width ORDER BY 1
"""
_USES: Final = """
SELECT tool_id, count(*) AS calls, sum(raised) AS raised,
    avg(CASE WHEN time_known = 1 THEN latency_ms * 1.0 END) AS mean_latency_ms,
    max(CASE WHEN time_known = 1 THEN latency_ms END) AS max_latency_ms
FROM muninn_event_log WHERE tenant_id = :tenant AND timestamp >= :since AND timestamp < :until
GROUP BY tool_id ORDER BY count(*) DESC, tool_id LIMIT :limit
"""
_PAIRS: Final = """
SELECT from_tool, to_tool, count(*) AS count FROM (
    SELECT tool_id AS from_tool, lead(tool_id) OVER (PARTITION BY session_id ORDER BY timestamp, arrival) AS to_tool
    FROM muninn_event_log
    WHERE tenant_id = :tenant AND parent_event_id IS NULL AND timestamp >= :since AND timestamp < :until) pairs
WHERE to_tool IS NOT NULL GROUP BY from_tool, to_tool ORDER BY count(*) DESC, from_tool, to_tool LIMIT :limit
"""


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

    def params(self) -> dict[str, int]:
        return {"since": to_micros(self.since, field="since"), "until": to_micros(self.until, field="until")}


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Which sessions; an unset field does not restrict."""

    since: datetime | None = None
    """Sessions whose last call was made from this time on."""
    until: datetime | None = None
    tool_id: str | None = None
    failed: bool | None = None
    outcome: Outcome | None = None
    session_id: str | None = None
    starts_with: str | None = None
    """How the session's id begins."""
    older_than: str | None = None
    """Behind the session with this id; behind one that is not there is nothing."""
    beyond: tuple[int, int] | None = None
    """Behind the session whose last call has this timestamp in microseconds and arrival number."""
    limit: int = 50


@dataclass(frozen=True, slots=True)
class RecentSession:
    """A session as a list of the newest shows it."""

    session_id: str
    event_count: int
    started_at: datetime
    ended_at: datetime
    outcome: Outcome
    failed: int
    """How many of its calls raised an error."""
    turns: int
    tools: tuple[str, ...]
    """The tools it called itself, in order, the first few."""
    first_words: str | None
    """What came from outside first, shortened."""
    place: tuple[int, int] = field(default=(0, 0), compare=False)
    time_known: bool = True
    """Whether its calls came with times; else an import gave them times in their order."""
    is_judged: bool = True
    """Whether somebody said how it went; else `partial` stands for not known."""

    def as_json(self) -> JsonObject:
        return {
            "session_id": self.session_id,
            "event_count": self.event_count,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "outcome": self.outcome.value,
            "failed": self.failed,
            "turns": self.turns,
            "tools": list(self.tools),
            "first_words": self.first_words,
        }


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


class SqlActivity:
    """What happened, summed up by the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def recent_sessions(self, tenant_id: str, where: SessionFilter) -> list[RecentSession]:
        """Sessions by their last call, the newest first."""
        conditions, params = _session_conditions(where)
        sql = _LAST_CALLS.format(conditions=conditions)

        def work(tx: Transaction) -> list[RecentSession]:
            found = tx.fetch_all(sql, tenant=tenant_id, limit=where.limit, **params)
            return [_session(tx, tenant_id, row) for row in found]

        return await self._database.read(tenant_id, work)

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
        rows = await self._database.read(tenant_id, lambda tx: tx.fetch_all(sql, tenant=tenant_id, **params))
        begin, width = params["since"], params["width"]
        return [
            ActivityBucket(from_micros(begin + row["place"] * width), row["calls"], int(row["failed"]), row["sessions"])
            for row in rows
        ]

    async def tool_uses(self, tenant_id: str, span: TimeSpan, *, limit: int) -> list[ToolUse]:
        """The tools that were called most."""
        params = span.params()
        rows = await self._database.read(
            tenant_id, lambda tx: tx.fetch_all(_USES, tenant=tenant_id, limit=limit, **params)
        )
        return [
            ToolUse(
                tool_id=row["tool_id"],
                calls=row["calls"],
                raised=int(row["raised"]),
                mean_latency_ms=None if row["mean_latency_ms"] is None else float(row["mean_latency_ms"]),
                max_latency_ms=row["max_latency_ms"],
            )
            for row in rows
        ]

    async def transitions(self, tenant_id: str, span: TimeSpan, *, limit: int) -> list[Transition]:
        """Which tool agents called straight after which, the commonest first."""
        params = span.params()
        rows = await self._database.read(
            tenant_id, lambda tx: tx.fetch_all(_PAIRS, tenant=tenant_id, limit=limit, **params)
        )
        return [Transition(**row) for row in rows]


def _session_conditions(where: SessionFilter) -> tuple[str, dict[str, Any]]:
    conditions: list[str] = []
    params: dict[str, Any] = {}
    of_session = "SELECT 1 FROM muninn_event_log o WHERE o.tenant_id = :tenant AND o.session_id = e.session_id"
    if where.since is not None:
        conditions.append("AND e.timestamp >= :since")
        params["since"] = to_micros(where.since, field="since")
    if where.until is not None:
        conditions.append("AND e.timestamp < :until")
        params["until"] = to_micros(where.until, field="until")
    if where.beyond is not None:
        conditions.append("AND (e.timestamp, e.arrival) < (:beyond_time, :beyond_arrival)")
        params["beyond_time"], params["beyond_arrival"] = where.beyond
    if where.session_id is not None:
        conditions.append("AND e.session_id = :session_id")
        params["session_id"] = where.session_id
    if where.starts_with is not None:
        conditions.append("AND substr(e.session_id, 1, :length) = :start")
        params["length"], params["start"] = len(where.starts_with), where.starts_with
    if where.outcome is not None:
        conditions.append(_OF_OUTCOME)
        params["outcome"] = where.outcome.value
    if where.older_than is not None:
        conditions.append(_OLDER_THAN)
        params["older_than"] = where.older_than
    if where.tool_id is not None:
        conditions.append(f"AND EXISTS ({of_session} AND o.tool_id = :tool)")
        params["tool"] = where.tool_id
    if where.failed is not None:
        conditions.append(f"AND {'' if where.failed else 'NOT '}EXISTS ({of_session} AND o.raised = 1)")
    return " ".join(conditions), params


def _session(tx: Transaction, tenant_id: str, last: Row) -> RecentSession:
    about = {"tenant": tenant_id, "session": last["session_id"]}
    summary = tx.fetch_one(_SUMMARIES, **about) or {}
    words = tx.fetch_one(_WORDS, **about)
    return RecentSession(
        session_id=last["session_id"],
        event_count=summary["event_count"],
        started_at=from_micros(summary["started_at"]),
        ended_at=from_micros(summary["ended_at"]),
        outcome=Outcome(summary["outcome"]),
        failed=int(summary["failed"]),
        turns=summary["turns"],
        tools=tuple(row["tool_id"] for row in tx.fetch_all(_TOOLS, most=_MOST_TOOLS, **about)),
        first_words=None if words is None else words["outside_input"][:_MOST_WORDS],
        place=(last["timestamp"], last["arrival"]),
        time_known=bool(summary["time_known"]),
        is_judged=bool(summary["verdicts"]) or summary["outcome"] != Outcome.PARTIAL.value,
    )
