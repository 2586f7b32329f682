"""Stores spans that wait for the rest of their trace, so that a receiver that crashes loses none it acknowledged.

A part is what one request brought of one trace. Parts leave in the transaction in which their calls enter the log. A
part whose trace has been quiet for longer than any receiver waits belongs to a process that is gone: another takes it
over. Two that take over the same part write the same events, whose ids follow from the spans, so each is there once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from twinraven.storage import Transaction

_COLUMNS: Final = ("tenant_id", "trace_id", "part_id", "received_at", "body")


class HeldPart(NamedTuple):
    """The spans of a trace that came in one request, as JSON."""

    trace_id: str
    part_id: str
    received_at: int
    body: bytes


def keep_parts(tx: Transaction, tenant_id: str, parts: list[HeldPart]) -> None:
    """Store parts; a part that is stored already stays as it is."""
    if parts:
        tx.insert_missing("held_spans", _COLUMNS, [(tenant_id, *part) for part in parts])


def drop_parts(tx: Transaction, tenant_id: str, parts: Collection[tuple[str, str]]) -> None:
    """Remove parts, named by their trace and their id."""
    if parts:
        tx.execute_many(
            "DELETE FROM held_spans WHERE tenant_id = ? AND trace_id = ? AND part_id = ?",
            [(tenant_id, *part) for part in parts],
        )


def held_parts(tx: Transaction, tenant_id: str) -> list[HeldPart]:
    """Return what is held for a tenant, by any process, without the bodies, the oldest first."""
    rows = tx.fetch_all(
        "SELECT trace_id, part_id, received_at FROM held_spans WHERE tenant_id = :tenant ORDER BY 3, 2",
        tenant=tenant_id,
    )
    return [HeldPart(row["trace_id"], row["part_id"], row["received_at"], b"") for row in rows]


def parts_of(tx: Transaction, tenant_id: str, trace_id: str) -> list[HeldPart]:
    """Return the parts of a trace, in the order in which they came."""
    rows = tx.fetch_all(
        "SELECT trace_id, part_id, received_at, body FROM held_spans WHERE tenant_id = :tenant "
        "AND trace_id = :trace ORDER BY received_at, part_id",
        tenant=tenant_id,
        trace=trace_id,
    )
    return [HeldPart(row["trace_id"], row["part_id"], row["received_at"], bytes(row["body"])) for row in rows]
