"""Keeps the outcome and the last call of each session, and which calls carry a tag, so that filters need no scan.

Both are part of the roll-up (`hourly_sql`): they hold what arrived up to its mark, and verdicts up to a mark of their
own. A session that got a call or a verdict behind the marks is looked at anew by whoever reads, in the same snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from twinraven.foundation.canonical import parse_json
from twinraven.muninn.roll_up import LOG, NEW_CALLS, VERDICTS, RollUp
from twinraven.storage import Row, Transaction

_FEW: Final = 20_000
"""Up to so many calls with a tag are looked up; of more, enough are among the newest."""
_KEPT: Final = "activity_outcomes"
_LAST_VERDICT: Final = """(SELECT v.outcome FROM session_verdicts v
    WHERE v.tenant_id = :tenant AND v.session_id = {session} ORDER BY v.arrival DESC LIMIT 1)"""


def _sooner(name: str) -> str:
    """Return the lower of what is kept and what is folded."""
    return f"CASE WHEN excluded.{name} < {_KEPT}.{name} THEN excluded.{name} ELSE {_KEPT}.{name} END"


def _later(name: str) -> str:
    return f"CASE WHEN excluded.{name} > {_KEPT}.{name} THEN excluded.{name} ELSE {_KEPT}.{name} END"


_FOLD: Final = f"""
WITH touched AS (
    SELECT session_id, min(outcome) AS lowest, max(outcome) AS highest,
        max(CASE WHEN time_known = 1 THEN timestamp END) AS timed_at
    FROM {LOG} WHERE {NEW_CALLS} GROUP BY session_id)
INSERT INTO {_KEPT} (tenant_id, session_id, ended_at, ended_by, timed_at, lowest, highest, outcome)
SELECT :tenant, t.session_id, e.timestamp, e.arrival, t.timed_at, t.lowest, t.highest,
    COALESCE({_LAST_VERDICT.format(session="t.session_id")},
        CASE WHEN t.lowest = t.highest THEN t.lowest ELSE 'partial' END)
FROM touched t CROSS JOIN {LOG} e WHERE e.arrival = (
    SELECT l.arrival FROM {LOG} l WHERE l.tenant_id = :tenant AND l.session_id = t.session_id
        AND l.arrival <= :through ORDER BY l.timestamp DESC, l.arrival DESC LIMIT 1)
ON CONFLICT (tenant_id, session_id) DO UPDATE SET ended_at = excluded.ended_at, ended_by = excluded.ended_by,
    timed_at = CASE WHEN {_KEPT}.timed_at IS NULL THEN excluded.timed_at ELSE {_later("timed_at")} END,
    lowest = {_sooner("lowest")}, highest = {_later("highest")},
    outcome = COALESCE({_LAST_VERDICT.format(session="excluded.session_id")},
        CASE WHEN {_sooner("lowest")} = {_later("highest")} THEN excluded.lowest ELSE 'partial' END)
"""
_JUDGE: Final = f"""
UPDATE {_KEPT} SET outcome = {_LAST_VERDICT.format(session=f"{_KEPT}.session_id")}
WHERE tenant_id = :tenant AND session_id IN (
    SELECT session_id FROM {VERDICTS}
    WHERE arrival > :mark AND arrival <= :through AND tenant_id || '' = :tenant)
"""
CHANGED_SINCE: Final = f"""
    SELECT session_id FROM {LOG} WHERE arrival > :mark AND tenant_id || '' = :tenant
    UNION SELECT session_id FROM {VERDICTS} WHERE arrival > :verdicts_mark AND tenant_id || '' = :tenant
"""
"""The sessions of which something else may be true than what is kept."""
OUTCOME: Final = f"""
COALESCE({_LAST_VERDICT.format(session="e.session_id")},
    (SELECT CASE WHEN min(o.outcome) = max(o.outcome) THEN min(o.outcome) ELSE 'partial' END
     FROM {LOG} o WHERE o.tenant_id = :tenant AND o.session_id = e.session_id)) = :outcome
"""
"""Whether the session of `e` went so, by its last verdict or else by its calls."""
_IDS: Final = f"""
SELECT session_id FROM (
    SELECT session_id FROM {_KEPT}
    WHERE tenant_id = :tenant AND outcome = :outcome AND session_id > :after AND session_id NOT IN ({CHANGED_SINCE})
    UNION ALL
    SELECT session_id FROM ({CHANGED_SINCE}) e WHERE session_id > :after AND {OUTCOME}) found
