"""Counts calls of learned tools, from the event log.

Muninn stores an event for every call of any tool, so nothing is counted on the way of a call and nothing is lost with a
process: a call is counted because it is recorded. A count is what was added up so far (`invocation_count`) and what the
log holds behind the place up to which that was done (`counted`). `fold` moves that place forward now and then, so that
looking stays cheap.

On Postgres a lower arrival number can become visible after a higher one, so `fold` goes only as far as no smaller
number can follow any more. What lies behind is read afresh each time, which finds late events as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from twinraven.foundation.clock import from_micros, to_micros
from twinraven.registry.model import ToolRecord
from twinraven.storage import Transaction

LOG: Final = "muninn_event_log"
FOLD_AT: Final = 20_000
"""Events behind the counted place from which on folding is worth a write."""

_MOST: Final = 1_000_000_000
_SLACK_US: Final = 3_600_000_000
"""How wrong the clocks of two machines may be; still older calls of that name were of another tool."""

# The inner query has a limit so that both planners walk the log by arrival and do not choose an index of the tenant's,
# which would read all its history.
_FRESH = """
SELECT r.tool_id, count(*) AS calls, max(fresh.timestamp) AS last_used_at
FROM (SELECT arrival, tenant_id, tool_id, timestamp, corrects FROM muninn_event_log
      WHERE arrival > :after AND arrival <= :until ORDER BY arrival LIMIT :most) fresh
LEFT JOIN tool_records r ON r.tenant_id = :tenant AND fresh.tenant_id = :tenant AND r.tool_id = fresh.tool_id
  AND fresh.timestamp >= r.registered_at - :slack AND fresh.corrects IS NULL
GROUP BY r.tool_id
"""
_ADD = """
UPDATE tool_records SET invocation_count = invocation_count + :calls,
    last_used_at = CASE WHEN last_used_at IS NULL OR last_used_at < :used THEN :used ELSE last_used_at END
WHERE tenant_id = :tenant AND tool_id = :tool
"""


@dataclass(frozen=True, slots=True)
class UseCount:
    """Calls of one tool in a stretch of the log."""

    calls: int
    last_used_at: int


@dataclass(frozen=True, slots=True)
class LogUsage:
    """A stretch of the log: who was called in it, and how long it is."""

    uses: dict[str, UseCount] = field(default_factory=dict[str, UseCount])
    events: int = 0


def begin(tx: Transaction, tenant_id: str) -> None:
    """Start counting here; before the first learned tool there was nothing to count."""
    tx.insert_missing("registry_state", ("tenant_id", "counted"), [(tenant_id, _newest_arrival(tx, tenant_id))])


def uncounted(tx: Transaction, tenant_id: str) -> LogUsage:
    """Return the calls that the log holds beyond the counts in the rows."""
    row = tx.fetch_one("SELECT counted FROM registry_state WHERE tenant_id = :tenant", tenant=tenant_id)
    return LogUsage() if row is None else _stretch(tx, tenant_id, after=row["counted"])


def with_uses(records: Iterable[ToolRecord], fresh: LogUsage) -> list[ToolRecord]:
    """Records with their calls up to this moment."""
    return [_with_use(record, fresh.uses.get(record.tool_id)) for record in records]


def fold(tx: Transaction, tenant_id: str, *, settled: int) -> None:
    """Add the calls up to an arrival behind which no smaller number can follow to the rows."""
    state = tx.fetch_one("SELECT counted FROM registry_state WHERE tenant_id = :tenant", tenant=tenant_id)
    if state is None or state["counted"] >= settled:
        return
    for tool_id, uses in _stretch(tx, tenant_id, after=state["counted"], until=settled).uses.items():
        tx.execute(_ADD, calls=uses.calls, used=uses.last_used_at, tenant=tenant_id, tool=tool_id)
    tx.execute(
        "UPDATE registry_state SET counted = :counted WHERE tenant_id = :tenant", counted=settled, tenant=tenant_id
    )


def recorded_uses(tx: Transaction, tenant_id: str, tool_id: str, *, registered_at: datetime) -> UseCount | None:
    """Return all calls of a tool that were counted into its row, or would have been, as the log has them."""
    row = tx.fetch_one(
        "SELECT count(*) AS calls, max(timestamp) AS last_used_at FROM muninn_event_log "
        "WHERE tenant_id = :tenant AND tool_id = :tool AND timestamp >= :since AND corrects IS NULL AND arrival <= "
        "(SELECT counted FROM registry_state WHERE tenant_id = :tenant)",
        tenant=tenant_id,
        tool=tool_id,
        since=to_micros(registered_at) - _SLACK_US,
    )
    return None if row is None or not row["calls"] else UseCount(row["calls"], row["last_used_at"])


def note_maintenance(tx: Transaction, tenant_id: str, *, now: int) -> None:
    """Remember when a tenant's tools were last looked at."""
    begin(tx, tenant_id)
    tx.execute("UPDATE registry_state SET maintained_at = :now WHERE tenant_id = :tenant", tenant=tenant_id, now=now)


def last_maintenance(tx: Transaction, tenant_id: str) -> datetime | None:
    row = tx.fetch_one("SELECT maintained_at FROM registry_state WHERE tenant_id = :tenant", tenant=tenant_id)
    return None if row is None or row["maintained_at"] is None else from_micros(row["maintained_at"])


def _stretch(tx: Transaction, tenant_id: str, *, after: int, until: int = 2**62) -> LogUsage:
    rows = tx.fetch_all(_FRESH, tenant=tenant_id, after=after, until=until, most=_MOST, slack=_SLACK_US)
    return LogUsage(
        {row["tool_id"]: UseCount(row["calls"], row["last_used_at"]) for row in rows if row["tool_id"] is not None},
        sum(row["calls"] for row in rows),
    )


def _with_use(record: ToolRecord, uses: UseCount | None) -> ToolRecord:
    if uses is None:
        return record
    used = from_micros(uses.last_used_at)
    return replace(
        record,
        invocation_count=record.invocation_count + uses.calls,
        last_used_at=used if record.last_used_at is None else max(record.last_used_at, used),
    )


def _newest_arrival(tx: Transaction, tenant_id: str) -> int:
    row = tx.fetch_one(
        "SELECT max(arrival) AS newest FROM muninn_event_log WHERE tenant_id = :tenant", tenant=tenant_id
    )
    return 0 if row is None or row["newest"] is None else row["newest"]
