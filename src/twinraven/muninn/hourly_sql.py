"""Rolls the event log up by the hour, so that counting a day does not read every call of it.

The roll-up holds what arrived up to a mark (`roll_up`). Whoever reads adds what arrived behind the mark, in the same
snapshot, so the figures are those of the log at any time, however late an event's time is. `fold` moves the mark on, in
short transactions of which each locks it: of two who fold at once the second goes on where the first ended. Retention
takes sessions out again by `folded_part` and `unfold`, in the transaction in which their events leave.

A pair of tools belongs to the hour of its later call. An event that arrives late stands between two that were a pair;
so what is folded is the change: the pairs around the new events of a session after them less the pairs before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from twinraven.muninn.outcome_sql import fold_calls, fold_verdicts, forget, tags_of
from twinraven.muninn.roll_up import LOG, NEW_CALLS, RollUp, SettledMarks, lock, move
from twinraven.storage import Row, Transaction

HOUR: Final = 3_600_000_000
FOLD_BEYOND: Final = 2_000
AT_ONCE: Final = 4_000
"""How many arrival numbers one transaction folds: writers wait for it."""
_YEAR_ONE: Final = -62_135_596_800_000_000
"""The first moment a time can have, in microseconds; hours are counted from it, so that division never sees a sign."""
_BEGINS: Final = f"((timestamp - ({_YEAR_ONE})) / {HOUR} * {HOUR} + ({_YEAR_ONE}))"
_FOLD_TOOLS: Final = f"""
INSERT INTO activity_tools (tenant_id, begins_at, tool_id, calls, raised, timed, latency_ms, slowest_ms)
SELECT tenant_id, {_BEGINS}, tool_id, count(*), sum(raised), sum(time_known),
    sum(CASE WHEN time_known = 1 THEN latency_ms ELSE 0 END), max(CASE WHEN time_known = 1 THEN latency_ms END)
FROM {LOG} WHERE {NEW_CALLS} GROUP BY 1, 2, 3
ON CONFLICT (tenant_id, begins_at, tool_id) DO UPDATE SET calls = activity_tools.calls + excluded.calls,
    raised = activity_tools.raised + excluded.raised, timed = activity_tools.timed + excluded.timed,
    latency_ms = activity_tools.latency_ms + excluded.latency_ms,
    slowest_ms = CASE WHEN COALESCE(excluded.slowest_ms, -1) > COALESCE(activity_tools.slowest_ms, -1)
        THEN excluded.slowest_ms ELSE activity_tools.slowest_ms END
"""
_FOLD_SESSIONS: Final = f"""
INSERT INTO activity_sessions (tenant_id, begins_at, session_id, calls, raised)
SELECT tenant_id, {_BEGINS}, session_id, count(*), sum(raised) FROM {LOG} WHERE {NEW_CALLS} GROUP BY 1, 2, 3
ON CONFLICT (tenant_id, begins_at, session_id) DO UPDATE SET calls = activity_sessions.calls + excluded.calls,
    raised = activity_sessions.raised + excluded.raised
"""
_FOLD_FAILURES: Final = f"""
INSERT INTO activity_failures (tenant_id, begins_at, tool_id, error_code, calls)
SELECT tenant_id, {_BEGINS}, tool_id, COALESCE(error_code, ''), count(*) FROM {LOG} WHERE {NEW_CALLS} AND raised = 1
GROUP BY 1, 2, 3, 4
ON CONFLICT (tenant_id, begins_at, tool_id, error_code) DO UPDATE SET calls = activity_failures.calls + excluded.calls
"""
_OWN: Final = "l.tenant_id = :tenant AND l.session_id = t.session_id AND l.parent_event_id IS NULL"
# Joined in this order: the few sessions first, else SQLite goes through the whole log.
_CHANGED_PAIRS: Final = f"""
WITH touched AS (
    SELECT session_id, min(timestamp) AS first, max(timestamp) AS last FROM {LOG}
    WHERE {NEW_CALLS} AND parent_event_id IS NULL GROUP BY session_id),
around AS (
    SELECT t.session_id,
        COALESCE((SELECT l.timestamp FROM {LOG} l WHERE {_OWN} AND l.arrival <= :mark AND l.timestamp < t.first
            ORDER BY l.timestamp DESC LIMIT 1), t.first) AS since,
        COALESCE((SELECT l.timestamp FROM {LOG} l WHERE {_OWN} AND l.arrival <= :mark AND l.timestamp > t.last
            ORDER BY l.timestamp LIMIT 1), t.last) AS until
    FROM touched t),
near AS (
    SELECT l.session_id, l.timestamp, l.arrival, l.tool_id FROM around t CROSS JOIN {LOG} l WHERE {_OWN}
        AND l.timestamp >= t.since AND l.timestamp <= t.until AND l.arrival <= :through),
