"""Calling: what can be called, how it is reached, and the one path to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from twinraven.app.memory import Memory
from twinraven.foundation.errors import StorageError
from twinraven.storage import DEFAULT_TENANT, Transaction

if TYPE_CHECKING:
    from twinraven.calls import Approvals, Calls, Claims
    from twinraven.catalog import Catalog, DefinedCatalog, FunctionTools, HealthProbe, ServiceType, ToolEntry
    from twinraven.connectors import ServiceConnectors, UpstreamPool, UpstreamTools
    from twinraven.flow import DefinitionShelf, SynthesizedTool
    from twinraven.registry import LearnedTools
    from twinraven.vault import Vault

_logger = logging.getLogger("twinraven")


class Calling(Memory):
    """The catalogue's sources, the connectors, and the call path."""

    @cached_property
    def functions(self) -> FunctionTools:
        from twinraven.catalog import FunctionTools

        tools = FunctionTools(self._given)
        for module in self.settings.tools.modules:
            tools.add_module(module)
        return tools

    @cached_property
    def vault(self) -> Vault:
        """The vault, which keeps nothing that something is called."""
        vault = super().vault
        vault.register_names(self._name_holding)
        return vault

    @cached_property
    def shelf(self) -> DefinitionShelf:
        """Composites offered in this process alone."""
        from twinraven.flow import DefinitionShelf

        return DefinitionShelf()

    @cached_property
    def upstream_tools(self) -> UpstreamTools:
        """Tools of the MCP servers behind this home, as they were accepted."""
        from twinraven.connectors import UpstreamTools

        return UpstreamTools(
            self.database,
            audit=self.audit,
            is_taken=self._is_not_upstream,
            quarantines_words=self.settings.gateway.quarantine == "any",
            micros=self._micros,
        )

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
            default_timeout_ms=self.settings.calls.default_timeout_ms,
        )

    @cached_property
    def defined(self) -> DefinedCatalog:
        """Services and tools that are data: kept in the database, reached by connectors."""
        from twinraven.catalog import DefinedCatalog, audited
        from twinraven.connectors import check_connection

        defined = DefinedCatalog(
            self.database,
            witness=audited(self.audit),
            probes=self._probes,
            find_other=self._find_elsewhere,
            redact=self.redactor.redact,
            holds_secret=self._holds_secret,
            check_connection=check_connection,
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
        learned.subscribe(lambda tenant_id, _: _off_the_loop(defined.reload, tenant_id))
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

    @property
    def _probes(self) -> Mapping[ServiceType, HealthProbe]:
        return self.services.probes()

    async def _name_holding(self, tenant_id: str, user_id: str, text: str) -> str | None:
        """What the vault is told of a value before it keeps it."""
        from twinraven.catalog import KnownNames

        return await KnownNames(self.catalog, self.defined, self.learned.may_use).holding(tenant_id, user_id, text)

    def _find_elsewhere(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        """A tool of any source but the data-defined one, which must not take its name."""
        for find in (self.functions.find, self.upstream_tools.find_pinned, self.shelf.find):
            entry = find(tenant_id, tool_id)
            if entry is not None:
                return entry
        return None

    def _is_not_upstream(self, tenant_id: str, tool_id: str) -> bool:
        """Whether a source other than the servers has a tool of this name, which none of theirs may take."""
        sources = (self.functions, self.shelf, self.defined.source, self.learned)
        return any(source.find(tenant_id, tool_id) is not None for source in sources)


def _off_the_loop(work: Callable[[str], None], tenant_id: str) -> None:
    """Do it here, unless an event loop runs here, which must not wait for a database."""
    import asyncio

    def beside() -> None:
        try:
            work(tenant_id)
        except StorageError as error:
            _logger.warning("what is defined as data is as it was: %s", error.message)

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        work(tenant_id)
    else:
        loop.run_in_executor(None, beside)


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
