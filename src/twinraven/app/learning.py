"""Opens learning: chains, drafts, learned tools, and the model that may be asked about them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from twinraven.app.asking import models
from twinraven.app.catalogue import catalog, learned
from twinraven.app.foundations import audit, database, holds_secret, redactor
from twinraven.app.memory import activity, events
from twinraven.app.parts import Home, Part
from twinraven.foundation.actors import SYSTEM
from twinraven.foundation.clock import from_micros
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.app.rounds import LearningRounds
    from twinraven.huginn import (
        ChainStore,
        Huginn,
        LearningConfig,
        LoggedAdoption,
        MiningRun,
        ModelAdvisor,
        SampleLimits,
    )
    from twinraven.models import ModelAnswer, Models
    from twinraven.registry import Maintenance, Registry, RegistryChange, Verification


@Part
def chains(home: Home) -> ChainStore:
    from twinraven.huginn import SqlChainStore

    return SqlChainStore(database(home))


class _LateChains:
    """Whether a chain is there, asked of Huginn's store; most commands of the registry never ask, nor load Huginn."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def exists(self, tenant_id: str, chain_id: str) -> bool:
        return await chains(self._home).exists(tenant_id, chain_id)


@Part
def registry(home: Home) -> Registry:
    from twinraven.registry import Registry

    return Registry(
        database(home),
        storage_dir=home.home / home.settings.registry.storage_dir,
        settings=home.settings.registry,
        find_tool=learned(home).find_any,
        chains=_LateChains(home),
        witness=partial(_witness, home),
        announce=learned(home).refresh,
        holds_secret=partial(holds_secret, home),
        micros=home.micros,
    )


@Part
def verification(home: Home) -> Verification:
    from twinraven.registry import ToolFolders, Verification

    places = ToolFolders(home.home / home.settings.registry.storage_dir)
    return Verification(database(home), places, witness=partial(_witness, home), announce=learned(home).refresh)


@Part
def adoption(home: Home) -> LoggedAdoption:
    """Open the adoption figures of learned tools in service, counted beside the log."""
    from twinraven.huginn import LoggedAdoption

    gap = home.settings.muninn.session_idle_gap_s
    return LoggedAdoption(database(home), events(home), activity(home), idle_gap_s=gap)


@Part
def maintenance(home: Home) -> Maintenance:
    from twinraven.huginn import ChainSupport
    from twinraven.registry import Maintenance

    gap = home.settings.muninn.session_idle_gap_s
    return Maintenance(
        registry(home),
        database(home),
        home.settings.registry,
        probe=ChainSupport(events(home), idle_gap_s=gap),
        adoption_probe=adoption(home),
        micros=home.micros,
    )


def _make_huginn(home: Home) -> Huginn:
    from twinraven.huginn import Huginn, ToolFacts

    return Huginn(
        events(home),
        chains(home),
        registry(home),
        lambda tenant_id: ToolFacts(catalog(home).entries(tenant_id)),
        config=learning_config(home),
        run=lambda: mining_run(home),
        now=lambda: from_micros(home.micros()),
        counsel=_counsel(home),
    )


huginn = Part(_make_huginn)


@Part
def rounds(home: Home) -> LearningRounds:
    from twinraven.app.rounds import LearningRounds
    from twinraven.huginn import RoundStore

    # Each round runs on an event loop of its own, so it gets connections to a model of its own.
    return LearningRounds(RoundStore(database(home), micros=home.micros), partial(_make_huginn, home))


def mining_run(home: Home) -> MiningRun:
    """Return the run that the settings ask for, from now."""
    from twinraven.huginn import MiningRun

    gap = home.settings.muninn.session_idle_gap_s
    return MiningRun.of_settings(home.settings.mining, idle_gap_s=gap, now=from_micros(home.micros()))


def learning_config(home: Home) -> LearningConfig:
    """Read the configuration of learning rounds from the settings."""
    from dataclasses import replace

    from twinraven.huginn import Criteria, LearningConfig

    wanted = home.settings.validation
    criteria = Criteria(
        similarity=wanted.similarity,
        threshold=wanted.threshold,
        min_uses=wanted.min_uses,
        max_latency_ratio=wanted.max_latency_ratio,
    )
    defaults = LearningConfig(
        criteria=criteria,
        max_tools=home.settings.learning.max_tools,
        max_extra_calls=home.settings.learning.max_extra_calls,
        max_work=home.settings.learning.max_work,
        list_writes=home.settings.learning.list_writes,
        trust_unnamed=home.settings.learning.trust_unnamed,
        sample=sample_limits(home),
    )
    asked = mining_run(home).config
    least = max(asked.min_sessions, defaults.mining.min_sessions)
    return replace(defaults, mining=replace(asked, collapse_repeats=True, min_sessions=least))


def sample_limits(home: Home) -> SampleLimits:
    """Read the sample limits of a learning round from the settings."""
    from twinraven.huginn import SampleLimits

    mining = home.settings.mining
    return SampleLimits(sessions=mining.sample_sessions, calls=mining.max_session_calls)


def _counsel(home: Home) -> ModelAdvisor | None:
    """Let learning ask the configured model, where the settings allow it to."""
    wanted = home.settings.learning
    if not wanted.ask_model:
        return None
    from twinraven.huginn import AdviceLimits, ModelAdvisor

    limits = AdviceLimits(wanted.model_max_calls, home.settings.model.timeout_s, wanted.model_budget_s)
    advisor = _ModelAdvisor(models(home))
    return ModelAdvisor(advisor, redactor(home).redact, limits=limits, now=lambda: from_micros(home.micros()))


class _ModelAdvisor:
    """The model port as Huginn sees it; its questions are recorded in a session of their own."""

    def __init__(self, asked: Models) -> None:
        self._models = asked
        self.name = asked.require()

    async def ask(self, tenant_id: str, *, system: str, prompt: str, schema: Mapping[str, Any]) -> ModelAnswer:
        from twinraven.calls import CallContext
        from twinraven.models import ModelQuestion

        question = ModelQuestion.of(prompt, system=system, schema=schema)
        return await self._models.ask(question, CallContext("model:learning", actor=SYSTEM), tenant_id=tenant_id)


def _witness(home: Home, tx: Transaction, change: RegistryChange) -> None:
    """Append each step in a learned tool's life to the audit log, in the transaction of the step itself."""
    from twinraven.audit import NewAuditEntry
    from twinraven.tenancy import actor_of

    audit(home).append(
        tx,
        NewAuditEntry(
            tenant_id=change.tenant_id,
            event_type=change.event_type,
            subject_type="learned_tool",
            subject_id=change.tool_id,
            actor=actor_of(tx, change.tenant_id, change.by),
            data={"version": change.version, **change.data},
        ),
    )
