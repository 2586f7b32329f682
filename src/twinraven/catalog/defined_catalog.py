"""Assembles the data-defined catalogue: services, tools, templates, health checks and bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twinraven.catalog.applying import CatalogFiles
from twinraven.catalog.bindings import Bindings
from twinraven.catalog.clear_secrets import HoldsSecret
from twinraven.catalog.defined_tools import DefinedTools
from twinraven.catalog.health import PROBE_TIMEOUT_S, HealthChecks, HealthProbe
from twinraven.catalog.ports import AuditCatalogChange, ConnectionCheck, FindTool, Redact, SecretLookup
from twinraven.catalog.service_model import ServiceType
from twinraven.catalog.services import Services
from twinraven.catalog.templates import Templates
from twinraven.catalog.tools import Tools
from twinraven.catalog.transactions import CatalogTransactions
from twinraven.foundation.clock import now_micros
from twinraven.storage import Database


class DefinedCatalog:
    """Bundles the data-defined catalogue for the REST API, the gateway, connectors and the command line."""

    def __init__(  # noqa: PLR0913 - everything it stands on, each by name
        self,
        database: Database,
        *,
        witness: AuditCatalogChange,
        probes: Mapping[ServiceType, HealthProbe],
        find_other: FindTool | None = None,
        secrets: SecretLookup | None = None,
        redact: Redact | None = None,
        holds_secret: HoldsSecret | None = None,
        check_connection: ConnectionCheck | None = None,
        health_timeout_s: float = PROBE_TIMEOUT_S,
        micros: Callable[[], int] = now_micros,
    ) -> None:
        """`find_other` finds tools of other sources; `probes` may be filled later, as connectors are set up.

        `check_connection` is asked about what services, templates and tools state of a connection.
        """
        self.source = DefinedTools(database)
        acts = CatalogTransactions(
            database,
            witness=witness,
            announce=self.source.refresh,
            holds_secret=holds_secret,
            check_connection=check_connection,
            micros=micros,
        )
        self.services = Services(acts)
        self.tools = Tools(acts, self.services, secrets=secrets, find_other=find_other)
        self.templates = Templates(acts, self.services, self.tools)
        self.files = CatalogFiles(acts, self.services, self.tools, self.templates)
        self.health = HealthChecks(acts, self.services, probes, redact=redact, timeout_s=health_timeout_s)
        self.bindings = Bindings(acts, recheck=self.health.check_for_call, edition=self.source.edition)
