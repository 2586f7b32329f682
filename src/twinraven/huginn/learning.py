"""Runs a round of learning: mine, synthesise, validate, select.

Every session judges only what was inferred without it (see `crossfit`), and only what passes is weighed by its worth.
Everything that was tried keeps its reason, so that "nothing to learn" always comes with a because.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from twinraven.flow import compile_flow
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.chains import CandidateChain, columns_of, is_batch, mine_chains
from twinraven.huginn.crossfit import UNSTABLE, CrossFitted, Folds, essence
from twinraven.huginn.evidence import SampleLimits, repeated_pairs
from twinraven.huginn.instances import Instance, RunsOf, find_repeats, instances_of
from twinraven.huginn.mining import MiningConfig
from twinraven.huginn.rehearsal import RecordedAnswers, Rehearsal, ToolCandidate
from twinraven.huginn.selection import ChosenTool, Prices, SelectionLimits, select
from twinraven.huginn.synthesis.compose import DraftOrigin, compose_batch, compose_chain
from twinraven.huginn.synthesis.step_wiring import needed_steps
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.synthesis.wiring import MinimumEvidence, given_arguments, infer_wiring
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import RecordedCall, SessionTrace
from twinraven.huginn.validation.judge import validate
from twinraven.huginn.validation.model import Criteria, ValidationResult
from twinraven.huginn.voting import Votes

CLASSIFY = "twinraven tools classify --accept-suggestions"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LearningConfig:
    """The configuration of a round: its search space and the thresholds to reach."""

    mining: MiningConfig = field(
        default_factory=lambda: MiningConfig(
            algorithm="contiguous", min_support=0.005, min_sessions=8, max_length=5, collapse_repeats=True
        )
    )
    criteria: Criteria = field(default_factory=Criteria)
    prices: Prices = field(default_factory=Prices)
    max_tools: int = 10
    max_extra_calls: float = 0.22
    """Extra calls that all tools of a round together may make, as a share of the recorded calls."""
    list_writes: bool = False
    """Whether a tool may be proposed that writes once for each element of a list that a read gave."""
    trust_unnamed: bool = False
    """Whether sessions that name nobody are one's own, so that what few of them do may be learned, too."""
    max_work: int = 5_000_000
    """Calls of candidate chains that a round looks at."""
    sample: SampleLimits = field(default_factory=SampleLimits)


@dataclass(frozen=True, slots=True)
class JudgedDraft:
    """A chain that became a tool, who may judge it, and how it was judged."""

    chain: CandidateChain
    tool: ToolCandidate
    verdict: ValidationResult
    judges: tuple[SessionTrace, ...] = ()


@dataclass(frozen=True, slots=True)
class DroppedChain:
    """A chain that did not become a proven tool, and why."""

    chain: CandidateChain
    reason: str

    def as_json(self) -> dict[str, Any]:
        chain = self.chain
        return {
            "tools": list(chain.tools),
            "sessions": chain.sessions,
            "value": chain.value,
            "reason": self.reason,
        }


