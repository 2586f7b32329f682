"""Stores proposals to merge two entities, lists them, and lets one decider take each."""

from __future__ import annotations

import json
from typing import Final

from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import IllegalTransition, NotFound
from twinraven.foundation.ids import new_id
from twinraven.knowledge.entities.duplicates import PossibleDuplicate
from twinraven.knowledge.entities.model import MergeProposal, ProposalStatus
from twinraven.knowledge.privacy import HiddenGroups
from twinraven.storage import Row, Transaction

_COLUMNS = (
    "SELECT p.proposal_id, p.first_id, p.second_id, p.similarity, p.evidence, p.status, p.created_at, p.decided_at, "
    "p.decided_by, one.name AS first_name, other.name AS second_name FROM entity_proposals p "
    "LEFT JOIN entities one ON one.tenant_id = p.tenant_id AND one.entity_id = p.first_id "
    "LEFT JOIN entities other ON other.tenant_id = p.tenant_id AND other.entity_id = p.second_id "
    "WHERE p.tenant_id = :tenant"
)
_MOST_LISTED: Final = 1_000


def propose(tx: Transaction, tenant_id: str, pair: PossibleDuplicate, at: int) -> ProposalStatus:
    """Store a proposal unless there is one, and say how it stands."""
    first_id, second_id = pair.ids
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


def decided_pairs(tx: Transaction, tenant_id: str) -> dict[tuple[str, str], ProposalStatus]:
    """Return the decided pairs, and the decisions."""
    rows = tx.fetch_all(
        "SELECT first_id, second_id, status FROM entity_proposals WHERE tenant_id = :tenant AND status <> 'open'",
        tenant=tenant_id,
    )
    return {(row["first_id"], row["second_id"]): row["status"] for row in rows}


def open_proposals(tx: Transaction, tenant_id: str, *, hidden: HiddenGroups | None = None) -> list[MergeProposal]:
    """Return the open proposals, the most alike first."""
    both = ("one.group_id", "other.group_id")
    where, values = ("", {}) if hidden is None else ("".join(map(hidden.condition, both)), hidden.values)
    rows = tx.fetch_all(
        f"{_COLUMNS} AND p.status = 'open'{where} ORDER BY p.similarity DESC, p.proposal_id LIMIT {_MOST_LISTED}",
        tenant=tenant_id,
        **values,
    )
    return [_to_proposal(row) for row in rows]


def one_proposal(tx: Transaction, tenant_id: str, proposal_id: str) -> MergeProposal:
    row = tx.fetch_one(f"{_COLUMNS} AND p.proposal_id = :id", tenant=tenant_id, id=proposal_id)
    if row is None:
        raise NotFound(f"no proposal {proposal_id!r}", proposal_id=proposal_id)
    return _to_proposal(row)


def take_proposal(
    tx: Transaction, tenant_id: str, proposal_id: str, *, status: ProposalStatus, by: str, at: int
) -> MergeProposal:
    """Decide an open proposal; one that is already decided is refused."""
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


def _to_proposal(row: Row) -> MergeProposal:
    return MergeProposal(
        row["proposal_id"],
        row["first_id"],
        row["second_id"],
        row["first_name"] or "",
        row["second_name"] or "",
        row["similarity"] / 100,
        json.loads(row["evidence"]),
        row["status"],
        from_micros(row["created_at"]),
        None if row["decided_at"] is None else from_micros(row["decided_at"]),
        row["decided_by"],
    )