changed AS (
    SELECT timestamp, lag(tool_id) OVER (PARTITION BY session_id ORDER BY timestamp, arrival) AS from_tool,
        tool_id AS to_tool, 1 AS calls FROM near
    UNION ALL
    SELECT timestamp, lag(tool_id) OVER (PARTITION BY session_id ORDER BY timestamp, arrival) AS from_tool,
        tool_id AS to_tool, -1 AS calls FROM near WHERE arrival <= :mark)
"""
_PAIRS_TO_FOLD: Final = f"""{_CHANGED_PAIRS}
SELECT {_BEGINS} AS begins_at, from_tool, to_tool, sum(calls) AS calls FROM changed WHERE from_tool IS NOT NULL
GROUP BY 1, 2, 3 HAVING sum(calls) <> 0
"""
_ADD_PAIRS: Final = """
INSERT INTO activity_pairs (tenant_id, begins_at, from_tool, to_tool, calls) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, begins_at, from_tool, to_tool) DO UPDATE SET calls = activity_pairs.calls + excluded.calls
"""
_TAKE_PAIRS: Final = """
UPDATE activity_pairs SET calls = calls - ?
WHERE tenant_id = ? AND begins_at = ? AND from_tool = ? AND to_tool = ?
"""
_TAKE_FAILURES: Final = """
UPDATE activity_failures SET calls = calls - ?
WHERE tenant_id = ? AND begins_at = ? AND tool_id = ? AND error_code = ?
"""
_TAKE_CALLS: Final = """
UPDATE activity_tools SET calls = calls - ?, raised = raised - ?, timed = timed - ?, latency_ms = latency_ms - ?
WHERE tenant_id = ? AND begins_at = ? AND tool_id = ?
"""
_OF_HOUR: Final = f"""
FROM {LOG} WHERE tenant_id = :tenant AND tool_id = :tool AND timestamp >= :hour AND timestamp < :end
    AND time_known = 1 AND arrival <= :mark
"""
_PAIRS: Final = f"""{_CHANGED_PAIRS}
SELECT from_tool, to_tool, sum(calls) AS count FROM (
    SELECT from_tool, to_tool, calls FROM activity_pairs
    WHERE tenant_id = :tenant AND begins_at >= :since AND begins_at < :until
    UNION ALL
    SELECT from_tool, to_tool, calls FROM changed
    WHERE from_tool IS NOT NULL AND timestamp >= :since AND timestamp < :until) pairs
GROUP BY from_tool, to_tool HAVING sum(calls) > 0 ORDER BY sum(calls) DESC, from_tool, to_tool LIMIT :limit
"""
_BEHIND: Final = f"""
    FROM {LOG} WHERE arrival > :mark AND tenant_id || '' = :tenant AND timestamp >= :head AND timestamp < :tail
"""
_FRINGES: Final = (
    f"FROM {LOG} WHERE tenant_id = :tenant AND timestamp >= :since AND timestamp < :head",
    f"FROM {LOG} WHERE tenant_id = :tenant AND timestamp >= :tail AND timestamp < :until",
)
_BUCKETS: Final = f"""
SELECT (at - :since) / :width AS place, sum(calls) AS calls, sum(raised) AS failed,
    count(DISTINCT session_id) AS sessions
FROM (
    SELECT begins_at AS at, session_id, calls, raised FROM activity_sessions
    WHERE tenant_id = :tenant AND begins_at >= :head AND begins_at < :tail
    UNION ALL SELECT timestamp AS at, session_id, 1 AS calls, raised {_BEHIND}
    UNION ALL SELECT timestamp AS at, session_id, 1 AS calls, raised {_FRINGES[1]}) counted
GROUP BY (at - :since) / :width ORDER BY 1
"""
_CALL: Final = """tool_id, 1 AS calls, raised, time_known AS timed,
    CASE WHEN time_known = 1 THEN latency_ms ELSE 0 END AS latency_ms,
    CASE WHEN time_known = 1 THEN latency_ms END AS slowest_ms"""
_USES: Final = f"""
SELECT tool_id, sum(calls) AS calls, sum(raised) AS raised, sum(timed) AS timed, sum(latency_ms) AS latency_ms,
    max(slowest_ms) AS max_latency_ms
FROM (
    SELECT tool_id, calls, raised, timed, latency_ms, slowest_ms FROM activity_tools
    WHERE tenant_id = :tenant AND begins_at >= :head AND begins_at < :tail
    UNION ALL SELECT {_CALL} {_BEHIND}
    UNION ALL SELECT {_CALL} {_FRINGES[0]}
    UNION ALL SELECT {_CALL} {_FRINGES[1]}) counted
