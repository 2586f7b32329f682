"""Implements Huginn's use cases on a tenant's log: synthesise a chain, validate a draft, run a round of learning.

Sessions are split the same way every time, so that what synthesis saw never judges it. A round is idempotent: a tool
that would come out as it already is makes no new draft, and one that a person rejected is not proposed again on the
same evidence. Where a model is configured, it is asked only about what would be a new draft.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.huginn.advice.model_advisor import AdviceRound, ModelAdvisor, TrialRecord
from twinraven.huginn.advice.record import AdviceRecord, repeats
from twinraven.huginn.chains import CandidateChain
from twinraven.huginn.crossfit import essence
from twinraven.huginn.evidence import load_evidence, mine_both_ways
from twinraven.huginn.learning import Learner, LearningConfig, LearningReport, LearningWindow, Progress
from twinraven.huginn.mining_run import MiningRun, load_scripts
from twinraven.huginn.rehearsal import RecordedAnswers, Rehearsal, ToolCandidate
from twinraven.huginn.selection import ChosenTool, ToolWorth, measure, worth
from twinraven.huginn.splitting import best_split, split_sessions
from twinraven.huginn.store import ChainStore
from twinraven.huginn.synthesis.rewording import goal_first
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import SessionTrace
from twinraven.huginn.validation.judge import validate
from twinraven.huginn.validation.model import ValidationResult
from twinraven.muninn import EventStore
from twinraven.registry import (
    BRING_TOOLS,
    NOT_TAKEN,
    Draft,
    Registry,
    SynthesizedTool,
    ToolRecord,
    ToolStatus,
    missing_text,
)

STUDY_SHARE = 0.6
"""What a model may be shown of the record; the rest judges what it proposed."""

Novelty = Literal["awaiting", "promoted", "known", "rejected", "unproven"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The outcome of one tool that a round selected."""

    tool_id: str
    version: int
    novelty: Novelty
    picture: SynthesizedTool
    chosen: ChosenTool
    note: str = ""


@dataclass(slots=True)
class Round:
    """One round of learning."""

    report: LearningReport
    proposals: list[Proposal] = field(default_factory=list[Proposal])
    model: str | None = None
    """The model that could be asked in this round."""
    advice: list[AdviceRecord] = field(default_factory=list[AdviceRecord])
    """What it was asked, and what became of its answers."""


