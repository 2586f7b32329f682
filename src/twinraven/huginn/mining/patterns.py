"""Models patterns, the results of mining: a chain of tools and its exact counts.

Counts are whole numbers over sessions and instances, never ratios, because numbers add up over partitions of a log
and ratios do not. The ratios people read are derived. What an *instance* is, each algorithm says:

- `contiguous`: calls that follow each other; instances are taken from the left and never share a call, so that
  `a a a` holds one instance of `a a`.
- `prefixspan`, `gsp`: one per stretch, the one that ends first. A stretch is a session, or where breaks are respected
  a part of a session that no outside input interrupts. Beyond the first, which calls belong together is arbitrary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from twinraven.foundation.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """`failures` counts instances whose last call is marked failed; `latency_total` is the time, in ms, that the calls
    of the `latency_known` instances took where every call's latency is known; `mergeable` counts instances with no
    outside input between the first call and the last.
    """

    tools: tuple[str, ...]
    total_sessions: int
    sessions: int
    occurrences: int
    failures: int
    latency_total: int
    latency_known: int
    mergeable: int

    @property
    def support(self) -> float:
        return self.sessions / self.total_sessions if self.total_sessions else 0.0

    @property
    def failure_rate(self) -> float:
        return self.failures / self.occurrences if self.occurrences else 0.0

    @property
    def avg_latency_ms(self) -> int | None:
        """The mean over the instances where it is known, or None where nothing was measured."""
        return round(self.latency_total / self.latency_known) if self.latency_known else None

    def plus(self, other: Pattern) -> Pattern:
        """Return the same chain over both sets of sessions, which must be disjoint."""
        if other.tools != self.tools:
            raise InvalidInput("counts of different chains do not add up", field="tools")
        return replace(
            self,
            total_sessions=self.total_sessions + other.total_sessions,
            sessions=self.sessions + other.sessions,
            occurrences=self.occurrences + other.occurrences,
            failures=self.failures + other.failures,
            latency_total=self.latency_total + other.latency_total,
            latency_known=self.latency_known + other.latency_known,
            mergeable=self.mergeable + other.mergeable,
        )


def unseen(tools: tuple[str, ...], total_sessions: int) -> Pattern:
    """Return a chain that was looked for and did not occur."""
    return Pattern(
        tools=tools,
        total_sessions=total_sessions,
        sessions=0,
        occurrences=0,
        failures=0,
        latency_total=0,
        latency_known=0,
        mergeable=0,
    )


def in_order(patterns: Iterable[Pattern]) -> list[Pattern]:
    """Return the one order of results: most sessions, most instances, shorter, then by name."""
    return sorted(patterns, key=lambda found: (-found.sessions, -found.occurrences, len(found.tools), found.tools))
