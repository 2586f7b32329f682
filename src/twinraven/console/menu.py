"""Lists the pages of the menu in their groups; what a home does not have is absent, and so is what one may not see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the menu."""

    section: str
    path: str
    name: str
    needs: str = ""
    admin: bool = False


_GROUPS: Final[tuple[tuple[str, tuple[Entry, ...]], ...]] = (
    ("", (Entry("today", "", "Today"), Entry("review", "review", "Review"))),
    (
        "Memory",
        (
            Entry("sessions", "sessions", "Sessions"),
            Entry("calls", "calls", "Calls"),
            Entry("flow", "flow", "What follows what"),
        ),
    ),
    ("Learning", (Entry("chains", "chains", "Chains"), Entry("learned", "learned", "Learned tools"))),
    (
        "Work",
        (
            Entry("runs", "runs", "Runs", "runs"),
            Entry("processes", "processes", "Processes", "processes"),
            Entry("plans", "plans", "Plans", "plans"),
            Entry("goals", "goals", "Goals and tasks", "goals"),
            Entry("talk", "talk", "Conversations", "conversations"),
            Entry("entities", "entities", "Entities", "entities"),
        ),
    ),
    ("Evidence", (Entry("audit", "audit", "Audit log", admin=True), Entry("trace", "trace", "Trace", "trace"))),
    (
        "House",
        (
            Entry("tools", "tools", "Tools and services"),
            Entry("secrets", "secrets", "Secrets"),
            Entry("metrics", "metrics", "Metrics"),
            Entry("settings", "settings", "Settings"),
        ),
    ),
)


def menu(has: Callable[[str], bool], *, is_admin: bool) -> list[tuple[str, list[Entry]]]:
    """Return the menu groups that the user may see, without empty ones."""
    shown = [
        (name, [each for each in entries if (not each.needs or has(each.needs)) and (is_admin or not each.admin)])
        for name, entries in _GROUPS
    ]
    return [(name, entries) for name, entries in shown if entries]
