"""Seals ranges of recorded read calls in the chain, by count and hash.

An entry for every read would make readers queue behind the chain. Instead the calls that Muninn has stored since the
last seal are hashed together, in the order of their arrival, and one entry states the range, the count and the hash.
What is sealed is what the database holds, so the rows are read as they stand, by the columns of the seal's form.

Retention may remove calls. It says so here first, in its own transaction: a range must still match its seal to be
sealed anew without them, so that pruning cannot cover for anything else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from twinraven.foundation.canonical import canonical_json
from twinraven.storage import Transaction

LOG = "muninn_event_log"
_COLUMNS = (
    "arrival",
    "tenant_id",
    "event_id",
    "session_id",
    "tool_id",
    "input_hash",
    "input_params",
    "output_summary",
    "timestamp",
    "latency_ms",
    "outcome",
    "tags",
    "parent_event_id",
    "raised",
    "error_code",
    "output_hash",
    "turn",
    "task_id",
    "outside_input",
    "source_key",
    "time_known",
    "correlation_id",
)
FORM = 3
"""The form of new seals; each entry says its own, and the first seals say none."""

_FORMS = {
    1: _COLUMNS,
    2: (*_COLUMNS, "actor_type", "actor_id"),
    3: (*_COLUMNS, "actor_type", "actor_id", "corrects"),
}
"""Which columns a seal's hash covers: a form is never changed, a new column makes a new one."""


@dataclass(frozen=True, slots=True)
class RangeDigest:
    """The count and the hash of a range of calls."""

    after: int
    through: int
    count: int
    hash: str
    form: int

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def digest_range(
    tx: Transaction,
    tenant_id: str,
    *,
    after: int,
    through: int,
    form: int = FORM,
    limit: int | None = None,
    without: Container[int] = frozenset[int](),
) -> RangeDigest:
    """Hash the calls in a range, at most `limit` of them; `through` of the answer is how far that reached."""
    state = hashlib.sha256(f"twinraven.audit.reads.{form}\0".encode())
    count, last = 0, after
    for row in _rows(tx, tenant_id, after, through, _FORMS[form]):
        if row[0] in without:
            continue
        if count == limit:
            return RangeDigest(after, last, count, state.hexdigest(), form)
        state.update(hashlib.sha256(canonical_json(list(row))).digest())
        count, last = count + 1, row[0]
    return RangeDigest(after, through, count, state.hexdigest(), form)


def _rows(
    tx: Transaction, tenant_id: str, after: int, through: int, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    sql = (
        f"SELECT {', '.join(columns)} FROM {LOG} "  # noqa: S608 - names of our own
        # Along the primary key: an index of the tenant leads through all of its calls, and they are sorted anew.
        "WHERE tenant_id || '' = :tenant AND arrival > :after AND arrival <= :through ORDER BY arrival"
    )
    for batch in tx.stream(sql, batch=2000, tenant=tenant_id, after=after, through=through):
        yield from batch
