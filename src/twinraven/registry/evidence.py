"""What the record says of a learned tool in use: failures, those of its parts, and the turns it saved.

A use of a tool makes its inner calls in one turn of the agent, where the agent alone would have needed one for each.
What the agent then asks again, with the same arguments, was not saved. A use that raised saved nothing and cost its
turn. Parts are judged by the calls that agents made of them directly, for inside a composite they fail by its faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import prod, sqrt
from typing import Final

from twinraven.foundation.clock import to_micros
from twinraven.storage import Transaction

RECENT_USES: Final = 500
"""Uses looked at for turns, newest first."""

_Z: Final = 1.96

_CALLS = """
SELECT count(*) AS calls, COALESCE(sum(raised), 0) AS raised FROM muninn_event_log
WHERE tenant_id = :tenant AND tool_id = :tool AND timestamp >= :since
"""
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


@dataclass(frozen=True, slots=True)
class CallRate:
    """How often a tool was called and raised."""

    calls: int
    raised: int

    @property
    def rate(self) -> float:
        return self.raised / self.calls if self.calls else 0.0

    @property
    def at_least(self) -> float:
        """The lower Wilson bound: what can be said of the rate after so many calls."""
        if not self.calls:
            return 0.0
        n, p = self.calls, self.rate
        centre = p + _Z * _Z / (2 * n)
        spread = _Z * sqrt(p * (1 - p) / n + _Z * _Z / (4 * n * n))
        return max(0.0, (centre - spread) / (1 + _Z * _Z / n))


@dataclass(frozen=True, slots=True)
class TurnsSaved:
    """Uses by agents, and the turns that came of them; less than nothing if they cost more than they saved."""

    uses: int
    turns: int


def call_rate(tx: Transaction, tenant_id: str, tool_id: str, *, since: datetime) -> CallRate:
    """Calls of a tool since a time, from whoever made them."""
    row = tx.fetch_one(_CALLS, tenant=tenant_id, tool=tool_id, since=to_micros(since))
    return CallRate(0, 0) if row is None else CallRate(row["calls"], int(row["raised"]))


def direct_rate(tx: Transaction, tenant_id: str, tool_id: str, *, since: datetime) -> CallRate:
    """Calls of a tool since a time that agents made themselves."""
    row = tx.fetch_one(f"{_CALLS} AND parent_event_id IS NULL", tenant=tenant_id, tool=tool_id, since=to_micros(since))
    return CallRate(0, 0) if row is None else CallRate(row["calls"], int(row["raised"]))


def expected_rate(parts: Sequence[CallRate]) -> float | None:
    """How often a chain of these parts would fail if they failed independently; unknown if one was never called."""
    if not all(part.calls for part in parts):
        return None
    return round(1.0 - prod(1.0 - part.rate for part in parts), 6)


def turns_saved(tx: Transaction, tenant_id: str, tool_id: str, *, since: datetime) -> TurnsSaved:
    """What the newest uses of a tool came to."""
    rows = tx.fetch_all(_TURNS, tenant=tenant_id, tool=tool_id, since=to_micros(since), most=RECENT_USES)
    turns = sum(-1 if row["raised"] else row["inner_calls"] - 1 - row["repeated"] for row in rows)
    return TurnsSaved(len(rows), turns)