GROUP BY tool_id HAVING sum(calls) > 0 ORDER BY sum(calls) DESC, tool_id LIMIT :limit
"""
_FAILURE: Final = "tool_id, COALESCE(error_code, '') AS error_code, 1 AS calls"
_FAILURES: Final = f"""
SELECT tool_id, error_code, sum(calls) AS calls FROM (
    SELECT tool_id, error_code, calls FROM activity_failures
    WHERE tenant_id = :tenant AND begins_at >= :head AND begins_at < :tail
    UNION ALL SELECT {_FAILURE} {_BEHIND} AND raised = 1
    UNION ALL SELECT {_FAILURE} {_FRINGES[0]} AND raised = 1
    UNION ALL SELECT {_FAILURE} {_FRINGES[1]} AND raised = 1) counted
GROUP BY tool_id, error_code HAVING sum(calls) > 0 ORDER BY sum(calls) DESC, tool_id, error_code LIMIT :limit
"""


@dataclass(slots=True)
class FoldedPart:
    """The part of the roll-up that some sessions account for, by hour."""

    mark: int
    tools: dict[tuple[int, str], list[int]] = field(default_factory=dict[tuple[int, str], list[int]])
    """Calls, how many raised and have known times, what those took together, and the longest, by tool."""
    failures: Counter[tuple[int, str, str]] = field(default_factory=Counter[tuple[int, str, str]])
    pairs: Counter[tuple[int, str, str]] = field(default_factory=Counter[tuple[int, str, str]])
    sessions: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    tagged: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Tags and the arrival numbers of their calls."""


def hour_of(micros: int) -> int:
    """Return the beginning of a moment's hour."""
    return micros - micros % HOUR


def counted_buckets(tx: Transaction, tenant_id: str, mark: int, span: dict[str, Any]) -> list[Row]:
    """Count calls and sessions in stretches of whole hours from the beginning of an hour."""
    return tx.fetch_all(_BUCKETS, tenant=tenant_id, mark=mark, **_edges(span), **span)


def counted_uses(tx: Transaction, tenant_id: str, mark: int, span: dict[str, Any], limit: int) -> list[Row]:
    """Count the calls of each tool, the most used first."""
    return tx.fetch_all(_USES, tenant=tenant_id, mark=mark, limit=limit, **_edges(span), **span)


def counted_failures(tx: Transaction, tenant_id: str, mark: int, span: dict[str, Any], limit: int) -> list[Row]:
    """Count the failures of each tool by code, the commonest first."""
    return tx.fetch_all(_FAILURES, tenant=tenant_id, mark=mark, limit=limit, **_edges(span), **span)


def counted_pairs(tx: Transaction, tenant_id: str, found: RollUp, span: dict[str, Any], limit: int) -> list[Row]:
    """Count which tool followed which, in whole hours."""
    through = found.mark + found.behind
    return tx.fetch_all(_PAIRS, tenant=tenant_id, mark=found.mark, through=through, limit=limit, **span)


def fold(tx: Transaction, tenant_id: str, settled_to: SettledMarks) -> bool:
    """Roll up the next events and verdicts of a tenant, up to what is settled; says whether more are to come."""
    mark, judged = lock(tx, tenant_id)
    through = max(mark, min(settled_to.calls, mark + AT_ONCE))
    judged_to = max(judged, min(settled_to.verdicts, judged + AT_ONCE))
    if through > mark:
        _fold_calls(tx, {"tenant": tenant_id, "mark": mark, "through": through})
    if judged_to > judged:
        fold_verdicts(tx, tenant_id, judged, judged_to)
    move(tx, tenant_id, through, judged_to)
    return through < settled_to.calls or judged_to < settled_to.verdicts


def _fold_calls(tx: Transaction, about: dict[str, Any]) -> None:
    tenant_id = about["tenant"]
    fold_calls(tx, about)
    tx.execute(_FOLD_TOOLS, **about)
    tx.execute(_FOLD_FAILURES, **about)
    tx.execute(_FOLD_SESSIONS, **about)
    pairs = tx.fetch_all(_PAIRS_TO_FOLD, **about)
    more = [each for each in pairs if each["calls"] > 0]
    less = [each for each in pairs if each["calls"] < 0]
    tx.execute_many(_ADD_PAIRS, [(tenant_id, *_pair(each), int(each["calls"])) for each in more])
    tx.execute_many(_TAKE_PAIRS, [(-int(each["calls"]), tenant_id, *_pair(each)) for each in less])


