"""Models the verdict of a validation: the replayed uses, the similarity of answers, and why it failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from twinraven.foundation.clock import iso

MOST_DIFFERING: Final = 20
"""Occasions on which replay differed that are kept, for people to look at."""


@dataclass(frozen=True, slots=True)
class EquivalenceScore:
    """The similarity of a composite's answers to the recorded ones.

    The mean is over all replayed uses but those set aside, in which the agent made its arguments up; these are among
    the uses that are no hits, and the smallest similarity counts them.
    """

    mean_similarity: float
    min_similarity: float
    method: str
    threshold: float

    def as_json(self) -> dict[str, Any]:
        return {
            "mean_similarity": self.mean_similarity,
            "min_similarity": self.min_similarity,
            "method": self.method,
            "threshold": self.threshold,
        }


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """One validation of one version of one tool."""

    result_id: UUID
    tool_id: str
    tool_version: int
    sessions_replayed: int
    equivalence_score: EquivalenceScore
    error_parity: bool
    latency_ratio: float | None
    """Composite over original; None where the record has no times ("not measured")."""
    passed: bool
    failure_reasons: tuple[str, ...]
    validated_at: datetime
    uses: int = 0
    """Places where the tool fitted and the record shows what the agent did next."""
    hits: int = 0
    """Uses whose every call agrees with the record."""
    wired_low: float = 0.0
    """Lower Wilson bound of the votes that agree, each session having one."""
    failures_replayed: int = 0
    principals: int | None = None
    """Whose sessions judged it; None where the record names no principals."""
    differing: tuple[str, ...] = ()
    """Events at which a use began whose calls differ from the record; at most `MOST_DIFFERING`."""

    def as_json(self) -> dict[str, Any]:
        return {
            "result_id": str(self.result_id),
            "tool_id": self.tool_id,
            "tool_version": self.tool_version,
            "sessions_replayed": self.sessions_replayed,
            "equivalence_score": self.equivalence_score.as_json(),
            "error_parity": self.error_parity,
            "latency_ratio": self.latency_ratio,
            "passed": self.passed,
            "failure_reasons": list(self.failure_reasons),
            "validated_at": iso(self.validated_at),
            "uses": self.uses,
            "hits": self.hits,
            "wired_low": self.wired_low,
            "failures_replayed": self.failures_replayed,
            "principals": self.principals,
            "differing": list(self.differing),
        }


@dataclass(frozen=True, slots=True)
class Criteria:
    """The thresholds that a tool must reach to pass."""

    similarity: str = "exact_match"
    threshold: float = 0.85
    min_uses: int = 12
    """Sessions with a use, below which the evidence is called too little."""
    least_wired: float = 0.75
    max_latency_ratio: float = 1.0
