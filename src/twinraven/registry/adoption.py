"""Defines adoption: whether agents take a learned tool where it fits, and how many turns that saved.

A tool can be right and still be passed over, because its description does not say what it is for. The figures come
from a probe that reads the log; here stands what they mean and when they speak against a tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import iso

LEAST_FITTED: Final = 20
"""Sessions that a tool must have fitted in before anything is said of the share that took it."""

LEAST_SHARE: Final = 0.2
"""A tool whose share of takes lies below this, by the upper bound, is not taken."""


@dataclass(frozen=True, slots=True)
class UsedDay:
    """The uses of a tool in the sessions that ended on one day, in UTC, and the turns they took."""

    begins_at: datetime
    uses: int
    turns: int


@dataclass(frozen=True, slots=True)
class Adoption:
    """The adoption of a learned tool in service: sessions it was offered to, fitted in and was taken by."""

    since: datetime
    """From when sessions were looked at: the promotion, or the beginning of what is read of the log."""
    offered: int
    fitted: int
    taken: int
    share_low: float
    share_high: float
    """The Wilson interval of the share taken of fitted."""
    uses: int
    """Occurrences with the tool; parallel calls of one turn are one."""
    raised: int
    by_hand: int
    """Occurrences without the tool; of before the promotion where there are none since."""
    turns_per_use: float | None
    turns_by_hand: float | None
    pending: int = 0
    """Calls that were recorded and are not counted yet."""
    days: tuple[UsedDay, ...] = ()
    """The days on which it was used."""

    @property
    def share(self) -> float | None:
        return self.taken / self.fitted if self.fitted else None

    @property
    def turns_saved(self) -> float | None:
        """The turns that all uses saved; None without a chain done by hand, negative where they cost."""
        if self.turns_per_use is None:
            return 0.0
        return None if self.turns_by_hand is None else round((self.turns_by_hand - self.turns_per_use) * self.uses, 2)

    def turns_saved_on(self, day: UsedDay) -> float | None:
        """Return the turns that a day's uses saved; None without a chain done by hand."""
        return None if self.turns_by_hand is None else round(self.turns_by_hand * day.uses - day.turns, 2)

    @property
    def is_measured(self) -> bool:
        return self.fitted >= LEAST_FITTED

    @property
    def is_not_taken(self) -> bool:
        return self.is_measured and self.share_high < LEAST_SHARE

    def as_json(self) -> JsonObject:
        return {
            "since": iso(self.since),
            "offered": self.offered,
            "fitted": self.fitted,
            "taken": self.taken,
            "share": _rounded(self.share),
            "share_low": round(self.share_low, 4),
            "share_high": round(self.share_high, 4),
            "uses": self.uses,
            "raised": self.raised,
            "by_hand": self.by_hand,
            "turns_per_use": _rounded(self.turns_per_use),
            "turns_by_hand": _rounded(self.turns_by_hand),
            "turns_saved": self.turns_saved,
            "pending": self.pending,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
