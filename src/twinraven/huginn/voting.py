"""Counts evidence by votes, so that one session or one principal cannot outvote the rest.

A session has one vote however often it repeats a call. A principal (who the calls ran for) has at most as many votes as
the others have on average, unless it made most of the log's sessions. What only one of several principals does is
nobody's habit but theirs, and is not learned for all.

Where most sessions name nobody, they cannot be told apart by whose they are, and only numbers and days protect. What
so few sessions do that one person could have written them all is learned only if they began on several days. Text that
a tool would always send, and an argument that it would take though few give it, must come from a good share of all
sessions. And what many sessions read is not led to a tool that only a few of them call: that is what somebody who can
write a few sessions would make of it. A log whose sessions are all one's own may be trusted instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twinraven.huginn.traces import SessionTrace

LEAST_UNNAMED_SHARE = 0.1
"""Share of all sessions that must show a constant text where their principals are unknown."""
FORGEABLE_SHARE = 0.06
"""Share of all sessions up to which those that do something may be one person's, who wrote them to be learned from."""
LEAST_DAYS = 5
"""Days on which sessions of so small a share must have begun, none of them with more than half of the sessions."""
TRUST = "learning.trust_unnamed"
"""The setting that trusts them."""
MOST_UNHEARD = 1 / 6
"""Share of the votes that may be set aside, because nothing in their sessions names what was asked for."""
_DAY_US = 86_400_000_000
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
    """The sessions of a log as voters.

    `drawn` is the share of the log's sessions that these were drawn from. With `trusted`, sessions that name nobody
    count as one's own.
    """

    def __init__(self, sessions: Sequence[SessionTrace], *, drawn: float = 1.0, trusted: bool = False) -> None:
        self._total = len(sessions)
        self._drawn = drawn
        self._principals = Counter(session.principal for session in sessions)
        self._named = any(principal is not None for principal in self._principals)
        self._guarded = self._is_main(None) and not trusted
        self._callers = Counter[str]()
        if self._guarded:
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
        return self._is_main(None) or self._is_vouched_for(owners)

    def carries_unusual(self, owners: Iterable[SessionTrace]) -> bool:
        """Return the same for text that a tool would send by itself, and for an argument that few sessions give.

        Where most sessions name nobody it must be common in the log.
        """
        sessions = set(owners)
        if not self._guarded:
            return self.carries(sessions)
        return self._is_vouched_for(sessions) or len(sessions) >= LEAST_UNNAMED_SHARE * self._total

    def refusal_of_rare(self, owners: Iterable[SessionTrace], *, among: int) -> str | None:
        """Return why what these of so many sessions do must not be learned: one person could have written them all."""
        own = set(owners)
        if not own or len(own) * self._drawn > FORGEABLE_SHARE * among or self._is_safe(own):
            return None
        days = Counter(_day(session) for session in own)
        if None not in days and len(days) >= LEAST_DAYS and max(days.values()) * 2 <= len(own):
            return None
        when = "" if None in days else f" on {len(days)} day{'' if len(days) == 1 else 's'}"
        return (
            f"{len(own)} of {among} sessions do it{when}, and the log names nobody: they may all be one person's; let "
            f"traces name who acted (`actor`), or set {TRUST} if all sessions are your own"
        )

    def refusal_to_lead(self, owners: Iterable[SessionTrace], *, after: str, to: str) -> str | None:
        """Return why a call must not be followed by one of another tool on the word of these sessions, if it must not.

        Where nobody is named, a tool that few sessions call is led to only if most of those who come there go on to it.
        """
        sessions = set(owners)
        own, before, callers = len(sessions), self._callers[after], self._callers[to]
        rare = callers * self._drawn <= FORGEABLE_SHARE * self._total
        if not rare or own >= LEAST_GOING_ON * before or self._is_safe(sessions):
            return None
        return (
            f"only {callers} of {self._total} sessions call it, {own} of the {before} that call {after}, and the log "
            "names nobody: they may all be one person's"
        )

    def _is_safe(self, sessions: Iterable[SessionTrace]) -> bool:
        """Return whether it is known whose these sessions are, or that it need not be."""
        return not self._guarded or self._is_vouched_for(sessions)

    def _is_vouched_for(self, owners: Iterable[SessionTrace]) -> bool:
        """Return whether at least two principals, or a named one that made most of the log, are behind these."""
        # Sessions that name nobody may be anybody's, also the one's that is named beside them.
        principals = {session.principal for session in owners} - {None}
        return len(principals) > 1 or any(self._is_main(principal) for principal in principals)

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


def set_aside(unheard: float, votes: float, *, spared: int = 0) -> float:
    """Return how many of these votes count neither for nor against: those for values that nothing names, if few.

    Where a fold is left out, so many more are few: its mistakes weigh more.

    A value that stands nowhere speaks for no other source, so it is taken for a mistake. Where there are many, agents
    make such values up, and each speaks against every source.
    """
    return unheard if unheard <= MOST_UNHEARD * votes + spared else 0.0


def _day(session: SessionTrace) -> int | None:
    """Return the day on which a session began, in UTC; None where the record does not know."""
    start = session.calls[0].start_us if session.calls else None
    return None if start is None else start // _DAY_US
