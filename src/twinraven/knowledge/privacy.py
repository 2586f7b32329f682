"""Keeps groups that belong to one user from the others: the notes about a user, and dialogues that have an owner.

What was said in a conversation becomes episodes, entities and summaries of its group, so whoever may not read the
conversation must not find them there either. Which groups have an owner is asked of those who know: each gives a
SELECT of the groups that are somebody else's than `:viewer`. Everything else is the whole tenant's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from twinraven.storage import Transaction

_NOTES: Final = "introspection:"


def note_group(user_id: str) -> str:
    """Return the group of a user's notes, apart from those of conversations."""
    return f"{_NOTES}{user_id}"


@dataclass(frozen=True, slots=True)
class HiddenGroups:
    """The groups that one user does not see, as a condition of SQL."""

    viewer: str
    others: tuple[str, ...]
    """SELECTs of groups that are not the viewer's."""

    def condition(self, column: str) -> str:
        """Return the SQL condition that leaves out rows of hidden groups."""
        notes = f" AND (substr({column}, 1, {len(_NOTES)}) <> '{_NOTES}' OR {column} = :viewer_notes)"
        return notes + "".join(f" AND {column} NOT IN ({each})" for each in self.others)

    @property
    def values(self) -> dict[str, Any]:
        return {"viewer": self.viewer, "viewer_notes": note_group(self.viewer)}

    def holds(self, tx: Transaction, tenant_id: str, group_id: str) -> bool:
        """Return whether a group is hidden."""
        asked = "SELECT 1 AS is_open FROM (SELECT CAST(:asked AS TEXT) AS group_id) AS asked WHERE 1 = 1"
        where = self.condition("asked.group_id")
        return tx.fetch_one(asked + where, tenant=tenant_id, asked=group_id, **self.values) is None
