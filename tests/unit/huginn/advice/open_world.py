"""A small world in which one argument stays open: it is a list around a value that the caller knew.

Synthesis looks for values, not for lists made of them, so it asks the caller for `ids`; whoever sees that they are
always the customer's number in a list can say so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.unit.huginn.billing_world import LOAD, LOOKUP, SessionScript, traces
from twinraven.catalog import ToolEntry
from twinraven.huginn import AdviceLimits, Criteria, Learner, LearningConfig, ModelAdvisor, SessionTrace, ToolCandidate
from twinraven.huginn.advice.model_advisor import AdviceRound, TrialRecord
from twinraven.huginn.crossfit import CrossFitted
from twinraven.huginn.rehearsal import RecordedAnswers, Rehearsal
from twinraven.huginn.splitting import split_sessions
from twinraven.huginn.tool_facts import ToolFacts

NOW = datetime(2026, 3, 2, tzinfo=UTC)
GOOD = '[[["$.steps[0].output.customer.id"]]]'
WRONG = '[[["$.steps[0].output.customer.account"]]]'
FITS_STUDY_ONLY = '[[["$.steps[0].output.customer.alias"]]]'
SAMPLE_NOTE = "a harmless note"


@dataclass(frozen=True, slots=True)
class Said:
    """What a fake model answers."""

    text: str
    value: Any = None
    input_tokens: int = 11
    output_tokens: int = 7
    stop: str = "end"


@dataclass(slots=True)
class FakeAdvisor:
    """Answers every question alike, and keeps the questions."""

    say: Callable[[], Any]
    name: str = "fake-1"
    asked: list[str] = field(default_factory=list[str])

    async def ask(self, tenant_id: str, *, system: str, prompt: str, schema: Mapping[str, Any]) -> Said:
        del tenant_id, system, schema
        self.asked.append(prompt)
        answer = self.say()
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Said) else Said("", answer)


def open_scripts(count: int, *, seed: int = 5, note: str = SAMPLE_NOTE) -> list[SessionScript]:
    """Sessions whose second call takes a list around what the first one gave; half of them know an alias as well."""
    rng = random.Random(seed)
    studied = _studied(count)
    scripts: list[SessionScript] = []
    for number in range(count):
        script = SessionScript(f"s{number:05}", f"task-{number}")
        email, customer = f"user{rng.randrange(10**6)}@mail.test", f"C-{rng.randrange(10**9)}"
        account, other = f"A-{rng.randrange(10**9)}", f"X-{rng.randrange(10**9)}"
        alias = customer if script.task_id in studied else other
        found = {"customer": {"id": customer, "account": account, "alias": alias}, "note": note}
        script.call(LOOKUP, {"email": email}, found, said=f"I am {email}, my number is {customer}")
        script.call(LOAD, {"account": account, "ids": [[[customer]]]}, {"plan": "pro", "number": number})
        scripts.append(script)
    return scripts


def _studied(count: int) -> set[str]:
    """The tasks that synthesis will see."""
    blank = [SessionTrace(f"s{number:05}", f"task-{number}", False, (), True) for number in range(count)]
    study, _ = split_sessions(blank, "task", share=0.6, salt="synthesis")
    return {session.task_id or "" for session in study}


@dataclass(slots=True)
class World:
    """A draft with an open argument, and the record it is judged by."""

    tool: ToolCandidate
    trial: TrialRecord


def open_world(*, note: str = SAMPLE_NOTE, entries: tuple[ToolEntry, ...] = ()) -> World:
    sessions = traces(open_scripts(160, note=note))
    study, judge = split_sessions(sessions, "task", share=0.6, salt="synthesis")
    facts = ToolFacts(entries)
    learner = Learner(LearningConfig(), facts, now=lambda: NOW)
    chain = next(each for each in learner.mine(study) if each.tools == (LOOKUP, LOAD))
    fitted = learner.cross_fit(chain, study)
    assert isinstance(fitted, CrossFitted), fitted
    rehearsal = Rehearsal(RecordedAnswers(sessions), learner.index, facts.writes)
    return World(
        fitted.tool, TrialRecord(study, judge, rehearsal, Criteria(), facts, learner.index, learner.votes(sessions))
    )


def answer(*sources: str, **members: Any) -> dict[str, Any]:
    """A well-formed answer that proposes these sources for the open argument."""
    proposed = [{"step": 1, "argument": "ids", "source": source} for source in sources]
    return {"slug": "find_customer", "description": "Finds one.", "parameters": [], "sources": proposed, **members}


def begin(advisor: FakeAdvisor, limits: AdviceLimits | None = None) -> AdviceRound:
    return ModelAdvisor(advisor, lambda _, text: text, limits=limits or AdviceLimits(), now=lambda: NOW).begin()
