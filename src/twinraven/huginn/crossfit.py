"""Applies cross-fitting to wirings: every session judges one that was inferred without it.

A chain is wired once on all sessions and once for each fold without the sessions of that fold. The tool is the one the
folds agree on. A session judges it only if the wiring inferred without its fold is the same, so no session ever judges
what it taught, and none is wasted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from twinraven.foundation.canonical import canonical_json
from twinraven.huginn.instances import SessionsByPair
from twinraven.huginn.rehearsal import ToolCandidate
from twinraven.huginn.splitting import FOLDS, assign_folds
from twinraven.huginn.synthesis.capping import without_cap
from twinraven.huginn.synthesis.wiring import IN_ALL, WITHOUT_A_FOLD, MinimumEvidence
from twinraven.huginn.traces import SessionTrace
from twinraven.registry import SynthesizedTool

LEAST_AGREEING = 4
UNSTABLE = "its wiring depends on which sessions are looked at"

Synthesize = Callable[[AbstractSet[SessionTrace], MinimumEvidence], ToolCandidate | str]


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """A tool, and the sessions that may judge it."""

    tool: ToolCandidate
    judges: tuple[SessionTrace, ...]
    agreeing: int
    folds: int


class Folds:
    """The sessions of a round, dealt into folds by task."""

    def __init__(self, sessions: Sequence[SessionTrace]) -> None:
        self.sessions = sessions
        self.by_pair = SessionsByPair(sessions)
        self._fold = assign_folds(sessions)
        self.count = min(FOLDS, len(set(self._fold.values())))
        self._all = frozenset(sessions)
        self._without = [
            frozenset(session for session in sessions if self._fold[session] != number) for number in range(self.count)
        ]

    def cross_fit(self, synthesize: Synthesize) -> CrossFitted | str:
        """Return the tool that nearly all folds agree on, or the reason why there is none."""
        whole = synthesize(self._all, IN_ALL)
        if isinstance(whole, str):
            return whole
        wanted = essence(whole.definition)
        fitted = [synthesize(others, WITHOUT_A_FOLD) for others in self._without]
        agreeing = [
            number
            for number, tool in enumerate(fitted)
            if not isinstance(tool, str) and essence(tool.definition) == wanted
        ]
        if len(agreeing) < LEAST_AGREEING:
            refusal = next((reason for reason in fitted if isinstance(reason, str)), None)
            why = f"; without one of them: {refusal}" if refusal else ""
            return f"{UNSTABLE}: only {len(agreeing)} of {self.count} folds agree{why}"
        judges = tuple(session for session in self.sessions if self._fold[session] in agreeing)
        return CrossFitted(whole, judges, len(agreeing), self.count)


def essence(definition: SynthesizedTool) -> bytes:
    """Return the identity of a draft: its calls and their wiring."""
    body = definition.as_json()
    return canonical_json([body["steps"], without_cap(body["internal_wiring"])])
