"""Lists sessions by their last call, the newest first.

They are found by walking the log back in time and taking each session at its last call, so that a page costs what its
sessions have in calls, however long the log is. A filter that few calls fit would have the walk go on to the beginning
of the log; then the sessions of those calls are looked up by an index and put in order. Sessions by their outcome, and
those of which many have the same beginning, come from what is kept of each (`outcome_sql`) and from those that changed
since.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import from_micros, iso, to_micros
from twinraven.muninn.model import Outcome
from twinraven.muninn.outcome_sql import CHANGED_SINCE, OUTCOME
from twinraven.muninn.roll_up import RollUp
from twinraven.storage import Dialect, Row, Transaction

_MOST_TOOLS: Final = 20
_MOST_WORDS: Final = 200
_FEW: Final = 20_000
"""Up to so many calls are looked up; of more, enough are among the newest."""
_BEYOND: Final = "\U0010ffff"
_LAST_CALLS: Final = """
SELECT e.session_id, e.timestamp, e.arrival FROM muninn_event_log e
WHERE e.tenant_id = :tenant {conditions} AND CASE WHEN {later} THEN 0 WHEN {of_session} THEN 1 ELSE 0 END = 1
ORDER BY e.timestamp DESC, e.arrival DESC LIMIT :limit
"""
_LATER: Final = """EXISTS (
    SELECT 1 FROM muninn_event_log later WHERE later.tenant_id = :tenant AND later.session_id = e.session_id AND {})"""
# SQLite compares pairs by an index of their first members alone: of a session whose calls have one time all, each would
# be read for each. Postgres compares them by the whole index, and would not take it for equal times.
_IS_FOLLOWED: Final[dict[Dialect, str]] = {
    "sqlite": f"({_LATER.format('later.timestamp > e.timestamp')} OR "
    f"{_LATER.format('later.timestamp = e.timestamp AND later.arrival > e.arrival')})",
    "postgres": _LATER.format("(later.timestamp, later.arrival) > (e.timestamp, e.arrival)"),
}
_LAST_OF_FEW: Final = """
WITH chosen AS ({few})
SELECT e.session_id, e.timestamp, e.arrival FROM chosen c CROSS JOIN muninn_event_log e
WHERE e.arrival = (
    SELECT l.arrival FROM muninn_event_log l WHERE l.tenant_id = :tenant AND l.session_id = c.session_id
    ORDER BY l.timestamp DESC, l.arrival DESC LIMIT 1)
    AND e.tenant_id || '' = :tenant {conditions} AND {of_session}
ORDER BY e.timestamp DESC, e.arrival DESC LIMIT :limit
"""
_CALLED: Final = (
    "SELECT DISTINCT session_id || '' AS session_id FROM muninn_event_log WHERE tenant_id = :tenant AND {few}"
)
_LAST_KEPT: Final = f"""
SELECT e.session_id, e.timestamp, e.arrival FROM (
    SELECT session_id, ended_at AS timestamp, ended_by AS arrival FROM activity_outcomes
    WHERE tenant_id = :tenant AND {{few}}) e
WHERE e.session_id NOT IN ({CHANGED_SINCE}) {{conditions}} AND {{of_session}}
ORDER BY e.timestamp DESC, e.arrival DESC LIMIT :limit
"""
_ARE_FEW: Final = """
SELECT count(*) AS number FROM (
    SELECT 1 AS one FROM muninn_event_log WHERE tenant_id = :tenant AND {few} LIMIT :most) calls
"""
_SUMMARIES: Final = """
SELECT session_id, count(*) AS event_count, sum(raised) AS failed, count(DISTINCT turn) AS turns,
    min(timestamp) AS started_at, max(timestamp) AS ended_at, min(time_known) AS time_known,
    max(timestamp + 1000 * latency_ms) AS over_at,
    (SELECT count(*) FROM session_verdicts v WHERE v.tenant_id = :tenant AND v.session_id = log.session_id) AS verdicts,
    COALESCE((SELECT v.outcome FROM session_verdicts v WHERE v.tenant_id = :tenant AND v.session_id = log.session_id
     ORDER BY v.arrival DESC LIMIT 1),
    CASE WHEN min(outcome) = max(outcome) THEN min(outcome) ELSE 'partial' END) AS outcome
FROM muninn_event_log log WHERE tenant_id = :tenant AND session_id = :session GROUP BY session_id
"""
_OLDER_THAN: Final = """
AND (e.timestamp, e.arrival) < (SELECT o.timestamp, o.arrival FROM muninn_event_log o
    WHERE o.tenant_id = :tenant AND o.session_id = :older_than ORDER BY o.timestamp DESC, o.arrival DESC LIMIT 1)
