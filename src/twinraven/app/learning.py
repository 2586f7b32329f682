"""Learning: chains, drafts, learned tools, and the model that may be asked about them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from twinraven.app.calling import Calling
from twinraven.foundation.clock import from_micros
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.app.rounds import LearningRounds
    from twinraven.huginn import ChainStore, Counsel, Huginn, LearningConfig, MiningRun, SampleLimits
    from twinraven.registry import Maintenance, Registry, RegistryChange, Verification


class Learning(Calling):
    """Huginn and the registry."""

    @cached_property
    def chains(self) -> ChainStore:
        from twinraven.huginn import SqlChainStore

        return SqlChainStore(self.database)

    @cached_property
    def registry(self) -> Registry:
        from twinraven.registry import Registry, StoredChains

        return Registry(
            self.database,
            storage_dir=self.home / self.settings.registry.storage_dir,
            settings=self.settings.registry,
            find_tool=self.learned.find_any,
            chains=StoredChains(self.database),
            witness=self._witness,
            announce=self.learned.refresh,
            holds_secret=self._holds_secret,
            micros=self._micros,
        )

    @cached_property
    def verification(self) -> Verification:
        from twinraven.registry import Places, Verification

        places = Places(self.home / self.settings.registry.storage_dir)
        return Verification(self.database, places, witness=self._witness, announce=self.learned.refresh)

    @cached_property
    def maintenance(self) -> Maintenance:
        from twinraven.huginn import ChainSupport, LoggedAdoption
        from twinraven.registry import Maintenance

        gap = self.settings.muninn.session_idle_gap_s
        return Maintenance(
            self.registry,
            self.database,
            self.settings.registry,
            probe=ChainSupport(self.events, idle_gap_s=gap),
            adoption_probe=LoggedAdoption(self.events, idle_gap_s=gap),
            micros=self._micros,
        )

    @cached_property
    def huginn(self) -> Huginn:
        return self._make_huginn()

    @cached_property
    def rounds(self) -> LearningRounds:
        from twinraven.app.rounds import LearningRounds
        from twinraven.huginn import RoundStore

        # Each round runs on an event loop of its own, so it gets connections to a model of its own.
        return LearningRounds(RoundStore(self.database), self._make_huginn)

    def _make_huginn(self) -> Huginn:
        from twinraven.huginn import Huginn, ToolFacts

        return Huginn(
            self.events,
            self.chains,
            self.registry,
            lambda tenant_id: ToolFacts(self.catalog.entries(tenant_id)),
            config=self.learning_config,
            run=lambda: self.mining_run,
            now=lambda: from_micros(self._micros()),
            counsel=self._counsel,
        )

    @property
    def mining_run(self) -> MiningRun:
        """The run that the settings ask for, from now."""
        from twinraven.huginn import MiningRun

        gap = self.settings.muninn.session_idle_gap_s
        return MiningRun.of_settings(self.settings.mining, idle_gap_s=gap, now=from_micros(self._micros()))

    @property
    def learning_config(self) -> LearningConfig:
        """What a round of learning may look for and what it must reach, by the settings."""
        from dataclasses import replace

        from twinraven.huginn import Criteria, LearningConfig

        wanted = self.settings.validation
        criteria = Criteria(
            similarity=wanted.similarity,
            threshold=wanted.threshold,
            min_uses=wanted.min_uses,
            max_latency_ratio=wanted.max_latency_ratio,
        )
        defaults = LearningConfig(
            criteria=criteria, max_tools=self.settings.learning.max_tools, sample=self.sample_limits
        )
        asked = self.mining_run.config
        least = max(asked.min_sessions, defaults.mining.min_sessions)
        return replace(defaults, mining=replace(asked, collapse_repeats=True, min_sessions=least))

    @property
    def sample_limits(self) -> SampleLimits:
        """How much of the log a round of learning reads in full."""
        from twinraven.huginn import SampleLimits

        mining = self.settings.mining
        return SampleLimits(sessions=mining.sample_sessions, calls=mining.max_session_calls)

    @property
    def _counsel(self) -> Counsel | None:
        """The model that learning may ask, where one is configured."""
        wanted = self.settings.learning
        if wanted.model is None:
            return None
        from twinraven.connectors import AddressGuard, AddressRules, HttpDelivery, HttpTransport, ModelClient
        from twinraven.huginn import AdviceLimits, Counsel

        guard = AddressGuard(AddressRules.of(self.settings.connectors.allow_private))
        client = ModelClient(
            HttpDelivery(HttpTransport(guard)),
            model=wanted.model,
            protocol=wanted.model_protocol,
            url=wanted.model_url,
            reveal=None if wanted.model_secret is None else self._reveal_model_key,
            timeout_ms=round(wanted.model_timeout_s * 1000),
            max_tokens=wanted.model_max_tokens,
        )
        limits = AdviceLimits(wanted.model_max_calls, wanted.model_timeout_s, wanted.model_budget_s)
        return Counsel(client, self.redactor.redact, limits=limits, now=lambda: from_micros(self._micros()))

    async def _reveal_model_key(self, tenant_id: str) -> str:
        from twinraven.connectors import VaultSecrets

        return await VaultSecrets(self.vault).reveal(tenant_id, str(self.settings.learning.model_secret))

    def _witness(self, tx: Transaction, change: RegistryChange) -> None:
        """Every step in a learned tool's life is evidence, stored with the step itself."""
        from twinraven.audit import AuditEntry
        from twinraven.tenancy import actor_of

        self.audit.append(
            tx,
            AuditEntry(
                tenant_id=change.tenant_id,
                event_type=change.event_type,
                subject_type="learned_tool",
                subject_id=change.tool_id,
                actor=actor_of(tx, change.tenant_id, change.by),
                data={"version": change.version, **change.data},
            ),
        )