def folded_part(tx: Transaction, tenant_id: str, session_ids: Iterable[str]) -> FoldedPart:
    """Count what the roll-up holds of some sessions, and lock it until they were taken out."""
    found = FoldedPart(lock(tx, tenant_id)[0])
    for session_id in session_ids:
        before: str | None = None
        for row in _folded_calls(tx, tenant_id, session_id, found.mark):
            hour, tool = hour_of(row["timestamp"]), row["tool_id"]
            known = int(row["time_known"])
            found.sessions.add((hour, session_id))
            less = found.tools.setdefault((hour, tool), [0, 0, 0, 0, -1])
            for place, value in enumerate((1, row["raised"], known, known * row["latency_ms"])):
                less[place] += value
            less[4] = max(less[4], row["latency_ms"] if known else -1)
            if row["raised"]:
                found.failures[hour, tool, row["error_code"] or ""] += 1
            found.tagged += [(tag, row["arrival"]) for tag in tags_of(row)]
            if row["parent_event_id"] is None:
                if before is not None:
                    found.pairs[hour, before, tool] += 1
                before = tool
    return found


def unfold(tx: Transaction, tenant_id: str, part: FoldedPart) -> None:
    """Take sessions out of the roll-up whose events have just left the log."""
    tools = sorted(part.tools.items())
    tx.execute_many(_TAKE_CALLS, [(*less[:4], tenant_id, *place) for place, less in tools])
    for (hour, tool), less in tools:
        _find_slowest(tx, {"tenant": tenant_id, "hour": hour, "tool": tool}, part.mark, left=less[4])
    failures, pairs = sorted(part.failures.items()), sorted(part.pairs.items())
    tx.execute_many(_TAKE_FAILURES, [(number, tenant_id, *failure) for failure, number in failures])
    tx.execute_many(_TAKE_PAIRS, [(number, tenant_id, *pair) for pair, number in pairs])
    mine = "WHERE tenant_id = ? AND begins_at = ?"
    tx.execute_many(
        f"DELETE FROM activity_tools {mine} AND tool_id = ? AND calls = 0", [(tenant_id, *place) for place, _ in tools]
    )
    tx.execute_many(
        f"DELETE FROM activity_failures {mine} AND tool_id = ? AND error_code = ? AND calls = 0",
        [(tenant_id, *failure) for failure, _ in failures],
    )
    tx.execute_many(
        f"DELETE FROM activity_pairs {mine} AND from_tool = ? AND to_tool = ? AND calls = 0",
        [(tenant_id, *pair) for pair, _ in pairs],
    )
    tx.execute_many(
        f"DELETE FROM activity_sessions {mine} AND session_id = ?",
        [(tenant_id, *each) for each in sorted(part.sessions)],
    )
    forget(tx, tenant_id, sorted({session for _, session in part.sessions}), part.tagged)


def _find_slowest(tx: Transaction, about: dict[str, Any], mark: int, *, left: int) -> None:
    """Look for the slowest call of a tool's hour again where the one that was it may have left."""
    kept = tx.fetch_one(
        "SELECT slowest_ms FROM activity_tools WHERE tenant_id = :tenant AND begins_at = :hour AND tool_id = :tool",
        **about,
    )
    slowest = None if kept is None else kept["slowest_ms"]
    if slowest is None or left < slowest:
        return
    about |= {"end": about["hour"] + HOUR, "mark": mark}
    # Often another call took as long, which is soon found; else all of the hour are looked at.
    if tx.fetch_one(f"SELECT 1 AS found {_OF_HOUR} AND latency_ms >= :slowest LIMIT 1", slowest=slowest, **about):
        return
    tx.execute(
        f"UPDATE activity_tools SET slowest_ms = (SELECT max(latency_ms) {_OF_HOUR}) "
        "WHERE tenant_id = :tenant AND begins_at = :hour AND tool_id = :tool",
        **about,
    )


def _folded_calls(tx: Transaction, tenant_id: str, session_id: str, mark: int) -> list[Row]:
    return tx.fetch_all(
        f"SELECT arrival, timestamp, tool_id, raised, error_code, time_known, latency_ms, tags, parent_event_id "
        f"FROM {LOG} "
        "WHERE tenant_id = :tenant AND session_id = :session AND arrival <= :mark ORDER BY timestamp, arrival",
        tenant=tenant_id,
        session=session_id,
        mark=mark,
    )


def _pair(row: Row) -> tuple[int, str, str]:
    return row["begins_at"], row["from_tool"], row["to_tool"]


def _edges(span: dict[str, Any]) -> dict[str, int]:
    """Return where the whole hours of a span begin and end; beyond them calls are counted one by one."""
    head = min(-hour_of(-span["since"]), span["until"])
    return {"head": head, "tail": max(head, hour_of(span["until"]))}