"""
# Here and below a column is joined to nothing where an index of it would be taken, and lead through the whole log.
_TOOLS: Final = """
SELECT min(tool_id) AS tool_id FROM muninn_event_log
WHERE tenant_id = :tenant AND session_id = :session AND parent_event_id IS NULL
GROUP BY tool_id || '' ORDER BY min(timestamp), min(tool_id) LIMIT :most
"""
_WORDS: Final = """
SELECT outside_input FROM muninn_event_log WHERE tenant_id = :tenant AND session_id = :session
AND outside_input IS NOT NULL ORDER BY timestamp, arrival LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Filters sessions; an unset field does not restrict."""

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
    lasted_ms: int
    """From the beginning of its first call to the end of the call that ended last."""
    place: tuple[int, int] = field(default=(0, 0), compare=False)
    time_known: bool = True
    """Whether its calls came with times; else an import gave them times in their order."""
    is_judged: bool = True
    """Whether the outcome was stated; else `partial` stands for unknown."""

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
            "lasted_ms": self.lasted_ms,
            "time_known": self.time_known,
            "is_judged": self.is_judged,
        }


def recent_sessions(tx: Transaction, tenant_id: str, where: SessionFilter, found: RollUp) -> list[RecentSession]:
    """List sessions by their last call."""
    few, given = _rarest(tx, tenant_id, where)
    if few is not None:
        last = _last_calls(tx, tenant_id, where, _LAST_OF_FEW, few=_CALLED.format(few=few), **given)
    elif (where.outcome is not None or where.starts_with) and found.is_near:
        marks: dict[str, Any] = {"mark": found.mark, "verdicts_mark": found.verdicts_mark}
        those = "1 = 1" if where.outcome is None else "outcome = :outcome"
        last = _last_calls(tx, tenant_id, where, _LAST_KEPT, few=those, is_kept=True, **marks)
        last += _last_calls(tx, tenant_id, where, _LAST_OF_FEW, few=CHANGED_SINCE, **marks)
        last.sort(key=lambda row: (row["timestamp"], row["arrival"]), reverse=True)
    else:
        last = _last_calls(tx, tenant_id, where, _LAST_CALLS)
    return [_session(tx, tenant_id, row) for row in last[: where.limit]]


def _last_calls(
    tx: Transaction,
    tenant_id: str,
    where: SessionFilter,
    sql: str,
    *,
    few: str = "",
    is_kept: bool = False,
    **given: Any,
) -> list[Row]:
    """Return the last calls of the newest sessions that fit, in the way that a statement finds them."""
    conditions, params = _conditions(where)
    # What is asked of a whole session is asked once for it: a CASE tells first whether a call is its last.
    of_session, more = _session_conditions(replace(where, outcome=None) if is_kept else where)
    if where.outcome is not None:
        more["outcome"] = where.outcome.value
    asked = sql.format(conditions=conditions, of_session=of_session, few=few, later=_IS_FOLLOWED[tx.dialect])
    return tx.fetch_all(asked, tenant=tenant_id, limit=where.limit, **{**params, **more, **given})


def _rarest(tx: Transaction, tenant_id: str, where: SessionFilter) -> tuple[str | None, dict[str, Any]]:
    """Return a condition that an index serves and few calls fit, with its values; None where none is."""
    choices: list[tuple[str, dict[str, Any]]] = []
    # Postgres may sort texts by the rules of a language, in which what begins alike need not stand together.
    if where.starts_with and tx.dialect == "sqlite":
        begin = where.starts_with
        choices.append(("session_id >= :begin AND session_id < :beyond", {"begin": begin, "beyond": begin + _BEYOND}))
    if where.tool_id is not None:
        choices.append(("tool_id = :tool", {"tool": where.tool_id}))
    if where.failed:
        choices.append(("raised = 1", {}))
    for few, given in choices:
        row = tx.fetch_one(_ARE_FEW.format(few=few), tenant=tenant_id, most=_FEW + 1, **given)
        if row is not None and row["number"] <= _FEW:
            return few, given
    return None, {}


def _conditions(where: SessionFilter) -> tuple[str, dict[str, Any]]:
    """Return what a session's last call says of it."""
    conditions: list[str] = []
    params: dict[str, Any] = {}
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
    if where.older_than is not None:
        conditions.append(_OLDER_THAN)
        params["older_than"] = where.older_than
    return " ".join(conditions), params


def _session_conditions(where: SessionFilter) -> tuple[str, dict[str, Any]]:
    """Return what only all calls of a session say of it."""
    conditions: list[str] = []
    params: dict[str, Any] = {}
    of_session = "SELECT 1 FROM muninn_event_log o WHERE o.tenant_id = :tenant AND o.session_id = e.session_id"
    if where.outcome is not None:
        conditions.append(OUTCOME)
    if where.tool_id is not None:
        conditions.append(f"EXISTS ({of_session} AND o.tool_id || '' = :tool)")
        params["tool"] = where.tool_id
    if where.failed is not None:
        conditions.append(f"{'' if where.failed else 'NOT '}EXISTS ({of_session} AND o.raised = 1)")
    return " AND ".join(conditions) or "1 = 1", params


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
        lasted_ms=(summary["over_at"] - summary["started_at"]) // 1000,
        place=(last["timestamp"], last["arrival"]),
        time_known=bool(summary["time_known"]),
        is_judged=bool(summary["verdicts"]) or summary["outcome"] != Outcome.PARTIAL.value,
    )
