"""The only wiring: a home folder and its settings become a running TwinRaven.

Every door (command line, gateway, API, demo, tests) opens the same object and finds the same parts on it. Parts are
built on first use, so that a command which only lists sessions pays for nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinraven.foundation.clock import from_micros, now_micros
from twinraven.foundation.errors import SchemaOutdated
from twinraven.foundation.settings import Settings, load_settings
from twinraven.storage import (
    DEFAULT_TENANT,
    Database,
    Transaction,
    check_login,
    open_database,
    pending_migrations,
)

if TYPE_CHECKING:
    from twinraven.audit import AuditLog, KeyRing, Signer
    from twinraven.calls import Approvals, Calls, Claims
    from twinraven.catalog import Catalog, DefinedCatalog, FunctionTools, HealthProbe, ServiceType, ToolEntry
    from twinraven.connectors import ServiceConnectors, UpstreamPool, UpstreamTools
    from twinraven.flow import DefinitionShelf, SynthesizedTool
    from twinraven.huginn import ChainStore, Counsel, Huginn
    from twinraven.muninn import Collector, EncodingRules, EventStore, Importer, Retention
    from twinraven.registry import LearnedTools, Maintenance, Registry, RegistryChange, Verification
    from twinraven.tenancy import Tenancy, TenancyChange
    from twinraven.vault import Redactor, TenantKeys, Vault


class TwinRaven:
    """One home, opened."""

    def __init__(
        self,
        settings: Settings,
        *,
        functions: Iterable[Callable[..., Any]] = (),
        micros: Callable[[], int] = now_micros,
    ) -> None:
        self.settings = settings
        self._given = tuple(functions)
        self._micros = micros

    @property
    def home(self) -> Path:
        return self.settings.home

    @cached_property
    def database(self) -> Database:
        return open_database(self.settings.storage.url, admin_url=self.settings.storage.admin_url)

    # Keys, evidence and secrets.

    @cached_property
    def signing_keys(self) -> KeyRing:
        from twinraven.audit import KeyRing

        return KeyRing(self.home / "keys" / "audit.keys", variable="TWINRAVEN_AUDIT_KEY")

    @cached_property
    def signer(self) -> Signer:
        from twinraven.audit import Signer

        return Signer(self.signing_keys)

    @cached_property
    def audit(self) -> AuditLog:
        from twinraven.audit import AuditLog

        clean = self.redactor
        return AuditLog(self.database, self.signer, redact=clean.redact, redact_names=clean.redact_known)

    @cached_property
    def key_ring(self) -> KeyRing:
        from twinraven.audit import KeyRing

        return KeyRing(self.home / "keys" / "kek.keys", variable="TWINRAVEN_KEK")

    @cached_property
    def tenant_keys(self) -> TenantKeys:
        from twinraven.audit import KeyRing
        from twinraven.vault import TenantKeys

        # A ring of its own: tokens and request hashes must outlive every rotation of the key-encryption key.
        return TenantKeys(KeyRing(self.home / "keys" / "tokens.keys", variable="TWINRAVEN_TOKEN_KEY"))

    @cached_property
    def redactor(self) -> Redactor:
        from twinraven.vault import Redactor, StoredValues

        detect = self.settings.muninn.redact_high_entropy
        return Redactor(self.tenant_keys, StoredValues(self.database, self.key_ring), detect=detect)

    @cached_property
    def vault(self) -> Vault:
        from twinraven.vault import Vault

        return Vault(self.database, self.key_ring, audit=self.audit, watch=self.redactor)

    @cached_property
    def tenancy(self) -> Tenancy:
        from twinraven.tenancy import Tenancy

        return Tenancy(self.database, note=self._note_tenancy)

    # Memory.

    @cached_property
    def events(self) -> EventStore:
        from twinraven.muninn import SqlEventStore

        return SqlEventStore(self.database)

    @cached_property
    def collector(self) -> Collector:
        from twinraven.muninn import Collector

        return Collector(
            self.database,
            rules=self._rules,
            redact=self.redactor.redact,
            redact_names=self.redactor.redact_known,
            queue_size=self.settings.muninn.queue_size,
            micros=self._micros,
        )

    @cached_property
    def importer(self) -> Importer:
        from twinraven.muninn import Importer

        clean = self.redactor
        return Importer(self.database, rules=self._rules, redact=clean.redact, redact_names=clean.redact_known)

    @cached_property
    def retention(self) -> Retention:
        from twinraven.muninn import Retention, RingSigner

        return Retention(self.database, audit=self.audit, signer=RingSigner(self.signing_keys))

    # What can be called, and calling it.

    @cached_property
    def functions(self) -> FunctionTools:
        from twinraven.catalog import FunctionTools

        tools = FunctionTools(self._given)
        for module in self.settings.tools.modules:
            tools.add_module(module)
        return tools

    @cached_property
    def shelf(self) -> DefinitionShelf:
        """Composites offered in this process alone."""
        from twinraven.flow import DefinitionShelf

        return DefinitionShelf()

    @cached_property
    def upstream_tools(self) -> UpstreamTools:
        """Tools of the MCP servers behind this home, as they were accepted."""
        from twinraven.connectors import UpstreamTools

        return UpstreamTools(self.database, audit=self.audit, micros=self._micros)

    @cached_property
    def upstreams(self) -> UpstreamPool:
        """Those servers themselves."""
        from twinraven.connectors import (
            SERVERS_FILE,
            AuditJournal,
            UpstreamLimits,
            UpstreamPool,
            VaultSecrets,
            load_servers,
        )

        wanted = self.settings.gateway
        return UpstreamPool(
            load_servers(self.settings.servers, self.home / SERVERS_FILE),
            self.upstream_tools,
            secrets=VaultSecrets(self.vault),
            journal=AuditJournal(self.audit),
            limits=UpstreamLimits(max_bytes=wanted.max_message_bytes, refresh_s=wanted.refresh_s),
        )

    @cached_property
    def defined(self) -> DefinedCatalog:
        """Services and tools that are data: kept in the database, reached by connectors."""
        from twinraven.catalog import DefinedCatalog, audited

        defined = DefinedCatalog(
            self.database,
            witness=audited(self.audit),
            probes=self._probes,
            find_other=self._find_elsewhere,
            redact=self.redactor.redact,
            holds_secret=self._holds_secret,
            micros=self._micros,
        )
        self.vault.register_usage(defined.tools.secret_users)
        defined.tools.register_usage(_learned_callers)
        return defined

    @cached_property
    def services(self) -> ServiceConnectors:
        """What speaks to services: REST, models, graphs."""
        from twinraven.connectors import (
            AddressGuard,
            AddressRules,
            ProgramRules,
            ServiceConnectors,
            ServiceServers,
            UpstreamLimits,
        )

        wanted = self.settings.connectors
        guard = AddressGuard(AddressRules.of(wanted.allow_private))
        limits = UpstreamLimits(max_bytes=self.settings.gateway.max_message_bytes)
        return ServiceConnectors(
            lambda: self.defined.bindings,
            self.vault,
            guard,
            servers=ServiceServers(guard, ProgramRules.of(wanted.allow_programs), limits=limits),
            timeout_ms=self.settings.calls.default_timeout_ms,
        )

    @cached_property
    def learned(self) -> LearnedTools:
        """Learned tools in service."""
        from twinraven.registry import LearnedTools

        defined = self.defined.source
        learned = LearnedTools(
            self.database, [self.functions, self.upstream_tools, self.shelf, defined], may_call=defined.may_call
        )
        learned.subscribe(lambda tenant_id, _: defined.reload(tenant_id))
        return learned

    @cached_property
    def catalog(self) -> Catalog:
        from twinraven.catalog import Catalog

        return Catalog(self.functions, self.upstream_tools, self.shelf, self.defined.source, self.learned)

    def offer(self, definitions: Iterable[SynthesizedTool], *, tenant_id: str = DEFAULT_TENANT) -> None:
        """Offer composites to this process's callers without registering them."""
        self.shelf.offer(definitions, self.catalog, tenant_id=tenant_id)

    @cached_property
    def approvals(self) -> Approvals:
        """What policy leaves to people: their requests and decisions."""
        from twinraven.calls import Approvals

        return Approvals(
            self.database,
            audit=self.audit,
            ttl_s=self.settings.policy.approval_ttl_s,
            hash_body=self._hash_request,
            redact=self.redactor.redact,
            redact_names=self.redactor.redact_known,
            micros=self._micros,
        )

    @cached_property
    def claims(self) -> Claims:
        """Keys under which something happens once."""
        from twinraven.calls import Claims

        return Claims(
            self.database,
            hash_body=self._hash_request,
            redact=self.redactor.redact,
            redact_names=self.redactor.redact_known,
            micros=self._micros,
        )

    @cached_property
    def calls(self) -> Calls:
        from twinraven.calls import CallEvidence, Calls, RulesGate, read_rules
        from twinraven.connectors import McpConnector, PythonConnector
        from twinraven.flow import FlowConnector

        settings = self.settings.calls
        calls = Calls(
            self.catalog,
            self.collector,
            self.claims,
            [PythonConnector(self.functions, threads=settings.python_threads)],
            gate=RulesGate(read_rules(self.settings.policy.rules)),
            approver=self.approvals,
            evidence=CallEvidence(self.audit),
            concealment=self.redactor,
            default_timeout_ms=settings.default_timeout_ms,
            micros=self._micros,
        )
        for connector in self.services.connectors():
            calls.add_connector(connector)
        calls.add_connector(McpConnector(lambda: self.upstreams, self.upstream_tools))
        calls.add_connector(FlowConnector(calls, self.catalog, _Definitions(self.shelf, self.learned)))
        return calls

    # Learning.

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
        from twinraven.huginn import ChainSupport
        from twinraven.registry import Maintenance

        probe = ChainSupport(self.events, idle_gap_s=self.settings.muninn.session_idle_gap_s)
        return Maintenance(self.registry, self.database, self.settings.registry, probe=probe, micros=self._micros)

    @cached_property
    def huginn(self) -> Huginn:
        from twinraven.huginn import Criteria, Huginn, LearningConfig, ToolFacts

        wanted = self.settings.validation
        criteria = Criteria(
            similarity=wanted.similarity,
            threshold=wanted.threshold,
            min_uses=wanted.min_uses,
            max_latency_ratio=wanted.max_latency_ratio,
        )
        return Huginn(
            self.events,
            self.chains,
            self.registry,
            lambda tenant_id: ToolFacts(self.catalog.entries(tenant_id)),
            config=LearningConfig(criteria=criteria),
            idle_gap_s=self.settings.muninn.session_idle_gap_s,
            now=lambda: from_micros(self._micros()),
            counsel=self._counsel,
        )

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

    @asynccontextmanager
    async def watching(self, *, tenant_id: str | None = None) -> AsyncGenerator[None]:
        """Begin with what is stored now, and look after services while the block lasts; of all tenants, or of one."""
        from twinraven.catalog import HealthWatch

        async def tenants() -> list[str]:
            return [each.tenant_id for each in await self.tenancy.tenants()] if tenant_id is None else [tenant_id]

        for each in await tenants():
            await self.learned.refresh(each)
            await self.defined.source.refresh(each)
        every_s = self.settings.connectors.health_every_s
        if every_s == 0:
            yield
            return
        async with HealthWatch(self.defined.health, tenants, every_s=every_s).running():
            yield

    async def aclose(self) -> None:
        """`close`, inside a loop that goes on: connections to services are closed first, and nothing blocks it."""
        import asyncio

        if "services" in self.__dict__:
            await self.services.aclose()
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Write what is queued and let go of everything; connections to services end with the loop that opened them."""
        for part in ("collector", "learned", "redactor", "database"):
            if part in self.__dict__:
                getattr(self, part).close()

    def __enter__(self) -> TwinRaven:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _rules(self) -> EncodingRules:
        from twinraven.muninn import EncodingRules

        muninn = self.settings.muninn
        return EncodingRules(
            store_outputs=muninn.store_outputs,
            summary_chars=0 if muninn.summaries == "off" else muninn.summary_chars,
        )

    def _holds_secret(self, tenant_id: str, text: bytes) -> bool:
        return self.redactor.redact_known(tenant_id, text) is not text

    @property
    def _probes(self) -> Mapping[ServiceType, HealthProbe]:
        return self.services.probes()

    def _find_elsewhere(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """A tool of any source but the data-defined one, which must not take its name."""
        for source in (self.functions, self.upstream_tools, self.shelf):
            entry = source.find(tenant_id, tool_id)
            if entry is not None:
                return entry
        return None

    def _hash_request(self, tenant_id: str, body: bytes) -> str:
        return self.tenant_keys.hash(tenant_id, "idempotency", body)

    def _witness(self, tx: Transaction, change: RegistryChange) -> None:
        """Every step in a learned tool's life is evidence, stored with the step itself."""
        from twinraven.audit import AuditEntry

        self.audit.append(
            tx,
            AuditEntry(
                tenant_id=change.tenant_id,
                event_type=change.event_type,
                subject_type="learned_tool",
                subject_id=change.tool_id,
                actor_type="system" if change.by == "system" else "human",
                actor_id=change.by,
                data={"version": change.version, **change.data},
            ),
        )

    def _note_tenancy(self, tx: Transaction, change: TenancyChange) -> None:
        """So is every change of who may see what."""
        from twinraven.audit import AuditEntry

        self.audit.append(
            tx,
            AuditEntry(
                tenant_id=change.tenant_id,
                event_type=change.event_type,
                subject_type=change.subject_type,
                subject_id=change.subject_id,
                actor_type="system" if change.by is None else "human",
                actor_id=None if change.by is None else change.by.user_id,
                data=change.data,
            ),
        )


