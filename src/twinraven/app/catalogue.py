"""Opens the catalogue: the sources of tools in their order, the connectors, and the secrets they use."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from twinraven.app.foundations import audit, changes, database, holds_secret, key_ring, redactor
from twinraven.app.knowing import memory_tools, thinking_tools
from twinraven.app.parts import Home, Part
from twinraven.app.planning import plan_tools
from twinraven.foundation.errors import StorageError
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.catalog import Catalog, DefinedCatalog, FunctionTools, ToolEntry, ToolSource
    from twinraven.connectors import ModelClient, ServiceConnectors, UpstreamPools, UpstreamTools
    from twinraven.conversations import ChatTools
    from twinraven.flow import LocalDefinitions
    from twinraven.models import ModelTool
    from twinraven.processes import ProcessTools
    from twinraven.registry import LearnedTools
    from twinraven.vault import Vault

_logger = logging.getLogger("twinraven")


def _sources(home: Home) -> tuple[ToolSource, ...]:
    """List where tools come from, in order of precedence; learned tools, made of the others, come after these."""
    memory = (memory_tools(home),) if home.settings.knowledge.tools else ()
    built_in = (model_tool(home), chat_tools(home), plan_tools(home), thinking_tools(home), *memory)
    return *built_in, functions(home), upstream_tools(home), shelf(home), defined(home).source, process_tools(home)


@Part
def catalog(home: Home) -> Catalog:
    from twinraven.catalog import Catalog

    return Catalog(*_sources(home), learned(home))


@Part
def chat_tools(home: Home) -> ChatTools:
    """Open the configured model, for processes that answer in conversations."""
    from twinraven.conversations import ChatTools

    return ChatTools(timeout_ms=round(home.settings.conversations.answer_timeout_s * 1000))


@Part
def model_tool(home: Home) -> ModelTool:
    """Open the configured model, which is asked by calling a tool."""
    from twinraven.models import ModelTool

    # Retries stay within the client's time, so its last word comes before the call's own time is over.
    timeout_ms = round(home.settings.model.timeout_s * 1000)
    clean = redactor(home)
    return ModelTool(model_client(home), clean.redact, clean.redact_now, timeout_ms=timeout_ms)


def model_client(home: Home) -> ModelClient | None:
    """Make a client of the configured model; None where the settings name none."""
    from twinraven.connectors import AddressGuard, AddressRules, HttpDelivery, HttpTransport, ModelClient, VaultSecrets

    wanted = home.settings.model
    if wanted.name is None:
        return None
    params: dict[str, Any] = {"max_tokens": wanted.max_tokens}
    if wanted.temperature is not None:
        params["temperature"] = wanted.temperature
    if wanted.input_price is not None:
        prices = {"input_per_million": wanted.input_price, "output_per_million": wanted.output_price}
        params["pricing"] = {**prices, "currency": wanted.currency}

    async def reveal(tenant_id: str) -> str:
        return await VaultSecrets(vault(home)).reveal(tenant_id, str(wanted.secret))

    return ModelClient(
        HttpDelivery(HttpTransport(AddressGuard(AddressRules.of(home.settings.connectors.allow_private)))),
        model=wanted.name,
        protocol=wanted.protocol,
        url=wanted.url,
        reveal=None if wanted.secret is None else reveal,
        timeout_ms=round(wanted.timeout_s * 1000),
        params=params,
    )


@Part
def functions(home: Home) -> FunctionTools:
    """Python functions that are tools."""
    from twinraven.catalog import FunctionTools

    tools = FunctionTools(home.given)
    for module in home.settings.tools.modules:
        tools.add_module(module)
    return tools


@Part
def shelf(_: Home) -> LocalDefinitions:
    """Composites offered in this process alone."""
    from twinraven.flow import LocalDefinitions

    return LocalDefinitions()


@Part
def upstream_tools(home: Home) -> UpstreamTools:
    """Tools of the MCP servers behind this home, as they were accepted."""
    from twinraven.connectors import UpstreamTools

    def is_taken(tenant_id: str, tool_id: str) -> bool:
        return catalog(home).holder(tenant_id, tool_id, besides=upstream_tools(home)) is not None

    return UpstreamTools(
        database(home),
        audit=audit(home),
        is_taken=is_taken,
        quarantines_words=home.settings.gateway.quarantine == "any",
        micros=home.micros,
    )


@Part
def upstreams(home: Home) -> UpstreamPools:
    """Open those servers themselves, for each tenant."""
    from twinraven.connectors import (
        SERVERS_FILE,
        AuditJournal,
        ServerConfig,
        UpstreamLimits,
        UpstreamPool,
        UpstreamPools,
        VaultSecrets,
        load_servers,
    )

    wanted = home.settings.gateway
    limits = UpstreamLimits(max_bytes=wanted.max_message_bytes, refresh_s=wanted.refresh_s)
    secrets, journal = VaultSecrets(vault(home)), AuditJournal(audit(home))

    def open_pool(tenant_id: str, servers: list[ServerConfig]) -> UpstreamPool:
        return UpstreamPool(
            servers,
            upstream_tools(home),
            tenant_id=tenant_id,
            secrets=secrets,
            journal=journal,
            limits=limits,
            default_timeout_ms=home.settings.calls.default_timeout_ms,
        )

    return UpstreamPools(load_servers(home.settings.servers, home.home / SERVERS_FILE), open_pool)


@Part
def defined(home: Home) -> DefinedCatalog:
    """Services and tools that are data: kept in the database, reached by connectors."""
    from twinraven.catalog import DefinedCatalog, audited
    from twinraven.connectors import check_connection

    def find_other(tenant_id: str, name: str) -> ToolEntry | None:
        return catalog(home).holder(tenant_id, name, besides=defined(home).source)

    made = DefinedCatalog(
        database(home),
        witness=audited(audit(home)),
        probes=services(home).probes(),
        find_other=find_other,
        redact=redactor(home).redact,
        holds_secret=partial(holds_secret, home),
        check_connection=check_connection,
        health_timeout_s=home.settings.connectors.health_timeout_s,
        micros=home.micros,
    )
    made.tools.register_usage(_learned_callers)
    made.tools.register_usage(_process_callers)
    return made


@Part
def services(home: Home) -> ServiceConnectors:
    """Open the connectors of services: REST, language models, graph databases."""
    from twinraven.connectors import (
        AddressGuard,
        AddressRules,
        ProgramRules,
        ServiceConnectors,
        ServiceServers,
        UpstreamLimits,
    )

    wanted = home.settings.connectors
    guard = AddressGuard(AddressRules.of(wanted.allow_private))
    limits = UpstreamLimits(max_bytes=home.settings.gateway.max_message_bytes)
    return ServiceConnectors(
        lambda: defined(home).bindings,
        vault(home),
        guard,
        servers=ServiceServers(guard, ProgramRules.of(wanted.allow_programs), limits=limits),
        timeout_ms=home.settings.calls.default_timeout_ms,
    )


@Part
def process_tools(home: Home) -> ProcessTools:
    """Processes, each of them a tool."""
    from twinraven.processes import ProcessTools

    def find_tool(tenant_id: str, tool_id: str) -> ToolEntry | None:
        return catalog(home).holder(tenant_id, tool_id, besides=process_tools(home))

    return ProcessTools(database(home), find_tool)


@Part
def learned(home: Home) -> LearnedTools:
    """Learned tools in service."""
    from twinraven.registry import LearnedTools

    made = LearnedTools(database(home), _sources(home), changes(home))
    for source in (defined(home).source, process_tools(home)):
        made.subscribe(lambda tenant_id, _, reload=source.reload: _off_the_loop(reload, tenant_id))
    return made


@Part
def vault(home: Home) -> Vault:
    """Open the vault, which keeps nothing that something is called."""
    from twinraven.vault import Vault

    made = Vault(database(home), key_ring(home), audit=audit(home), watch=redactor(home))

    async def name_holding(tenant_id: str, user_id: str, text: str) -> str | None:
        from twinraven.catalog import KnownNames

        return await KnownNames(catalog(home), defined(home)).holding(tenant_id, user_id, text)

    def users(tx: Transaction, tenant_id: str, secret_id: str) -> list[str]:
        return defined(home).tools.secret_users(tx, tenant_id, secret_id)

    made.register_names(name_holding)
    made.register_usage(users)
    return made


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
    """Name the learned tools that call a tool which is to be deleted; until then nothing of the registry is loaded."""
    from twinraven.registry import callers_of

    return callers_of(tx, tenant_id, key)


def _process_callers(tx: Transaction, tenant_id: str, key: str) -> list[str]:
    """Name the processes that call a tool which is to be deleted."""
    from twinraven.processes import tool_callers

    return [f"process {name!r}" for name in tool_callers(tx, tenant_id, key)]
