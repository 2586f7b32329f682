"""Values and knowledge of recorded calls, computed once for a learning run: the same call serves many chains."""

from __future__ import annotations

from twinraven.huginn.knowledge import SessionKnowledge
from twinraven.huginn.synthesis.sources import StepSample, index_values
from twinraven.huginn.traces import RecordedCall, SessionTrace


class TraceIndex:
    """A memo keyed by identity; it lives as long as the run."""

    def __init__(self) -> None:
        self._samples: dict[RecordedCall, StepSample] = {}
        self._knowledge: dict[SessionTrace, SessionKnowledge] = {}

    def sample(self, call: RecordedCall) -> StepSample:
        """Where each value occurs in a call's input and output."""
        sample = self._samples.get(call)
        if sample is None:
            sample = self._samples[call] = StepSample(index_values(call.params), index_values(call.output))
        return sample

    def knowledge(self, session: SessionTrace) -> SessionKnowledge:
        """What could be known when, in a session."""
        knowledge = self._knowledge.get(session)
        if knowledge is None:
            knowledge = self._knowledge[session] = SessionKnowledge(session)
        return knowledge
