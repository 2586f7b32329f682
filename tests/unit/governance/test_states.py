"""One table says which status may follow which; the database and the documents say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinraven.foundation.errors import IllegalTransition
from twinraven.governance import check_transition, state_tables
from twinraven.governance.states import TABLES
from twinraven.storage.migrations.m0019_governance import _STATUSES  # pyright: ignore[reportPrivateUsage]

ROOT = Path(__file__).parents[3]


def test_the_database_holds_the_same_tables() -> None:
    """What the migration made into triggers is what the code checks."""
    coded = {table: {before: set(after) for before, after in rows.items()} for table, rows in TABLES.values()}
    stored = {table: {before: set(after) for before, after in rows.items()} for table, rows in _STATUSES.items()}
    assert stored == coded


def test_the_documents_show_the_tables() -> None:
    """docs/governance.md ends with what `state_tables` writes."""
    page = (ROOT / "docs" / "governance.md").read_text(encoding="utf-8")
    assert page.rstrip().endswith(state_tables().rstrip())


@pytest.mark.parametrize("kind", TABLES)
def test_what_cannot_follow_is_refused(kind: str) -> None:
    """Every pair of statuses is allowed or refused as the table says, and the refusal names what is possible."""
    _, transitions = TABLES[kind]
    for before, allowed in transitions.items():
        assert allowed <= transitions.keys()
        for after in transitions:
            if after in allowed:
                check_transition(kind, "x", before, after)
            else:
                with pytest.raises(IllegalTransition) as refused:
                    check_transition(kind, "x", before, after)
                assert refused.value.details["status"] == before
