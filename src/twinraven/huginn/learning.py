"""The round of learning: mine, synthesise, validate, choose.

Synthesis sees one part of the sessions, validation judges on the other, and only what passes is weighed by its worth.
Everything that was tried keeps its reason, so that "nothing to learn" always comes with a because.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from twinraven.flow import SynthesizedTool
from twinraven.foundation.canonical import canonical_json
from twinraven.huginn.chains import CandidateChain, columns_of, is_batch, mine_chains
from twinraven.huginn.instances import find_instances, find_repeats
from twinraven.huginn.mining import MiningConfig
from twinraven.huginn.rehearsal import Answers, LearnedTool, Rehearsal
from twinraven.huginn.selection import Chosen, Prices, select
from twinraven.huginn.splitting import best_split, split_sessions
from twinraven.huginn.synthesis.compose import Origin, compose_batch, compose_chain
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.synthesis.wiring import LEAST_CONTEXTS, LEAST_SAMPLES, infer_wiring
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import RecordedCall, SessionTrace
from twinraven.huginn.validation.judge import validate
from twinraven.huginn.validation.model import Criteria, ValidationResult

SYNTHESIS_SHARE = 0.6

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LearningConfig:
    """What a round may look for and what it must reach."""

    mining: MiningConfig = field(
        default_factory=lambda: MiningConfig(
            algorithm="contiguous", min_support=0.005, min_sessions=8, max_length=5, collapse_repeats=True
        )
    )
    criteria: Criteria = field(default_factory=Criteria)
    prices: Prices = field(default_factory=Prices)
    max_tools: int = 10


@dataclass(frozen=True, slots=True)
class Draft:
    """A chain that became a tool, and how it was judged."""

    chain: CandidateChain
    tool: LearnedTool
    verdict: ValidationResult


@dataclass(slots=True)
class LearningReport:
    """All that a round found, and why the rest was left."""

    sessions: int
    chains: list[CandidateChain] = field(default_factory=list[CandidateChain])
    drafts: list[Draft] = field(default_factory=list[Draft])
    refused: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    chosen: list[Chosen] = field(default_factory=list[Chosen])

    @property
    def because(self) -> str:
        """Why nothing was learned."""
        if self.sessions == 0:
            return "there are no sessions"
        if not self.chains:
            return f"no two tools follow each other often enough in {self.sessions} sessions"
        if not self.drafts:
            return (
                f"none of {len(self.chains)} chains could be wired; the first: {next(iter(self.refused.values()), '')}"
            )
        passed = [draft for draft in self.drafts if draft.verdict.passed]
        if not passed:
            return f"none of {len(self.drafts)} drafts passed; the first: {self.drafts[0].verdict.failure_reasons[0]}"
        return f"none of {len(passed)} proven tools saves more than it costs"


class Learner:
    """One round over one set of sessions."""

    def __init__(self, config: LearningConfig, facts: ToolFacts, *, now: Callable[[], datetime]) -> None:
        self._config = config
        self._facts = facts
        self._now = now
        self.index = TraceIndex()

    async def learn(self, sessions: Sequence[SessionTrace], *, progress: Progress | None = None) -> LearningReport:
        """Mine, synthesise on one part, validate on the other, choose by worth."""
        say = progress or _silent
        report = LearningReport(len(sessions))
        if not sessions:
            return report
        study, judge = split_sessions(sessions, best_split(sessions), share=SYNTHESIS_SHARE, salt="synthesis")
        say(f"mining {len(study)} sessions")
        report.chains = self.mine(study)
        say(f"wiring {len(report.chains)} chains")
        drafts = self.synthesize(report.chains, study, report.refused)
        rehearsal = Rehearsal(Answers(sessions), self.index, self._facts.writes)
        for number, (chain, tool) in enumerate(drafts):
            say(f"replaying draft {number + 1} of {len(drafts)}: {tool.tool_id}")
            verdict = await validate(tool, judge, rehearsal, self._config.criteria, now=self._now())
            report.drafts.append(Draft(chain, tool, verdict))
        passed = [draft.tool for draft in report.drafts if draft.verdict.passed]
        say(f"weighing {len(passed)} proven tools")
        report.chosen = await select(passed, sessions, rehearsal, self._config.prices, most=self._config.max_tools)
        return report

    def mine(self, sessions: Sequence[SessionTrace]) -> list[CandidateChain]:
        """Chains of different tools (repeats collapsed), and tools repeated in a row."""
        columns = columns_of(sessions)
        calls = [call for session in sessions for call in session.calls]
        mined = [
            item
            for config in (self._config.mining, _pairs_only(self._config.mining))
            for item in mine_chains(columns, config, now=self._now(), prices=self._config.prices)
            if is_batch(item.chain.tools) != config.collapse_repeats
        ]
        return [replace(item.chain, sample_event_ids=_events(calls, item.rows)) for item in mined]

    def synthesize(
        self, chains: Sequence[CandidateChain], sessions: Sequence[SessionTrace], refused: dict[tuple[str, ...], str]
    ) -> list[tuple[CandidateChain, LearnedTool]]:
        """A draft for each chain that can be wired and only reads; two chains that end as one tool count once."""
        drafts: dict[bytes, tuple[CandidateChain, LearnedTool]] = {}
        for chain in chains:
            tool = self.synthesize_chain(chain, sessions)
            if isinstance(tool, str):
                refused[chain.tools] = tool
                continue
            drafts.setdefault(essence(tool.definition), (chain, tool))
        return list(drafts.values())

    def synthesize_chain(
        self, chain: CandidateChain, sessions: Sequence[SessionTrace], *, with_writes: bool = False
    ) -> LearnedTool | str:
        """One chain as a tool, or the reason why not; on request a write may stand last, and alone."""
        writing = [tool for tool in chain.tools if self._facts.writes(tool)]
        if writing and not with_writes:
            return f"{writing[0]} may write; a tool that writes is only made on request"
        if writing and (writing != [chain.tools[-1]] or is_batch(chain.tools)):
            return f"{writing[0]} may write; a write can only stand last, and alone"
        origin = Origin(str(chain.chain_id), chain.discovered_at)
        if is_batch(chain.tools):
            return self._batch(chain, sessions, origin)
        wiring = infer_wiring(chain.tools, find_instances(sessions, chain.tools), self.index)
        if len(wiring.steps) < 2:
            return wiring.ended or "nothing could be wired"
        tools = tuple(step.tool_id for step in wiring.steps)
        return LearnedTool(compose_chain(wiring, origin, self._facts), tools)

    def _batch(self, chain: CandidateChain, sessions: Sequence[SessionTrace], origin: Origin) -> LearnedTool | str:
        runs = find_repeats(sessions, chain.tools[0])
        contexts = len({run.context for run in runs})
        if len(runs) < LEAST_SAMPLES or contexts < LEAST_CONTEXTS:
            return f"only {len(runs)} runs in {contexts} tasks repeat {chain.tools[0]} with other arguments"
        knew = sum(
            all(self.index.knowledge(run.session).knows(call.params, run.runs[0][0]) for call in run.calls(0))
            for run in runs
        )
        if knew < LEAST_SAMPLES:
            return f"in {len(runs) - knew} of {len(runs)} runs the later arguments were not known at the start"
        return LearnedTool(compose_batch(chain.tools[0], runs, origin, self._facts), chain.tools[:2])


def _silent(_: str) -> None:
    """Nobody watches."""


def _events(calls: Sequence[RecordedCall], rows: Sequence[int]) -> tuple[UUID, ...]:
    """The events behind sampled calls; traces from a file have none."""
    found = (calls[row].event_id for row in rows)
    return tuple(event_id for event_id in found if event_id is not None)


def _pairs_only(config: MiningConfig) -> MiningConfig:
    snapshot: dict[str, Any] = {**config.as_dict(), "collapse_repeats": False, "min_length": 2, "max_length": 2}
    return MiningConfig.from_dict(snapshot)


def essence(definition: SynthesizedTool) -> bytes:
    """What makes two drafts the same tool: what they call and how it is wired."""
    body = definition.as_json()
    return canonical_json([body["steps"], body["internal_wiring"]])
