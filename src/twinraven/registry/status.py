"""Defines the statuses of a learned tool's version and their transitions: draft, testing, promoted, retired.

The one step back is from testing to draft, when validation failed. Retirement is the end: a chain that comes up again
becomes a new tool.
"""

from __future__ import annotations

from enum import StrEnum

from twinraven.foundation.errors import IllegalTransition


class ToolStatus(StrEnum):
    """The lifecycle status of a version."""

    DRAFT = "draft"
    TESTING = "testing"
    PROMOTED = "promoted"
    RETIRED = "retired"


ALLOWED_TRANSITIONS: dict[ToolStatus, frozenset[ToolStatus]] = {
    ToolStatus.DRAFT: frozenset({ToolStatus.TESTING}),
    ToolStatus.TESTING: frozenset({ToolStatus.PROMOTED, ToolStatus.DRAFT}),
    ToolStatus.PROMOTED: frozenset({ToolStatus.RETIRED}),
    ToolStatus.RETIRED: frozenset(),
}


def check_transition(old: ToolStatus, new: ToolStatus) -> None:
    """Raise IllegalTransition unless `new` may follow `old`."""
    allowed = ALLOWED_TRANSITIONS[old]
    if new not in allowed:
        after = " or ".join(sorted(allowed)) or "nothing: it is final"
        raise IllegalTransition(f"a {old} tool cannot become {new}; after {old} comes {after}", old=old, new=new)
