"""Asks a model about drafts, and keeps of its answer only what the record confirms.

A model may word things freely: words change nothing that a tool does. A source it proposes must explain the recorded
values that synthesis saw, and the draft with it must then pass the same replay on the sessions held out for judging.
Whatever goes wrong on the way (no answer, too late, nonsense), the draft stays as the record made it, and says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from twinraven.foundation.canonical import canonical_json, content_hash, parse_json
from twinraven.foundation.errors import TwinRavenError
from twinraven.huginn.advice.port import AdviceAnswer, AdviceLimits, Advisor, Redact
from twinraven.huginn.advice.proposals import Proposals, ProposedSource, read_proposals, tidy
from twinraven.huginn.advice.question import ANSWER_SCHEMA, SYSTEM, open_arguments, question
from twinraven.huginn.advice.record import AdviceRecord, essence_hash, readable
from twinraven.huginn.advice.variants import propose_variant
from twinraven.huginn.instances import Instance, find_repeats, instances_of
from twinraven.huginn.rehearsal import Rehearsal, ToolCandidate
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import SessionTrace
from twinraven.huginn.validation.judge import validate
from twinraven.huginn.validation.model import Criteria, ValidationResult
from twinraven.huginn.voting import Votes
from twinraven.registry import SynthesizedTool

MAX_ANSWER_CHARS = 64_000


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """The record that proposals are tested on: the training sessions, and those held out."""

    study: Sequence[SessionTrace]
    judge: Sequence[SessionTrace]
    rehearsal: Rehearsal
    criteria: Criteria
    facts: ToolFacts
    index: TraceIndex
    votes: Votes

    def instances(self, tool: ToolCandidate) -> list[Instance]:
        """Return the instances of the chain in the training sessions."""
        if tool.shape == "batch":
            return find_repeats(self.study, tool.chain)
        return instances_of(self.study, tool.chain)


@dataclass(frozen=True, slots=True)
class AdvisedDraft:
    """A draft after a model was asked; `verdict` is set where its wiring changed."""

    tool: ToolCandidate
    record: AdviceRecord
    verdict: ValidationResult | None = None


class ModelAdvisor:
    """Asks a configured model for advice, within limits."""

    def __init__(
        self,
        advisor: Advisor,
        redact: Redact,
        *,
        limits: AdviceLimits,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.advisor = advisor
        self.redact = redact
        self.limits = limits
        self.now = now
        self.monotonic = monotonic

    def begin(self) -> AdviceRound:
        """Return a round with its calls and its time still to spend."""
        return AdviceRound(self)


class AdviceRound:
    """The requests for advice of one round of learning."""

    def __init__(self, counsel: ModelAdvisor) -> None:
        self._counsel = counsel
        self._spent_s = 0.0
        self.calls = 0
        self.records: list[AdviceRecord] = []

    @property
    def model(self) -> str:
        return self._counsel.advisor.name

    async def advise(self, tenant_id: str, tool: ToolCandidate, trial: TrialRecord) -> AdvisedDraft:
        """Return the draft with what of the model's answer was kept.

        At worst the draft itself, with the failure noted.
        """
        record = AdviceRecord(self.model, essence_hash(tool.definition))
        self.records.append(record)
        instances = trial.instances(tool)
        found = await self._ask(tenant_id, tool.definition, instances, trial.facts, record)
        verdict = None
        if found is not None:
            record.refused = found.refused
            tool, verdict = await self._try_sources(tool, found, instances, trial, record)
            tool = replace(tool, definition=_worded(tool.definition, found, record))
        return AdvisedDraft(replace(tool, definition=record.kept_with(tool.definition)), record, verdict)

    async def _ask(
        self,
        tenant_id: str,
        definition: SynthesizedTool,
        instances: Sequence[Instance],
        facts: ToolFacts,
        record: AdviceRecord,
    ) -> Proposals | None:
        limits = self._counsel.limits
        if self.calls >= limits.max_calls:
            record.failure = f"not asked: a round may ask {limits.max_calls} times"
            return None
        left_s = limits.budget_s - self._spent_s
        if left_s <= 0:
            record.failure = f"not asked: the round's {limits.budget_s:g} s for asking are used up"
            return None
        self.calls += 1
        begun = self._counsel.monotonic()
        try:
            async with asyncio.timeout(min(left_s, limits.timeout_s)):
                return await self._exchange(tenant_id, question(definition, instances, facts), record)
        except TimeoutError:
            record.failure = "the model did not answer in time"
        except TwinRavenError as error:
            record.failure = await self._clean(tenant_id, tidy(error.message, 300))
        finally:
            self._spent_s += self._counsel.monotonic() - begun
        return None

    async def _exchange(self, tenant_id: str, asked: bytes, record: AdviceRecord) -> Proposals | None:
        """Ask, keep what was said, and read it; secrets are taken out on the way there and on the way back."""
        prompt = (await asyncio.to_thread(self._counsel.redact, tenant_id, asked)).decode()
        record.prompt_hash = content_hash(canonical_json([SYSTEM, prompt]))
        answer = await self._counsel.advisor.ask(tenant_id, system=SYSTEM, prompt=prompt, schema=ANSWER_SCHEMA)
        record.input_tokens, record.output_tokens = answer.input_tokens, answer.output_tokens
        said = await self._clean(tenant_id, _text(answer))
        record.answer = readable(said)
        if answer.stop == "length":
            record.failure = "the answer was cut off; give it more model.max_tokens"
            return None
        if len(said) > MAX_ANSWER_CHARS:
            record.failure = f"the answer has {len(said)} characters, at most {MAX_ANSWER_CHARS} are read"
            return None
        from twinraven.connectors import find_json

        return read_proposals(find_json(said))

    async def _clean(self, tenant_id: str, text: str) -> str:
        storable = text.encode("utf-8", "replace").decode()
        # JSON is cleaned as JSON, so that a secret in it is found however it is spelt there.
        try:
            body, is_json = canonical_json(parse_json(storable)), True
        except TwinRavenError:
            body, is_json = canonical_json(storable), False
        cleaned = await asyncio.to_thread(self._counsel.redact, tenant_id, body)
        return cleaned.decode() if is_json else cast("str", parse_json(cleaned))

    async def _try_sources(
        self,
        tool: ToolCandidate,
        found: Proposals,
        instances: Sequence[Instance],
        trial: TrialRecord,
        record: AdviceRecord,
    ) -> tuple[ToolCandidate, ValidationResult | None]:
        """Take one proposal after the other, each on top of those that held."""
        verdict = None
        tried: set[tuple[int, str]] = set()
        for proposed in found.sources:
            place = (proposed.step, proposed.argument)
            what = f"source of {tidy(proposed.argument, 80)} in step {proposed.step}"
            if place in tried:
                found.refuse(what, proposed.source, "is a second proposal for one argument")
                continue
            tried.add(place)
            outcome = await self._try_source(tool, proposed, instances, trial)
            if isinstance(outcome, str):
                found.refuse(what, proposed.source, outcome)
                continue
            tool, verdict = outcome
            record.accept(what, tidy(proposed.source, 300))
        return tool, verdict

    async def _try_source(
        self, tool: ToolCandidate, proposed: ProposedSource, instances: Sequence[Instance], trial: TrialRecord
    ) -> tuple[ToolCandidate, ValidationResult] | str:
        wanted = next(
            (
                each
                for each in open_arguments(tool.definition)
                if (each.step, each.argument) == (proposed.step, proposed.argument)
            ),
            None,
        )
        if wanted is None:
            return "that argument is not open"
        variant = propose_variant(tool, wanted, proposed.source, instances, trial.index, by=self.model)
        if isinstance(variant, str):
            return variant
        now = self._counsel.now()
        verdict = await validate(variant.tool, trial.judge, trial.rehearsal, trial.criteria, now=now, votes=trial.votes)
        return (variant.tool, verdict) if verdict.passed else f"replay: {verdict.failure_reasons[0]}"


def _text(answer: AdviceAnswer) -> str:
    return answer.text if answer.value is None else canonical_json(answer.value).decode()


def _worded(definition: SynthesizedTool, found: Proposals, record: AdviceRecord) -> SynthesizedTool:
    """Return the definition in the model's words; what it calls and how it is wired stay as they are."""
    if found.slug is not None:
        record.accept("slug", found.slug)
    if found.description is not None:
        record.accept("description", found.description)
    properties = dict(cast("dict[str, Any]", definition.parameters.get("properties", {})))
    for name, words in found.parameters.items():
        schema = properties.get(name)
        if not isinstance(schema, dict):
            found.refuse("parameters", name, "there is no such parameter")
            continue
        properties[name] = {**cast("dict[str, Any]", schema), "description": words}
        record.accept(f"description of {name}", words)
    return replace(
        definition,
        tool_id=found.slug or definition.tool_id,
        description=found.description or definition.description,
        parameters={**definition.parameters, "properties": properties},
    )
