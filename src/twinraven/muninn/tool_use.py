"""Reads from the event log how a tool was used: how often it was called and raised, and what each use took."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import (
    ApprovalDenied,
    ApprovalPending,
    CallInProgress,
    IdempotencyConflict,
    InputRequired,
    InvalidInput,
    PolicyViolation,
)
from twinraven.storage import Transaction

_REFUSALS = (
    *(InvalidInput, InputRequired, PolicyViolation, ApprovalPending, ApprovalDenied),
    *(IdempotencyConflict, CallInProgress),
)
# A refused call ran nothing: it has such a code and, where the tool is a composite, no call inside it.
_CALLS = f"""
SELECT count(*) AS calls, COALESCE(sum(CASE WHEN raised = 1 OR outcome = 'failure' THEN 1 ELSE 0 END), 0) AS failed
FROM muninn_event_log e
WHERE tenant_id = :tenant AND tool_id = :tool AND timestamp >= :since
  AND event_id NOT IN (SELECT corrects FROM muninn_event_log WHERE tenant_id = :tenant AND corrects IS NOT NULL)
  AND (error_code IS NULL OR error_code NOT IN ({", ".join(f"'{kind.code}'" for kind in _REFUSALS)})
       OR EXISTS (SELECT 1 FROM muninn_event_log i WHERE i.tenant_id = e.tenant_id AND i.session_id = e.session_id
                    AND i.parent_event_id = e.event_id))
"""  # noqa: S608 - constants of ours
_TURNS = """
SELECT raised, inner_calls,
       (SELECT count(*) FROM (
            SELECT DISTINCT i.tool_id, i.input_hash FROM muninn_event_log i
            WHERE i.tenant_id = uses.tenant_id AND i.session_id = uses.session_id
              AND i.parent_event_id = uses.event_id) made
        WHERE EXISTS (
            SELECT 1 FROM muninn_event_log again
            WHERE again.tenant_id = uses.tenant_id AND again.session_id = uses.session_id
              AND again.parent_event_id IS NULL AND again.tool_id = made.tool_id
              AND again.input_hash = made.input_hash
              AND (again.timestamp, again.arrival) > (uses.timestamp, uses.arrival))) AS repeated
FROM (SELECT tenant_id, session_id, event_id, timestamp, arrival, raised,
             (SELECT count(*) FROM muninn_event_log i
              WHERE i.tenant_id = e.tenant_id AND i.session_id = e.session_id
                AND i.parent_event_id = e.event_id) AS inner_calls
      FROM muninn_event_log e
      WHERE e.tenant_id = :tenant AND e.tool_id = :tool AND e.timestamp >= :since AND e.parent_event_id IS NULL
      ORDER BY e.timestamp DESC LIMIT :most) uses
"""


class CallCount(NamedTuple):
    """Counts the calls of a tool, and those that raised or were said to have failed."""

    calls: int
    failed: int


class CompositeUse(NamedTuple):
    """One use of a composite by an agent: its inner calls, and those that the agent made again by itself."""

    raised: bool
    inner_calls: int
    repeated: int


def count_calls(
    tx: Transaction, tenant_id: str, tool_id: str, *, since: datetime, by_agents: bool = False
) -> CallCount:
    """Count the calls of a tool since a time, but for refused ones; `by_agents` leaves out those of composites."""
    query = f"{_CALLS} AND parent_event_id IS NULL" if by_agents else _CALLS
    row = tx.fetch_one(query, tenant=tenant_id, tool=tool_id, since=to_micros(since))
    return CallCount(0, 0) if row is None else CallCount(row["calls"], int(row["failed"]))


def latest_uses(tx: Transaction, tenant_id: str, tool_id: str, *, since: datetime, most: int) -> list[CompositeUse]:
    """List the newest uses of a tool by agents since a time."""
    rows = tx.fetch_all(_TURNS, tenant=tenant_id, tool=tool_id, since=to_micros(since), most=most)
    return [CompositeUse(bool(row["raised"]), row["inner_calls"], row["repeated"]) for row in rows]