@dataclass(slots=True)
class _Evidence:
    """A tenant's sessions as one use case reads them: split once, replayed by one rehearsal."""

    tenant_id: str
    sessions: list[SessionTrace]
    study: list[SessionTrace]
    judge: list[SessionTrace]
    learner: Learner
    facts: ToolFacts
    config: LearningConfig
    window: LearningWindow
    _rehearsal: Rehearsal | None = None

    @property
    def rehearsal(self) -> Rehearsal:
        if self._rehearsal is None:
            self._rehearsal = Rehearsal(RecordedAnswers(self.sessions), self.learner.index, self.facts.writes)
        return self._rehearsal

    @property
    def trial(self) -> TrialRecord:
        votes = self.learner.votes(self.sessions, self.window)
        return TrialRecord(
            self.study, self.judge, self.rehearsal, self.config.criteria, self.facts, self.learner.index, votes
        )

    async def worth(self, tool: ToolCandidate) -> ToolWorth:
        """Return the savings of the tool alone."""
        savings = (await measure([tool], self.sessions, self.rehearsal)).tools[tool]
        return worth(savings, tool, self.window.turns, self.config.prices)


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
        run: Callable[[], MiningRun],
        now: Callable[[], datetime],
        counsel: ModelAdvisor | None = None,
    ) -> None:
        self._events = events
        self._chains = chains
        self._registry = registry
        self._facts = facts
        self._config = config
        self._run = run
        self._now = now
        self._counsel = counsel

    async def synthesize(
        self, tenant_id: str, chain_id: str, *, with_writes: bool = False, with_model: bool = True
    ) -> Draft:
        """Return a stored chain as a numbered draft, or an error that says why it cannot be one."""
        chain = await self._chains.chain(tenant_id, chain_id)
        record = await self._evidence(tenant_id, calling=chain.tools[:1])
        fitted = record.learner.cross_fit(chain, record.sessions, with_writes=with_writes)
        if isinstance(fitted, str):
            raise InvalidInput(f"{' → '.join(chain.tools)} cannot become a tool: {fitted}", field="chain_id")
        tool = fitted.tool
        evidence = evidence_hash(tool.definition)
        counsel = self._counsel.begin() if self._counsel is not None and with_model else None
        if counsel is not None and await self._is_new(tenant_id, tool.definition):
            tool = (await counsel.advise(tenant_id, tool, record.trial)).tool
        return await self._registry.draft(tenant_id, tool.definition, evidence_hash=evidence)

    async def validate(
        self, tenant_id: str, tool_id: str, *, version: int | None = None
    ) -> tuple[Draft, ValidationResult]:
        """Replay a draft on the sessions it was not inferred from."""
        draft = await self._draft(tenant_id, tool_id, version)
        record = await self._evidence(tenant_id, calling=[draft.definition.steps[0].tool_id])
        return draft, await self._judge(record, draft.definition)

    async def register(self, tenant_id: str, draft: Draft, verdict: ValidationResult, *, by: str) -> None:
        """Take a draft that passed into the registry, with what it would have saved."""
        record = await self._evidence(tenant_id, calling=[draft.definition.steps[0].tool_id])
        earned = (await record.worth(as_learned(draft.definition))).as_json()
        await self._registry.register(tenant_id, draft.definition, verdict.as_json(), by=by, savings=earned)

    async def learn(
        self,
        tenant_id: str,
        *,
        by: str,
        progress: Progress | None = None,
        with_model: bool = True,
        list_writes: bool = False,
    ) -> Round:
        """Return the whole round; what is new and proven waits in the registry for a decision.

        With `list_writes`, or where the settings say so, tools that write for each element of a list are proposed too.
        """
        config = replace(self._config, list_writes=list_writes or self._config.list_writes)
        record = await self._evidence(tenant_id, note=progress, config=config)
        report = await record.learner.learn(record.sessions, progress=progress, window=record.window)
        counsel = self._counsel.begin() if self._counsel is not None and with_model else None
        outcome = Round(report, model=None if counsel is None else counsel.model)
        for chosen in report.chosen:
            if counsel is not None and progress is not None:
                progress(f"proposing {chosen.tool.tool_id}, with the words of {counsel.model} if it is new")
            outcome.proposals.append(await self._propose(record, chosen, report, by=by, counsel=counsel))
        outcome.advice = [] if counsel is None else counsel.records
        return outcome

    async def _propose(
        self, record: _Evidence, chosen: ChosenTool, report: LearningReport, *, by: str, counsel: AdviceRound | None
    ) -> Proposal:
        tenant_id, definition = record.tenant_id, chosen.tool.definition
        known = await self._known(tenant_id, definition)
        if known is not None:
            return await self._known_proposal(record, chosen, known, by=by, counsel=counsel)
        missing = self._registry.missing_tools(tenant_id, definition)
        draft_of = next(draft for draft in report.drafts if draft.tool is chosen.tool)
        verdict = draft_of.verdict
        if counsel is not None and not missing and await self._is_new(tenant_id, definition):
            advised = await counsel.advise(tenant_id, chosen.tool, record.trial)
            verdict = advised.verdict or verdict
            chosen = replace(chosen, tool=advised.tool, alone=await record.worth(advised.tool))
        await self._keep_chain(tenant_id, draft_of.chain)
        try:
            draft = await self._registry.draft(
                tenant_id, chosen.tool.definition, evidence_hash=evidence_hash(definition)
            )
        except Conflict as error:
            return Proposal(definition.tool_id, 0, "rejected", definition, chosen, error.message)
        if essence(draft.definition) != essence(chosen.tool.definition):
            # Drafted before on the same evidence, and wired otherwise with a model's help: it is judged as it is.
            chosen, verdict = await self._judged_again(record, chosen, draft)
            if not verdict.passed:
                note = verdict.failure_reasons[0]
                return Proposal(draft.tool_id, draft.version, "unproven", draft.definition, chosen, note)
        verdict = replace(verdict, tool_id=draft.tool_id, tool_version=draft.version)
        state = await self._registry.register(
            tenant_id, draft.definition, verdict.as_json(), by=by, savings=chosen.alone.as_json()
        )
        novelty: Novelty = "promoted" if _serves(state, draft) else "awaiting"
        note = f"{missing_text(missing)}: {BRING_TOOLS}" if missing else ""
        return Proposal(draft.tool_id, draft.version, novelty, draft.definition, chosen, note)

    async def _known_proposal(
        self, record: _Evidence, chosen: ChosenTool, known: Draft, *, by: str, counsel: AdviceRound | None
    ) -> Proposal:
        """Return what there is already; in service and passed over by agents, the same tool in other words."""
        same = Proposal(known.tool_id, known.version, "known", known.definition, chosen)
        tool = (await self._registry.tool(record.tenant_id, known.tool_id)).record
        if NOT_TAKEN not in tool.flags or tool.current_version != known.version or not tool.is_in_service:
            return same
        words = await self._other_words(record, known.definition, counsel)
        if words == known.definition.description:
            note = f"agents pass it over in these words, too; end it with `twinraven retire {known.tool_id}`"
            return replace(same, note=note)
        definition = replace(known.definition, description=words)
        try:
            # The words are the evidence here: a person who rejected them is not asked again.
            evidence = content_hash(canonical_json([evidence_hash(definition), words]))
            draft = await self._registry.draft(record.tenant_id, definition, evidence_hash=evidence)
        except Conflict as error:
            return replace(same, note=error.message)
        chosen, verdict = await self._judged_again(record, chosen, draft)
        if not verdict.passed:
            return replace(same, note=f"it would get other words, but {verdict.failure_reasons[0]}")
        verdict = replace(verdict, tool_id=draft.tool_id, tool_version=draft.version)
        savings = chosen.alone.as_json()
        state = await self._registry.register(
            record.tenant_id, draft.definition, verdict.as_json(), by=by, savings=savings
        )
        novelty: Novelty = "promoted" if _serves(state, draft) else "awaiting"
        taken = tool.flags[NOT_TAKEN]
        note = f"in other words, because {taken.get('taken')} of {taken.get('fitted')} sessions it fits in took it"
        return Proposal(draft.tool_id, draft.version, novelty, draft.definition, chosen, note)

    async def _other_words(self, record: _Evidence, definition: SynthesizedTool, counsel: AdviceRound | None) -> str:
        """Return a description that the model proposes, where there is one and it has another; else one by rule."""
        if counsel is not None:
            advised = await counsel.advise(record.tenant_id, as_learned(definition), record.trial)
            if advised.tool.definition.description != definition.description:
                return advised.tool.definition.description
        return goal_first(definition)

    async def _judged_again(
        self, record: _Evidence, chosen: ChosenTool, draft: Draft
    ) -> tuple[ChosenTool, ValidationResult]:
        tool = as_learned(draft.definition)
        return replace(chosen, tool=tool, alone=await record.worth(tool)), await self._judge(record, draft.definition)

    async def _judge(self, record: _Evidence, definition: SynthesizedTool) -> ValidationResult:
        """Replay on the sessions that the folds leave to judge; what they wire otherwise, on the part held out."""
        tool = as_learned(definition)
        judges: Sequence[SessionTrace] = record.judge
        try:
            chain = await self._chains.chain(record.tenant_id, definition.source_chain_id)
        except NotFound:
            chain = None
        fitted = None if chain is None else record.learner.cross_fit(chain, record.sessions, with_writes=True)
        if (
            fitted is not None
            and not isinstance(fitted, str)
            and essence(fitted.tool.definition) == essence(definition)
        ):
            judges = fitted.judges
        votes = record.learner.votes(record.sessions, record.window)
        return await validate(tool, judges, record.rehearsal, self._config.criteria, now=self._now(), votes=votes)

    async def _is_new(self, tenant_id: str, definition: SynthesizedTool) -> bool:
        """Return whether a model may be asked: this evidence has neither a draft nor a person's no."""
        evidence = evidence_hash(definition)
        if await self._registry.rejection(tenant_id, definition, evidence) is not None:
            return False
        return all(draft.evidence_hash != evidence for draft in await self._registry.drafts(tenant_id))

    async def _known(self, tenant_id: str, definition: SynthesizedTool) -> Draft | None:
        """Return the live draft this synthesis would only repeat."""
        for draft in reversed(await self._registry.drafts(tenant_id)):
            if repeats(draft.definition, definition) and not await self._gone(tenant_id, draft):
                return draft
        return None

    async def _gone(self, tenant_id: str, draft: Draft) -> bool:
        """Return whether a draft came to nothing that still stands: never registered, rejected, or retired."""
        try:
            tool = await self._registry.tool(tenant_id, draft.tool_id)
        except NotFound:
            return True
        version = tool.version(draft.version)
        return tool.record.is_retired or version is None or version.status is ToolStatus.DRAFT

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

    async def _evidence(
        self,
        tenant_id: str,
        *,
        note: Progress | None = None,
        calling: Sequence[str] = (),
        config: LearningConfig | None = None,
    ) -> _Evidence:
        run = replace(self._run(), config=self._config.mining)
        loaded = await load_evidence(
            self._events, tenant_id, run, now=self._now(), limits=self._config.sample, note=note, calling=calling
        )
        of_scripts = replace(loaded.run, of="scripts")
        scripts = await load_scripts(self._events, tenant_id, of_scripts)
        sessions = [*loaded.log.sessions, *scripts]
        study, judge = _split(sessions)
        facts = self._facts(tenant_id)
        config = config or self._config
        learner = Learner(config, facts, now=self._now)
        chains = [*loaded.chains, *(mine_both_ways(scripts, of_scripts, now=self._now()) if scripts else ())]
        window = LearningWindow(
            sessions=loaded.sessions + len(scripts),
            chains=chains,
            turns=round(loaded.turns / loaded.scale),
            relevant=loaded.relevant + len(scripts),
        )
        return _Evidence(tenant_id, sessions, study, judge, learner, facts, config, window)


def _split(sessions: list[SessionTrace]) -> tuple[list[SessionTrace], list[SessionTrace]]:
    if not sessions:
        return [], []
    return split_sessions(sessions, best_split(sessions), share=STUDY_SHARE, salt="synthesis")


def _serves(state: ToolRecord, draft: Draft) -> bool:
    """Return whether this very version is in service, and not an earlier one."""
    return state.is_in_service and state.current_version == draft.version


def as_learned(definition: SynthesizedTool) -> ToolCandidate:
    """Return a definition with the chain it came from."""
    chain: list[Any] = definition.evidence.get("chain") or [step.tool_id for step in definition.steps]
    return ToolCandidate(definition, tuple(str(tool) for tool in chain))


def evidence_hash(definition: SynthesizedTool) -> str:
    """Hash the evidence of a draft: its wiring and the samples for and against it."""
    return content_hash(canonical_json([definition.evidence, essence(definition).decode()]))
