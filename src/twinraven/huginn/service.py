"""Huginn's use cases on a tenant's log: synthesise a chain, validate a draft, and the whole round of learning.

Sessions are split the same way every time, so that what synthesis saw never judges it. A round is idempotent: a tool
that would come out as it already is makes no new draft, and one that a person rejected is not proposed again on the
same evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from twinraven.flow import SynthesizedTool
from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.huginn.chains import CandidateChain
from twinraven.huginn.learning import SYNTHESIS_SHARE, Learner, LearningConfig, LearningReport, Progress, essence
from twinraven.huginn.rehearsal import Answers, LearnedTool, Rehearsal
from twinraven.huginn.selection import Chosen, measure, worth
from twinraven.huginn.splitting import best_split, split_sessions
from twinraven.huginn.store import ChainStore
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import SessionTrace, load_traces
from twinraven.huginn.validation.judge import validate
from twinraven.huginn.validation.model import ValidationResult
from twinraven.muninn import EventStore
from twinraven.registry import Draft, Registry

Novelty = Literal["awaiting", "promoted", "known", "rejected", "uncallable"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What became of one tool a round found worth having."""

    tool_id: str
    version: int
    novelty: Novelty
    picture: SynthesizedTool
    chosen: Chosen
    note: str = ""


@dataclass(slots=True)
class Round:
    """One round of learning."""

    report: LearningReport
    proposals: list[Proposal] = field(default_factory=list[Proposal])