ORDER BY session_id LIMIT :limit
"""
_CHANGED: Final = f"""
SELECT l.session_id, min(l.tool_id) AS tool_id, count(*) AS calls
FROM (SELECT DISTINCT session_id || '' AS session_id FROM {LOG} WHERE {NEW_CALLS}) t CROSS JOIN {LOG} l
WHERE l.tenant_id = :tenant AND l.session_id = t.session_id GROUP BY l.session_id, l.tool_id || ''
"""
MOST_PENDING: Final = 20_000
_PENDING: Final = f"""
SELECT count(*) AS seen, sum(CASE WHEN tenant_id = :tenant THEN 1 ELSE 0 END) AS own
FROM (SELECT tenant_id FROM {LOG} WHERE arrival > :after ORDER BY arrival LIMIT :most) newer
"""
TAGGED: Final = f"""
SELECT arrival AS tagged FROM activity_tags WHERE tenant_id = :tenant AND tag = :tag_name
UNION ALL
SELECT arrival AS tagged FROM {LOG} WHERE arrival > :mark AND tenant_id || '' = :tenant AND tags LIKE :tag ESCAPE '!'
"""
"""The arrival numbers of the calls with a tag."""


def fold_calls(tx: Transaction, about: dict[str, Any]) -> None:
    """Keep what calls between two arrival numbers say of their sessions, and their tags."""
    tx.execute(_FOLD, **about)
    tagged = tx.fetch_all(f"SELECT arrival, tags FROM {LOG} WHERE {NEW_CALLS} AND tags <> '[]'", **about)
    rows = [(about["tenant"], tag, row["arrival"]) for row in tagged for tag in tags_of(row)]
    tx.insert_missing("activity_tags", ("tenant_id", "tag", "arrival"), rows)


def fold_verdicts(tx: Transaction, tenant_id: str, mark: int, through: int) -> None:
    """Keep what verdicts between two arrival numbers say of their sessions."""
    tx.execute(_JUDGE, tenant=tenant_id, mark=mark, through=through)


def forget(tx: Transaction, tenant_id: str, session_ids: Iterable[str], tagged: Iterable[tuple[str, int]]) -> None:
    """Drop what is kept of sessions whose calls have left the log."""
    tx.execute_many(
        f"DELETE FROM {_KEPT} WHERE tenant_id = ? AND session_id = ?", [(tenant_id, each) for each in session_ids]
    )
    tx.execute_many(
        "DELETE FROM activity_tags WHERE tenant_id = ? AND tag = ? AND arrival = ?",
        [(tenant_id, *each) for each in tagged],
    )


def tags_of(row: Row) -> set[str]:
    """Return the tags of a call, each once."""
    return set(parse_json(row["tags"], field="tags"))


def sessions_with(
    tx: Transaction, tenant_id: str, outcome: str, *, found: RollUp, after: str | None, limit: int
) -> list[str]:
    """Return the sessions that went so, by their ids, behind one of them."""
    # No id is empty, so all lie behind the empty one.
    asked = {"outcome": outcome, "after": after or "", "limit": limit}
    rows = tx.fetch_all(_IDS, tenant=tenant_id, mark=found.mark, verdicts_mark=found.verdicts_mark, **asked)
    return [row["session_id"] for row in rows]


def sessions_since(tx: Transaction, tenant_id: str, moments: Iterable[int]) -> dict[int, int]:
    """Count the sessions with a call of known time since each of some moments, as far as the log is rolled up."""
    sought = sorted(set(moments))
    if not sought:
        return {}
    named = {f"m{'x' * place}": each for place, each in enumerate(sought)}
    sums = ", ".join(f"sum(CASE WHEN timed_at >= :{name} THEN 1 ELSE 0 END) AS {name}" for name in named)
    row = tx.fetch_one(f"SELECT {sums} FROM {_KEPT} WHERE tenant_id = :tenant", tenant=tenant_id, **named) or {}
    return {each: int(row.get(name) or 0) for name, each in named.items()}


def is_rare(tx: Transaction, tenant_id: str, tag: str) -> bool:
    """Return whether few enough calls carry a tag for looking each of them up."""
    row = tx.fetch_one(
        "SELECT count(*) AS number FROM (SELECT 1 AS one FROM activity_tags WHERE tenant_id = :tenant AND tag = :tag "
        "LIMIT :most) calls",
        tenant=tenant_id,
        tag=tag,
        most=_FEW + 1,
    )
    return row is not None and row["number"] <= _FEW


def changed_sessions(tx: Transaction, tenant_id: str, *, after: int, through: int) -> dict[str, dict[str, int]]:
    """Return the sessions that got calls between two arrival numbers, with how often each called which tool in all."""
    found: dict[str, dict[str, int]] = {}
    for row in tx.fetch_all(_CHANGED, tenant=tenant_id, mark=after, through=through):
        found.setdefault(row["session_id"], {})[row["tool_id"]] = int(row["calls"])
    return found


def pending(tx: Transaction, tenant_id: str, after: int) -> int:
    """Count a tenant's calls with a higher arrival number, at most `MOST_PENDING`."""
    row = tx.fetch_one(_PENDING, tenant=tenant_id, after=after, most=MOST_PENDING) or {"seen": 0, "own": 0}
    return MOST_PENDING if row["seen"] == MOST_PENDING else int(row["own"] or 0)


def first_time(tx: Transaction, tenant_id: str, after: int) -> int | None:
    """Return the earliest known time of the calls with higher arrival numbers."""
    sql = (
        f"SELECT min(timestamp) AS first FROM {LOG} WHERE arrival > :after AND tenant_id || '' = :tenant "
        "AND time_known = 1"
    )
    row = tx.fetch_one(sql, tenant=tenant_id, after=after)
    return None if row is None else row["first"]
