"""Holds the configuration of a mining run, as one value.

The snapshot stored with every candidate chain is exactly `MiningConfig.as_dict()`, and `from_dict` gives the same
configuration back: the same events and the same snapshot reproduce the same chains in the same order. A configuration
that contradicts itself is refused when it is made, so no kernel has to look twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast, get_args

from twinraven.foundation.errors import InvalidInput

Algorithm = Literal["contiguous", "prefixspan", "gsp"]

LONGEST_CHAIN = 50
"""The longest chains: longer ones are unreviewable, and each step costs a pass over the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiningConfig:
    """`contiguous` asks for calls that follow each other, `prefixspan` allows others between, `gsp` bounds the idle
    time between two steps by `max_gap_ms`. A chain is kept when it occurs in at least `min_support` of the sessions
    and in at least `min_sessions` of them; with the default of 2, one session alone teaches nothing. `min_confidence`
    bounds the mean transition probability along a chain. `max_patterns` and `max_work` are the budget: how many chains
    may be held, and how many ends of gapped chains looked at, so that no log can make a run endless.
    """

    algorithm: Algorithm = "contiguous"
    min_support: float = 0.02
    min_sessions: int = 2
    min_length: int = 2
    max_length: int = 6
    max_gap_ms: int | None = None
    collapse_repeats: bool = False
    respect_breaks: bool = True
    min_confidence: float = 0.0
    max_patterns: int = 100_000
    max_work: int = 500_000_000

    def __post_init__(self) -> None:
        if self.algorithm not in get_args(Algorithm):
            raise _invalid("algorithm", self.algorithm, f"use one of {', '.join(get_args(Algorithm))}")
        _check_share("min_support", self.min_support)
        _check_whole("min_sessions", self.min_sessions, 1)
        _check_whole("min_length", self.min_length, 2)
        _check_whole("max_length", self.max_length, 2, LONGEST_CHAIN)
        _check_whole("max_patterns", self.max_patterns, 1)
        _check_whole("max_work", self.max_work, 1)
        _check_share("min_confidence", self.min_confidence, none=True)
        _check_flag("collapse_repeats", self.collapse_repeats)
        _check_flag("respect_breaks", self.respect_breaks)
        if self.min_length > self.max_length:
            raise _invalid("min_length", self.min_length, f"it must not exceed max_length ({self.max_length})")
        self._check_gap()

    @property
    def gapped(self) -> bool:
        """Whether other calls may stand between the steps of a chain."""
        return self.algorithm != "contiguous"

    def as_dict(self) -> dict[str, object]:
        """Return the snapshot: plain JSON values, every field named."""
        return asdict(self)

    @classmethod
    def from_dict(cls, snapshot: Mapping[str, object]) -> MiningConfig:
        """Return the configuration a snapshot was taken of; missing fields take their defaults, unknown ones are
        refused.
        """
        known = [field.name for field in fields(cls)]
        for name in snapshot:
            if name not in known:
                raise _invalid(name, snapshot[name], f"no such mining option; the options are {', '.join(known)}")
        return cls(**cast("dict[str, Any]", dict(snapshot)))

    def _check_gap(self) -> None:
        if self.algorithm == "gsp":
            if self.max_gap_ms is None:
                raise _invalid("max_gap_ms", None, "gsp needs the longest idle gap between two steps")
            _check_whole("max_gap_ms", self.max_gap_ms, 0)
        elif self.max_gap_ms is not None:
            raise _invalid("max_gap_ms", self.max_gap_ms, f"only gsp bounds the gap; leave it out for {self.algorithm}")


def fewest_sessions(min_support: float, sessions: int) -> int:
    """Return the smallest count of sessions whose share of all sessions is at least `min_support`, and never 0.

    Decided by the same division that yields `support`, so that a chain reported is never below the bound in print.
    """
    count = max(1, math.ceil(min_support * sessions))
    while count > 1 and (count - 1) / sessions >= min_support:
        count -= 1
    while sessions and count / sessions < min_support:
        count += 1
    return count


def _check_share(field: str, value: object, *, none: bool = False) -> None:
    if none and value == 0 and not isinstance(value, bool):
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise _invalid(field, value, f"give a share {'of at least' if none else 'above'} 0 and at most 1")


def _check_whole(field: str, value: object, least: int, most: int | None = None) -> None:
    bounds = f"a whole number of at least {least}" + (f" and at most {most}" if most is not None else "")
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        raise _invalid(field, value, f"give {bounds}")


def _check_flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise _invalid(field, value, "give true or false")


def _invalid(field: str, value: object, fix: str) -> InvalidInput:
    shown = value if isinstance(value, (int, float, str)) else repr(value)
    return InvalidInput(f"mining option {field} cannot be {shown!r}: {fix}", field=field)