class Huginn:
    """Thought, for one home."""

    def __init__(
        self,
        events: EventStore,
        chains: ChainStore,
        registry: Registry,
        facts: Callable[[str], ToolFacts],
        *,
        config: LearningConfig,
        idle_gap_s: float,
        now: Callable[[], datetime],
    ) -> None:
        self._events = events
        self._chains = chains
        self._registry = registry
        self._facts = facts
        self._config = config
        self._idle_gap_s = idle_gap_s
        self._now = now

    async def synthesize(self, tenant_id: str, chain_id: str, *, with_writes: bool = False) -> Draft:
        """A stored chain as a numbered draft, or an error that says why it cannot be one."""
        chain = await self._chains.chain(tenant_id, chain_id)
        sessions = await self._sessions(tenant_id)
        study, _ = self._split(sessions)
        learner = Learner(self._config, self._facts(tenant_id), now=self._now)
        tool = learner.synthesize_chain(chain, study, with_writes=with_writes)
        if isinstance(tool, str):
            raise InvalidInput(f"{' → '.join(chain.tools)} cannot become a tool: {tool}", field="chain_id")
        return await self._registry.draft(tenant_id, tool.definition, evidence_hash=evidence_hash(tool.definition))

    async def validate(
        self, tenant_id: str, tool_id: str, *, version: int | None = None
    ) -> tuple[Draft, ValidationResult]:
        """Replay a draft on the sessions its synthesis did not see."""
        draft = await self._draft(tenant_id, tool_id, version)
        sessions = await self._sessions(tenant_id)
        _, judge = self._split(sessions)
        learner = Learner(self._config, self._facts(tenant_id), now=self._now)
        rehearsal = Rehearsal(Answers(sessions), learner.index, self._facts(tenant_id).writes)
        verdict = await validate(as_learned(draft.definition), judge, rehearsal, self._config.criteria, now=self._now())
        return draft, verdict

    async def register(self, tenant_id: str, draft: Draft, verdict: ValidationResult, *, by: str) -> None:
        """Take a draft that passed into the registry, with what it would have saved."""
        tool = as_learned(draft.definition)
        sessions = await self._sessions(tenant_id)
        learner = Learner(self._config, self._facts(tenant_id), now=self._now)
        rehearsal = Rehearsal(Answers(sessions), learner.index, self._facts(tenant_id).writes)
        savings = (await measure([tool], sessions, rehearsal))[tool]
        turns = sum(session.turns for session in sessions)
        earned = worth(savings, tool, turns, self._config.prices).as_json()
        await self._registry.register(tenant_id, draft.definition, verdict.as_json(), by=by, savings=earned)

    async def learn(self, tenant_id: str, *, by: str, progress: Progress | None = None) -> Round:
        """The whole round; what is new and proven waits in the registry for a decision."""
        sessions = await self._sessions(tenant_id)
        learner = Learner(self._config, self._facts(tenant_id), now=self._now)
        report = await learner.learn(sessions, progress=progress)
        outcome = Round(report)
        for chosen in report.chosen:
            outcome.proposals.append(await self._propose(tenant_id, chosen, report, by))
        return outcome

    async def _propose(self, tenant_id: str, chosen: Chosen, report: LearningReport, by: str) -> Proposal:
        definition = chosen.tool.definition
        known = await self._known(tenant_id, definition)
        if known is not None:
            return Proposal(known.tool_id, known.version, "known", known.definition, chosen)
        missing = [step.tool_id for step in definition.steps if self._facts(tenant_id).entry(step.tool_id) is None]
        if missing:
            note = f"{missing[0]} is in the record, but not in this home's catalogue"
            return Proposal(definition.tool_id, 0, "uncallable", definition, chosen, note)
        draft_of = next(draft for draft in report.drafts if draft.tool is chosen.tool)
        await self._keep_chain(tenant_id, draft_of.chain)
        try:
            draft = await self._registry.draft(tenant_id, definition, evidence_hash=evidence_hash(definition))
        except Conflict as error:
            return Proposal(definition.tool_id, 0, "rejected", definition, chosen, error.message)
        verdict = replace(draft_of.verdict, tool_id=draft.tool_id, tool_version=draft.version)
        record = await self._registry.register(
            tenant_id, draft.definition, verdict.as_json(), by=by, savings=chosen.alone.as_json()
        )
        novelty: Novelty = "promoted" if record.is_in_service else "awaiting"
        return Proposal(draft.tool_id, draft.version, novelty, draft.definition, chosen)

    async def _known(self, tenant_id: str, definition: SynthesizedTool) -> Draft | None:
        """The live draft this synthesis would only repeat."""
        wanted = essence(definition)
        for draft in reversed(await self._registry.drafts(tenant_id)):
            if essence(draft.definition) == wanted and not await self._gone(tenant_id, draft):
                return draft
        return None

    async def _gone(self, tenant_id: str, draft: Draft) -> bool:
        """Whether a draft came to nothing that still stands: never registered, rejected, or retired."""
        try:
            tool = await self._registry.tool(tenant_id, draft.tool_id)
        except NotFound:
            return True
        return tool.record.is_retired or tool.version(draft.version) is None

    async def _keep_chain(self, tenant_id: str, chain: CandidateChain) -> None:
        if not await self._chains.exists(tenant_id, str(chain.chain_id)):
            await self._chains.add(tenant_id, [chain])

    async def _draft(self, tenant_id: str, tool_id: str, version: int | None) -> Draft:
        drafts = await self._registry.drafts(tenant_id, tool_id=tool_id)
        chosen = [draft for draft in drafts if version is None or draft.version == version]
        if not chosen:
            wanted = tool_id if version is None else f"{tool_id} v{version}"
            raise NotFound(f"no draft {wanted!r}; make one with `twinraven synthesize CHAIN`", tool_id=tool_id)
        return max(chosen, key=lambda draft: draft.version)

    async def _sessions(self, tenant_id: str) -> list[SessionTrace]:
        return (await load_traces(self._events, tenant_id, idle_gap_s=self._idle_gap_s)).sessions

    def _split(self, sessions: list[SessionTrace]) -> tuple[list[SessionTrace], list[SessionTrace]]:
        if not sessions:
            return [], []
        return split_sessions(sessions, best_split(sessions), share=SYNTHESIS_SHARE, salt="synthesis")


def as_learned(definition: SynthesizedTool) -> LearnedTool:
    """A definition with the chain it came from."""
    chain: list[Any] = definition.evidence.get("chain") or [step.tool_id for step in definition.steps]
    return LearnedTool(definition, tuple(str(tool) for tool in chain))


def evidence_hash(definition: SynthesizedTool) -> str:
    """What a draft rests on: its wiring and the samples for and against it."""
    return content_hash(canonical_json([definition.evidence, essence(definition).decode()]))
