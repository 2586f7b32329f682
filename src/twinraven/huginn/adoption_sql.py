"""Stores the adoption of each learned tool per session, with a cursor of the log, in SQL.

A session that got calls is counted anew as a whole, and what was kept of it is replaced, so late calls and corrections
are right without a rule of their own. What is kept of a session leaves with it (retention), by its foreign key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from twinraven.huginn.adoption_count import SessionFigures
from twinraven.storage import Transaction

DAY_US: Final = 86_400_000_000
_FIGURES: Final = SessionFigures._fields
_SUMS: Final = f"""
SELECT tool_id, {", ".join(f"sum({name}) AS {name}" for name in _FIGURES)} FROM adoption_sessions
WHERE tenant_id = :tenant AND last_at >= :since GROUP BY tool_id
"""
_DAYS: Final = f"""
SELECT tool_id, last_at / {DAY_US} AS day, sum(uses) AS uses, sum(use_turns) AS turns FROM adoption_sessions
WHERE tenant_id = :tenant AND last_at >= :since AND uses > 0 GROUP BY 1, 2 ORDER BY 1, 2
"""
_MOVE: Final = """
UPDATE adoption_marks SET up_to = :through
WHERE tenant_id = :tenant AND tool_id = :tool AND basis = :basis AND up_to = :mark
"""


class CountCursor(NamedTuple):
    """The cursor of a tool's count: since when, up to which arrival number, and for which version."""

    basis: str
    """Names the definition and its time of service: of another one nothing is kept."""
    since: int
    up_to: int
    ready_at: int
    """Before this arrival number is reached, the first count is not done."""

    @property
    def is_ready(self) -> bool:
        return self.up_to >= self.ready_at


class SessionRow(NamedTuple):
    """The stored figures of a session for a tool."""

    tool_id: str
    session_id: str
    last_at: int
    figures: SessionFigures


def counted(tx: Transaction, tenant_id: str) -> dict[str, CountCursor]:
    """Return the cursor of each tool's count."""
    rows = tx.fetch_all(
        "SELECT tool_id, basis, since, up_to, ready_at FROM adoption_marks WHERE tenant_id = :tenant", tenant=tenant_id
    )
    return {row["tool_id"]: CountCursor(row["basis"], row["since"], row["up_to"], row["ready_at"]) for row in rows}


def begin(tx: Transaction, tenant_id: str, tools: Mapping[str, CountCursor]) -> None:
    """Start counting these tools anew, unless another process has begun."""
    there = counted(tx, tenant_id)
    for tool_id, wanted in tools.items():
        if tool_id in there and there[tool_id].basis == wanted.basis:
            continue
        # What was kept for another definition leaves with its mark.
        tx.execute(
            "DELETE FROM adoption_marks WHERE tenant_id = :tenant AND tool_id = :tool", tenant=tenant_id, tool=tool_id
        )
        tx.insert_missing(
            "adoption_marks",
            ("tenant_id", "tool_id", "basis", "since", "up_to", "ready_at"),
            [(tenant_id, tool_id, *wanted)],
        )


def replace_rows(
    tx: Transaction,
    tenant_id: str,
    tools: Mapping[str, CountCursor],
    *,
    through: int,
    sessions: Collection[str],
    rows: Iterable[SessionRow],
) -> bool:
    """Store the figures of some sessions and advance the cursors; False where another process was faster."""
    for tool_id, seen in sorted(tools.items()):
        about = {"tenant": tenant_id, "tool": tool_id, "basis": seen.basis, "mark": seen.up_to}
        if tx.execute(_MOVE, through=through, **about) != 1:
            return False
    tx.execute_many(
        "DELETE FROM adoption_sessions WHERE tenant_id = ? AND tool_id = ? AND session_id = ?",
        [(tenant_id, tool_id, session_id) for tool_id in sorted(tools) for session_id in sessions],
    )
    tx.insert_rows(
        "adoption_sessions",
        ("tenant_id", "tool_id", "session_id", "last_at", *_FIGURES),
        [(tenant_id, row.tool_id, row.session_id, row.last_at, *row.figures) for row in rows],
    )
    return True


def sums(tx: Transaction, tenant_id: str, *, since: int) -> dict[str, SessionFigures]:
    """Return the stored figures of each tool, summed over the sessions with a call since a moment."""
    rows = tx.fetch_all(_SUMS, tenant=tenant_id, since=since)
    return {row["tool_id"]: SessionFigures(*(int(row[name]) for name in _FIGURES)) for row in rows}


def used_days(tx: Transaction, tenant_id: str, *, since: int) -> dict[str, list[tuple[int, int, int]]]:
    """Return the days on which each tool was used, with its uses and the turns they took."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for row in tx.fetch_all(_DAYS, tenant=tenant_id, since=since):
        found.setdefault(row["tool_id"], []).append((row["day"] * DAY_US, int(row["uses"]), int(row["turns"])))
    return found
