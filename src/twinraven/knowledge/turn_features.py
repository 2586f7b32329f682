"""Holds what the ranking knows of a turn, and what passages are compared by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


class TurnWords(NamedTuple):
    """The different stems with which a turn begins, and its session."""

    session: int
    stems: tuple[str, ...]
