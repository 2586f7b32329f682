"""The only wiring: a home folder and its settings become a running TwinRaven.

Every door (command line, gateway, API, demo, tests) opens the same object and finds the same parts on it. Parts are
built on first use, so that a command which only lists sessions pays for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinraven.foundation.errors import SchemaOutdated
from twinraven.foundation.settings import Settings, load_settings
from twinraven.storage import DEFAULT_TENANT, Database, open_database, pending_migrations

if TYPE_CHECKING:
    from twinraven.calls import Calls
    from twinraven.catalog import Catalog, FunctionTools
    from twinraven.flow import DefinitionShelf, SynthesizedTool
    from twinraven.huginn import ChainStore
    from twinraven.muninn import Collector, EncodingRules, EventStore, Importer


class TwinRaven:
    """One home, opened."""

    def __init__(self, settings: Settings, *, functions: Iterable[Callable[..., Any]] = ()) -> None:
        self.settings = settings
        self._given = tuple(functions)

    @property
    def home(self) -> Path:
        return self.settings.home

    @cached_property
    def database(self) -> Database:
        return open_database(self.settings.storage.url, admin_url=self.settings.storage.admin_url)

    @cached_property
    def events(self) -> EventStore:
        from twinraven.muninn import SqlEventStore

        return SqlEventStore(self.database)

    @cached_property
    def collector(self) -> Collector:
        from twinraven.muninn import Collector

        return Collector(self.database, rules=self._rules, queue_size=self.settings.muninn.queue_size)

    @cached_property
    def importer(self) -> Importer:
        from twinraven.muninn import Importer

        return Importer(self.database, rules=self._rules)

    @cached_property
    def chains(self) -> ChainStore:
        from twinraven.huginn import SqlChainStore

        return SqlChainStore(self.database)

    @cached_property
    def functions(self) -> FunctionTools:
        from twinraven.catalog import FunctionTools

        tools = FunctionTools(self._given)
        for module in self.settings.tools.modules:
            tools.add_module(module)
        return tools

    @cached_property
    def catalog(self) -> Catalog:
        from twinraven.catalog import Catalog

        return Catalog(self.functions, self.shelf)

    @cached_property
    def shelf(self) -> DefinitionShelf:
        """Composites offered in this process alone."""
        from twinraven.flow import DefinitionShelf

        return DefinitionShelf()

    def offer(self, definitions: Iterable[SynthesizedTool], *, tenant_id: str = DEFAULT_TENANT) -> None:
        """Offer composites to this process's callers without registering them."""
        self.shelf.offer(definitions, self.catalog, tenant_id=tenant_id)

    @cached_property
    def calls(self) -> Calls:
        from twinraven.calls import Calls, Claims
        from twinraven.connectors import PythonConnector
        from twinraven.flow import FlowConnector

        settings = self.settings.calls
        calls = Calls(
            self.catalog,
            self.collector,
            Claims(self.database),
            [PythonConnector(self.functions, threads=settings.python_threads)],
            default_timeout_ms=settings.default_timeout_ms,
        )
        calls.add_connector(FlowConnector(calls, self.catalog, self.shelf))
        return calls

    def close(self) -> None:
        """Write what is queued and let go of everything."""
        if "collector" in self.__dict__:
            self.collector.close()
        if "database" in self.__dict__:
            self.database.close()

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


def open_home(home: Path | None = None, *, functions: Iterable[Callable[..., Any]] = ()) -> TwinRaven:
    """Open a home that exists; the embedded database is brought up to date, a shared one must be."""
    raven = TwinRaven(load_settings(home), functions=functions)
    pending = pending_migrations(raven.database)
    if pending and raven.database.dialect == "postgres":
        raise SchemaOutdated(f"the database lacks {', '.join(pending)}", fix="twinraven db upgrade")
    if pending:
        raven.database.migrate()
    return raven
