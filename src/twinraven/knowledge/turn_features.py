"""Holds what the ranking knows of a turn."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.knowledge.dates import DaySpan


@dataclass(frozen=True, slots=True)
class TurnFeatures:
    """The ranking features of a turn besides its words."""

    seq: int
    session: int
    speaker: str | None
    """In lower case."""
    marks: int
    length: int
    day: int | None
    dates: tuple[DaySpan, ...]
    names: frozenset[str]
    stems: tuple[str, ...]
    """The different ones with which it begins."""
