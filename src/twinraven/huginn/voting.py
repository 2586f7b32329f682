"""Counts evidence by votes, so that one session or one principal cannot outvote the rest.

A session has one vote however often it repeats a call. A principal (who the calls ran for) has at most as many votes as
the others have on average, unless it made most of the log's sessions. What only one of several principals does is
nobody's habit but theirs, and is not learned for all. Where the record names no principals, sessions cannot be told
apart by whose they are, and only numbers protect: text that a tool would always send, and an argument that it would
take though few give it, must come from a good share of all sessions. And what many sessions read is not led to a tool
that only a few of them call: that is what somebody who can write a few sessions would make of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twinraven.huginn.traces import SessionTrace

LEAST_UNNAMED_SHARE = 0.1
"""Share of all sessions that must show a constant text where their principals are unknown."""
FORGEABLE_SHARE = 0.06
"""Share of all sessions up to which the callers of a tool may be one person who wrote sessions of their own."""
LEAST_GOING_ON = 0.5
"""Share of the sessions that come to a tool called by so few which must go on to it."""


@dataclass(frozen=True, slots=True)
class Backing:
    """The sessions and principals that support a choice."""

    sessions: int
    principals: int | None
    """How many principals; None where the record names none."""

    def as_json(self) -> dict[str, int | None]:
        return {"sessions": self.sessions, "principals": self.principals}


class Votes:
    """The sessions of a log as voters."""

    def __init__(self, sessions: Sequence[SessionTrace]) -> None:
        self._total = len(sessions)
        self._principals = Counter(session.principal for session in sessions)
        self._named = any(principal is not None for principal in self._principals)
        self._callers = Counter[str]()
        if not self._named:
            for session in sessions:
                self._callers.update({call.tool_id for call in session.calls})

    def weigh(self, owners: Sequence[SessionTrace]) -> list[float]:
        """Return the weight of each sample, given the session it comes from."""
        samples = Counter(owners)
        scale = self._scale(Counter(session.principal for session in samples))
        return [scale.get(owner.principal, 1.0) / samples[owner] for owner in owners]

    def backing(self, owners: Iterable[SessionTrace]) -> Backing:
        """Count the sessions and principals that these samples come from."""
        sessions = set(owners)
        principals = {session.principal for session in sessions}
        return Backing(len(sessions), len(principals) if self._named else None)

    def carries(self, owners: Iterable[SessionTrace]) -> bool:
        """Return whether several principals, or the one that made most of the log, are behind these samples."""
        if not self._named:
            return True
        principals = {session.principal for session in owners}
        # Sessions that name nobody may be anybody's, also the one's that is named beside them.
        return len(principals - {None}) > 1 or any(self._is_main(principal) for principal in principals)

    def carries_unusual(self, owners: Iterable[SessionTrace]) -> bool:
        """Return the same for text that a tool would send by itself, and for an argument that few sessions give.

        Without principals it must be common in the log.
        """
        if self._named:
            return self.carries(owners)
        return len(set(owners)) >= LEAST_UNNAMED_SHARE * self._total

    def refusal_to_lead(self, owners: Iterable[SessionTrace], *, after: str, to: str) -> str | None:
        """Return why a call must not be followed by one of another tool on the word of these sessions, if it must not.

        Where nobody is named, a tool that few sessions call is led to only if most of those who come there go on to it.
        """
        own, before, callers = len(set(owners)), self._callers[after], self._callers[to]
        if self._named or callers > FORGEABLE_SHARE * self._total or own >= LEAST_GOING_ON * before:
            return None
        return (
            f"only {callers} of {self._total} sessions call it, {own} of the {before} that call {after}, and the log "
            "names nobody: they may all be one person's"
        )

    def _is_main(self, principal: str | None) -> bool:
        return self._principals[principal] * 2 >= self._total

    def _scale(self, counts: Counter[str | None]) -> dict[str | None, float]:
        """Caps each principal at the mean of the others here, unless it made most of the log."""
        if not self._named or len(counts) < 2:
            return {}
        total = sum(counts.values())
        means = {principal: (total - own) / (len(counts) - 1) for principal, own in counts.items()}
        return {
            principal: means[principal] / own
            for principal, own in counts.items()
            if own > means[principal] and not self._is_main(principal)
        }
