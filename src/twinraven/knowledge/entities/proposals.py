"""Stores proposals to merge two entities, lists them, and lets one decider take each."""

from __future__ import annotations

import json

from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import IllegalTransition, NotFound
from twinraven.foundation.ids import new_id
from twinraven.knowledge.entities.duplicates import PossibleDuplicate
from twinraven.knowledge.entities.model import MergeProposal, ProposalStatus
from twinraven.knowledge.entities.sql import entity_row
from twinraven.storage import Row, Transaction

_COLUMNS = (
    "SELECT proposal_id, first_id, second_id, similarity, evidence, status, created_at, decided_at, decided_by "
    "FROM entity_proposals WHERE tenant_id = :tenant"
)


def propose(tx: Transaction, tenant_id: str, pair: PossibleDuplicate, at: int) -> ProposalStatus:
    """Store a proposal unless there is one, and say how it stands."""
    first_id, second_id = sorted((pair.first.entity_id, pair.second.entity_id))
    row = tx.fetch_one(
        "SELECT status FROM entity_proposals WHERE tenant_id = :tenant AND first_id = :first AND second_id = :second",
        tenant=tenant_id,
        first=first_id,
        second=second_id,
    )
    if row is not None:
        return row["status"]
    columns = (
        "tenant_id", "proposal_id", "first_id", "second_id", "similarity", "evidence", "status", "created_at",
    )  # fmt: skip
    evidence = json.dumps({**pair.evidence, "is_certain": pair.is_certain})
    values = (tenant_id, new_id(), first_id, second_id, round(pair.similarity * 100), evidence, "open", at)
    tx.insert_rows("entity_proposals", columns, [values])
    return "open"


def open_proposals(tx: Transaction, tenant_id: str) -> list[MergeProposal]:
    """Those that nobody decided yet, the most alike first."""
    rows = tx.fetch_all(f"{_COLUMNS} AND status = 'open' ORDER BY similarity DESC, proposal_id", tenant=tenant_id)
    return [_to_proposal(tx, tenant_id, row) for row in rows]


def one_proposal(tx: Transaction, tenant_id: str, proposal_id: str) -> MergeProposal:
    row = tx.fetch_one(f"{_COLUMNS} AND proposal_id = :id", tenant=tenant_id, id=proposal_id)
    if row is None:
        raise NotFound(f"no proposal {proposal_id!r}", proposal_id=proposal_id)
    return _to_proposal(tx, tenant_id, row)


def take_proposal(
    tx: Transaction, tenant_id: str, proposal_id: str, *, status: ProposalStatus, by: str, at: int
) -> MergeProposal:
    """Decide an open proposal; one that somebody decided first is refused."""
    taken = tx.execute(
        "UPDATE entity_proposals SET status = :status, decided_at = :at, decided_by = :by "
        "WHERE tenant_id = :tenant AND proposal_id = :id AND status = 'open'",
        status=status,
        at=at,
        by=by,
        tenant=tenant_id,
        id=proposal_id,
    )
    found = one_proposal(tx, tenant_id, proposal_id)
    if not taken:
        raise IllegalTransition(
            f"proposal {proposal_id!r} is {found.status}; only an open one can be decided",
            proposal_id=proposal_id,
            state=found.status,
            decided_by=found.decided_by,
        )
    return found


def _to_proposal(tx: Transaction, tenant_id: str, row: Row) -> MergeProposal:
    first, second = (entity_row(tx, tenant_id, row[name]) for name in ("first_id", "second_id"))
    return MergeProposal(
        row["proposal_id"],
        row["first_id"],
        row["second_id"],
        "" if first is None else first.name,
        "" if second is None else second.name,
        row["similarity"] / 100,
        json.loads(row["evidence"]),
        row["status"],
        from_micros(row["created_at"]),
        None if row["decided_at"] is None else from_micros(row["decided_at"]),
        row["decided_by"],
    )