def _learned_callers(tx: Transaction, tenant_id: str, key: str) -> list[str]:
    """Asked when a tool is to be deleted; until then nothing of the registry is loaded."""
    from twinraven.registry import callers_of

    return callers_of(tx, tenant_id, key)


class _Definitions:
    """The definitions behind composite tools: those offered here first, then those in the registry."""

    def __init__(self, shelf: DefinitionShelf, learned: LearnedTools) -> None:
        self._shelf = shelf
        self._learned = learned

    def definition(self, tenant_id: str, tool_id: str) -> SynthesizedTool:
        if self._shelf.find(tenant_id, tool_id) is not None:
            return self._shelf.definition(tenant_id, tool_id)
        return self._learned.definition(tenant_id, tool_id)


def open_home(
    home: Path | None = None,
    *,
    functions: Iterable[Callable[..., Any]] = (),
    micros: Callable[[], int] = now_micros,
) -> TwinRaven:
    """Open a home that exists; the embedded database is brought up to date, a shared one must be."""
    raven = TwinRaven(load_settings(home), functions=functions, micros=micros)
    with ExitStack() as unless_opened:
        unless_opened.callback(raven.close)
        pending = pending_migrations(raven.database)
        if pending and raven.database.dialect == "postgres":
            raise SchemaOutdated(f"the database lacks {', '.join(pending)}", fix="twinraven db upgrade")
        if pending:
            raven.database.migrate()
        check_login(raven.database)
        unless_opened.pop_all()
    return raven
