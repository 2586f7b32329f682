"""Caches values and knowledge of recorded calls for a learning run: the same call serves many chains."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any

from twinraven.huginn.instances import Instance
from twinraven.huginn.knowledge import SessionKnowledge
from twinraven.huginn.synthesis.sources import Source, StepSample, index_values
from twinraven.huginn.traces import RecordedCall, SessionTrace


class TraceIndex:
    """A memo keyed by identity; it lives as long as the run."""

    def __init__(self) -> None:
        self._samples: dict[RecordedCall, StepSample] = {}
        self._knowledge: dict[SessionTrace, SessionKnowledge] = {}
        self._answers: dict[Hashable, frozenset[Source]] = {}
        self._unanswered: dict[RecordedCall, RecordedCall] = {}
        self.readings: dict[RecordedCall, Any] = {}

    def sample(self, call: RecordedCall) -> StepSample:
        """Return the indexed values of a call's input and output."""
        sample = self._samples.get(call)
        if sample is None:
            sample = self._samples[call] = StepSample(index_values(call.params), index_values(call.output))
        return sample

    def earlier(self, instance: Instance, number: int, call: RecordedCall) -> list[RecordedCall]:
        """Return the steps before one, as the model knew them at a call: answers of its turn are unseen."""
        return [
            self._without_answer(instance.last(step)) if instance.asked_together(step, call) else instance.last(step)
            for step in range(number)
        ]

    def _without_answer(self, call: RecordedCall) -> RecordedCall:
        bare = self._unanswered.get(call)
        if bare is None:
            bare = self._unanswered[call] = replace(call, output=None)
        return bare

    def knowledge(self, session: SessionTrace) -> SessionKnowledge:
        """Return the knowledge of a session, by position."""
        knowledge = self._knowledge.get(session)
        if knowledge is None:
            knowledge = self._knowledge[session] = SessionKnowledge(session)
        return knowledge

    def once(self, key: Hashable, ask: Callable[[], Iterable[Source]]) -> frozenset[Source]:
        """Return the sources of one sample, asked once for all folds of one chain."""
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = frozenset(ask())
        return answer

    def forget(self) -> None:
        """Drop what was found for one chain; the next has other samples."""
        self._answers.clear()