@dataclass(slots=True)
class LearningReport:
    """All that a round found, and why the rest was left."""

    sessions: int
    chains: list[CandidateChain] = field(default_factory=list[CandidateChain])
    drafts: list[JudgedDraft] = field(default_factory=list[JudgedDraft])
    refused: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    chosen: list[ChosenTool] = field(default_factory=list[ChosenTool])
    beyond_budget: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    """Chains that became proven tools which the budget of extra calls kept out."""
    unclassified: Counter[str] = field(default_factory=Counter[str])
    """Tools without a declared effect, and the number of chains dropped because of each."""

    @property
    def because(self) -> str:
        """Why nothing was learned."""
        if self.sessions == 0:
            return "there are no sessions"
        if not self.chains:
            return f"no two tools follow each other often enough in {self.sessions} sessions"
        if not self.drafts:
            return f"none of {len(self.chains)} chains could be wired; {self._most_common()}"
        passed = [draft for draft in self.drafts if draft.verdict.passed]
        if not passed:
            return f"none of {len(self.drafts)} drafts passed; the first: {self.drafts[0].verdict.failure_reasons[0]}"
        if self.beyond_budget:
            return f"of {len(passed)} proven tools, {len(self.beyond_budget)} make too many extra calls, none else pays"
        return f"none of {len(passed)} proven tools saves more than it costs"

    def left(self, most: int) -> list[DroppedChain]:
        """Return the chains that came to nothing, each with its reason, the most valuable first."""
        failed = {
            draft.chain.tools: draft.verdict.failure_reasons[0] for draft in self.drafts if not draft.verdict.passed
        }
        reasons = {**self.refused, **failed, **self.beyond_budget}
        found = [DroppedChain(chain, reasons[chain.tools]) for chain in self.chains if chain.tools in reasons]
        return sorted(found, key=lambda left: (-left.chain.value, left.chain.tools))[:most]

    @property
    def advice(self) -> str | None:
        """The command that would let more be learned."""
        if not self.unclassified:
            return None
        names = ", ".join(name for name, _ in self.unclassified.most_common(3))
        return (
            f"{self.unclassified.total()} chains were left because nobody said what {len(self.unclassified)} tools do "
            f"({names}{', …' if len(self.unclassified) > 3 else ''}) and they count as writes: look at "
            f"`twinraven tools classify --suggest` and run `{CLASSIFY}`"
        )

    def _most_common(self) -> str:
        if self.unclassified:
            return f"most: {self.unclassified.most_common(1)[0][0]} may write, and nobody said otherwise"
        return f"the first: {next(iter(self.refused.values()), '')}"


@dataclass(frozen=True, slots=True)
class LearningWindow:
    """The window of a round as a whole, where only a sample of its sessions is read in full."""

    sessions: int
    chains: list[CandidateChain]
    turns: int
    """The assistant's turns, divided by how many relevant sessions one of the sample stands for: savings are counted on
    the sample, and a tool's schema costs tokens in every turn."""
    relevant: int
    """The sessions that the sample was drawn from."""


