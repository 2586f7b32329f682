"""Reads the usage evidence of a learned tool: failure rates of it and its parts, and turns saved.

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

from twinraven.muninn import count_calls, latest_uses
from twinraven.storage import Transaction

RECENT_USES: Final = 500
"""Uses looked at for turns, newest first."""

_Z: Final = 1.96


@dataclass(frozen=True, slots=True)
class CallRate:
    """The failure rate of a tool: calls, and those that raised or were said to have failed."""

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
    """Return the call rate of a tool since a time, over all callers."""
    return CallRate(*count_calls(tx, tenant_id, tool_id, since=since))


def direct_rate(tx: Transaction, tenant_id: str, tool_id: str, *, since: datetime) -> CallRate:
    """Calls of a tool since a time that agents made themselves."""
    return CallRate(*count_calls(tx, tenant_id, tool_id, since=since, by_agents=True))


def expected_rate(parts: Sequence[CallRate]) -> float | None:
    """Return the failure rate of a chain whose parts fail independently; None if one was never called."""
    if not all(part.calls for part in parts):
        return None
    return round(1.0 - prod(1.0 - part.rate for part in parts), 6)


def turns_saved(tx: Transaction, tenant_id: str, tool_id: str, *, since: datetime) -> TurnsSaved:
    """Return the turns that the newest uses of a tool saved."""
    uses = latest_uses(tx, tenant_id, tool_id, since=since, most=RECENT_USES)
    return TurnsSaved(len(uses), sum(-1 if use.raised else use.inner_calls - 1 - use.repeated for use in uses))