class Learner:
    """One round over one set of sessions."""

    def __init__(self, config: LearningConfig, facts: ToolFacts, *, now: Callable[[], datetime]) -> None:
        self._config = config
        self._facts = facts
        self._now = now
        self.index = TraceIndex()

    async def learn(
        self,
        sessions: Sequence[SessionTrace],
        *,
        progress: Progress | None = None,
        window: LearningWindow | None = None,
    ) -> LearningReport:
        """Mine (unless the window has its chains), cross-fit, validate on the sessions not inferred from, choose."""
        say = progress or _silent
        report = LearningReport(len(sessions) if window is None else window.sessions)
        if not sessions:
            return report
        say(f"mining {report.sessions} sessions")
        report.chains = self.mine(sessions) if window is None else window.chains
        say(f"wiring {len(report.chains)} chains")
        votes = self.votes(sessions, window)
        share = 1.0 if window is None else len(sessions) / max(1, window.relevant)
        drafts = self._cross_fit_all(report, sessions, votes, self._affordable(report.chains, share))
        rehearsal = Rehearsal(RecordedAnswers(sessions), self.index, self._facts.writes)
        for number, (chain, fitted) in enumerate(drafts):
            say(f"replaying draft {number + 1} of {len(drafts)}: {fitted.tool.tool_id}")
            verdict = await validate(
                fitted.tool, fitted.judges, rehearsal, self._config.criteria, now=self._now(), votes=votes
            )
            report.drafts.append(JudgedDraft(chain, fitted.tool, verdict, fitted.judges))
        passed = [draft.tool for draft in report.drafts if draft.verdict.passed]
        say(f"weighing {len(passed)} proven tools")
        turns = sum(session.turns for session in sessions) if window is None else window.turns
        limits = SelectionLimits(self._config.max_tools, self._config.max_extra_calls)
        selection = await select(passed, sessions, rehearsal, self._config.prices, limits=limits, turns=turns)
        report.chosen = selection.chosen
        capped = {draft: tool for tool, draft in selection.capped_from.items()}
        report.drafts = [replace(draft, tool=capped.get(draft.tool, draft.tool)) for draft in report.drafts]
        kept_out = set(selection.beyond_budget)
        report.beyond_budget = {
            draft.chain.tools: f"proven, but with it extra calls would pass {limits.extra_share:.0%} of all calls"
            for draft in report.drafts
            if draft.tool in kept_out
        }
        return report

    def mine(self, sessions: Sequence[SessionTrace]) -> list[CandidateChain]:
        """Chains of different tools (repeats collapsed), and tools repeated in a row."""
        columns = columns_of(sessions)
        calls = [call for session in sessions for call in session.calls]
        mined = [
            item
            for config in (self._config.mining, repeated_pairs(self._config.mining))
            for item in mine_chains(columns, config, now=self._now(), prices=self._config.prices)
            if is_batch(item.chain.tools) != config.collapse_repeats
        ]
        return [replace(item.chain, sample_event_ids=_events(calls, item.rows)) for item in mined]

    def cross_fit(
        self, chain: CandidateChain, sessions: Sequence[SessionTrace], *, with_writes: bool = False
    ) -> CrossFitted | str:
        """Return one chain as a tool that the folds agree on, or the reason why not."""
        return self._cross_fit(chain, Folds(sessions), self.votes(sessions), with_writes=with_writes)

    def votes(self, sessions: Sequence[SessionTrace], window: LearningWindow | None = None) -> Votes:
        """Return the sessions as voters; those of a window are a sample of its relevant ones."""
        drawn = 1.0 if window is None or not window.sessions else window.relevant / window.sessions
        return Votes(sessions, drawn=drawn, trusted=self._config.trust_unnamed)

    def _affordable(self, chains: Sequence[CandidateChain], share: float) -> set[tuple[str, ...]]:
        """Return the chains whose calls a round looks at, the most valuable first; `share` of them are in the sample.

        Sessions can be made such that very many chains are frequent, and a round would go on for days.
        """
        left, found = self._config.max_work / share, set[tuple[str, ...]]()
        for chain in sorted(chains, key=lambda chain: (-chain.value, chain.tools)):
            left -= chain.occurrences * len(chain.tools)
            if left < 0:
                break
            found.add(chain.tools)
        return found

    def _cross_fit_all(
        self,
        report: LearningReport,
        sessions: Sequence[SessionTrace],
        votes: Votes,
        affordable: AbstractSet[tuple[str, ...]],
    ) -> list[tuple[CandidateChain, CrossFitted]]:
        """Return a tool for each chain that can be wired and only reads; two chains that end as one tool count once."""
        drafts: dict[bytes, tuple[CandidateChain, CrossFitted]] = {}
        folds = Folds(sessions)
        for chain in report.chains:
            if chain.tools not in affordable:
                most = f"{self._config.max_work:,} calls of candidate chains"
                report.refused[chain.tools] = f"a round looks at {most}, the most valuable first (learning.max_work)"
                continue
            fitted = self._proposable(self._cross_fit(chain, folds, votes, with_writes=self._config.list_writes))
            if isinstance(fitted, str):
                report.refused[chain.tools] = fitted
                blocking = next((tool for tool in chain.tools if self._facts.undeclared_write(tool)), None)
                if blocking is not None:
                    report.unclassified[blocking] += 1
                continue
            drafts.setdefault(essence(fitted.tool.definition), (chain, fitted))
        return list(drafts.values())

    def _proposable(self, fitted: CrossFitted | str) -> CrossFitted | str:
        """Return the tools that a round may propose: reads and, where asked for, a write per element of a list."""
        if isinstance(fitted, str) or fitted.tool.shape == "map":
            return fitted
        writing = next(
            (step.tool_id for step in fitted.tool.definition.steps if self._facts.writes(step.tool_id)), None
        )
        return (
            fitted if writing is None else f"{writing} may write; ask for it with `twinraven synthesize --with-writes`"
        )

    def _cross_fit(
        self, chain: CandidateChain, folds: Folds, votes: Votes, *, with_writes: bool = False
    ) -> CrossFitted | str:
        refusal = self._may_not(chain, with_writes=with_writes)
        if refusal is not None:
            return refusal
        fitted = self._fit(chain, folds, votes, find_repeats, self._batch) if is_batch(chain.tools) else None
        if not isinstance(fitted, CrossFitted):
            other = self._fit(chain, folds, votes, instances_of, self._chain)
            if isinstance(other, str) and other.startswith(UNSTABLE):
                # A condition that only some folds see must not cost the map: without it more is read, nothing is lost.
                whole = self._fit(chain, folds, votes, instances_of, partial(self._chain, narrow=False))
                other = other if isinstance(whole, str) else whole
            fitted = other if fitted is None or isinstance(other, CrossFitted) else fitted
        self.index.forget()
        return fitted

    def _fit(
        self,
        chain: CandidateChain,
        folds: Folds,
        votes: Votes,
        find: Callable[[Sequence[SessionTrace], Sequence[str], RunsOf], list[Instance]],
        compose: Callable[[CandidateChain, Sequence[Instance], Votes, MinimumEvidence], ToolCandidate | str],
    ) -> CrossFitted | str:
        found = find(folds.by_pair.holding(chain.tools), chain.tools, folds.by_pair.runs)

        def synthesize(some: AbstractSet[SessionTrace], least: MinimumEvidence) -> ToolCandidate | str:
            return compose(chain, [instance for instance in found if instance.session in some], votes, least)

        return folds.cross_fit(synthesize)

    def _may_not(self, chain: CandidateChain, *, with_writes: bool) -> str | None:
        """Why a chain must not become a tool; on request a write may stand last, and alone."""
        writing = [tool for tool in chain.tools if self._facts.writes(tool)]
        if writing and not with_writes:
            hint = f"; if it only reads, say so: {CLASSIFY}" if self._facts.undeclared_write(writing[0]) else ""
            return f"{writing[0]} may write; a tool that writes is only made on request{hint}"
        if writing and (writing != [chain.tools[-1]] or is_batch(chain.tools)):
            return f"{writing[0]} may write; a write can only stand last, and alone"
        return None

    def _chain(
        self,
        chain: CandidateChain,
        instances: Sequence[Instance],
        votes: Votes,
        least: MinimumEvidence,
        *,
        narrow: bool = True,
    ) -> ToolCandidate | str:
        if not instances:
            return "its calls are asked for together, in one turn, already"
        wiring = infer_wiring(chain.tools, instances, self.index, votes, self._facts, least=least, narrow=narrow)
        if len(wiring.steps) < 2:
            return wiring.ended or "nothing could be wired"
        if is_batch(chain.tools) and not needed_steps(wiring.steps[1]):
            return f"{chain.tools[0]} takes nothing from its own answer"
        tools = tuple(step.tool_id for step in wiring.steps)
        definition = compose_chain(wiring, _origin(chain), self._facts)
        try:
            compile_flow(definition)
        except InvalidInput as error:
            return f"its wiring cannot be written down: {error.message}"
        return ToolCandidate(definition, tools)

    def _batch(
        self, chain: CandidateChain, runs: Sequence[Instance], votes: Votes, least: MinimumEvidence
    ) -> ToolCandidate | str:
        sessions = {run.session for run in runs}
        contexts = len({run.context for run in runs})
        if len(sessions) < least.sessions or contexts < least.contexts:
            return f"only {len(sessions)} sessions in {contexts} tasks repeat {chain.tools[0]} with other arguments"
        if not votes.carries(sessions):
            return "only one of several principals does it"
        knew = {run.session for run in runs if self._knew_all(run)}
        if len(knew) < least.sessions:
            unknown = len(sessions) - len(knew)
            return f"in {unknown} of {len(sessions)} sessions the later arguments were not known at the start"
        names = given_arguments([(run, call) for run in runs for call in run.calls(0)], votes)
        usual = [run for run in runs if all(set(call.params) <= set(names) for call in run.calls(0))]
        if not usual:
            return f"no arguments of {chain.tools[0]} are given by enough sessions"
        definition = compose_batch(chain.tools[0], names, usual, _origin(chain), self._facts)
        return ToolCandidate(definition, chain.tools[:2])

    def _knew_all(self, run: Instance) -> bool:
        start = run.runs[0][0]
        knowledge = self.index.knowledge(run.session)
        turn = run.session.calls[start].turn
        return all(call.turn == turn or knowledge.knows_with(call.params, start) for call in run.calls(0))


def _silent(_: str) -> None:
    """Ignore progress."""


def _origin(chain: CandidateChain) -> DraftOrigin:
    return DraftOrigin(str(chain.chain_id), chain.discovered_at)


def _events(calls: Sequence[RecordedCall], rows: Sequence[int]) -> tuple[UUID, ...]:
    """Return the events behind sampled calls; traces from a file have none."""
    found = (calls[row].event_id for row in rows)
    return tuple(event_id for event_id in found if event_id is not None)
