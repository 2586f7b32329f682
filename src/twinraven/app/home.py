"""Opens a whole home, runs its background work while it is open, and closes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinraven.app import (
    asking,
    calling,
    catalogue,
    conversing,
    deciding,
    dispatching,
    effecting,
    foundations,
    governing,
    knowing,
    learning,
    measuring,
    memory,
    planning,
    reflecting,
    running,
)
from twinraven.app.parts import Home
from twinraven.app.settings import load_settings
from twinraven.foundation.actors import SYSTEM, Actor
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import SchemaOutdated
from twinraven.foundation.homes import existing_home
from twinraven.storage import DEFAULT_TENANT, check_login, pending_migrations

if TYPE_CHECKING:
    from twinraven.flow import FlowDefinition


class TwinRaven(Home):
    """One home, opened, and the parts that doors use."""

    database = foundations.database
    changes = foundations.changes
    signing_keys = foundations.signing_keys
    signer = foundations.signer
    audit = foundations.audit
    key_ring = foundations.key_ring
    tenant_keys = foundations.tenant_keys
    redactor = foundations.redactor
    tenancy = foundations.tenancy
    sign_ins = foundations.sign_ins

    events = memory.events
    activity = memory.activity
    tail = memory.tail
    collector = memory.collector
    importer = memory.importer
    spans = memory.spans
    retention = memory.retention

    knowledge = knowing.knowledge
    graph_progress = knowing.graph_progress
    extraction = knowing.extraction
    entities = knowing.entities
    group_access = knowing.group_access
    summaries = reflecting.summaries
    introspections = reflecting.introspections
    metrics = measuring.metrics
    measure_runs = measuring.measure_runs

    vault = catalogue.vault
    functions = catalogue.functions
    shelf = catalogue.shelf
    upstream_tools = catalogue.upstream_tools
    upstreams = catalogue.upstreams
    defined = catalogue.defined
    process_tools = catalogue.process_tools
    services = catalogue.services
    learned = catalogue.learned
    catalog = catalogue.catalog

    approvals = calling.approvals
    claims = calling.claims
    calls = calling.calls
    models = asking.models

    dispatcher = dispatching.dispatcher
    runs = calling.runs
    processes = running.processes
    conversations = conversing.conversations
    plans = planning.plans
    plan_memory = planning.memory
    campaigns = governing.campaigns
    planner = governing.planner
    tasks = governing.tasks
    attempts = governing.attempts
    judge = governing.judge
    worker = running.make_worker
    working = running.working

    ledger = effecting.ledger
    wallets = effecting.wallets
    assets = effecting.assets
    effects = effecting.effects
    delivery = effecting.delivery
    inbox = deciding.inbox
    tracer = deciding.tracer

    chains = learning.chains
    registry = learning.registry
    verification = learning.verification
    maintenance = learning.maintenance
    huginn = learning.huginn
    rounds = learning.rounds
    mining_run = property(learning.mining_run)
    learning_config = property(learning.learning_config)
    sample_limits = property(learning.sample_limits)

    def offer(self, definitions: Iterable[FlowDefinition], *, tenant_id: str = DEFAULT_TENANT) -> None:
        """Offer composites to this process's callers without registering them."""
        self.shelf.offer(definitions, self.catalog, tenant_id=tenant_id)

    @asynccontextmanager
    async def watching(self, *, tenant_id: str | None = None) -> AsyncGenerator[None]:
        """Begin with what is stored now, and look after services while the block lasts; of all tenants, or of one."""
        from twinraven.catalog import HealthMonitor

        async def tenants() -> list[str]:
            return [each.tenant_id for each in await self.tenancy.tenants()] if tenant_id is None else [tenant_id]

        for each in await tenants():
            await self.learned.refresh(each)
            await self.defined.source.refresh(each)
            await self.process_tools.refresh(each)
        every_s = self.settings.connectors.health_every_s
        if every_s == 0:
            yield
            return
        async with HealthMonitor(self.defined.health, tenants, every_s=every_s).running():
            yield

    def __enter__(self) -> TwinRaven:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_home(
    home: Path | str | None = None,
    *,
    functions: Iterable[Callable[..., Any]] = (),
    micros: Callable[[], int] = now_micros,
    operator: Callable[[], Actor] = lambda: SYSTEM,
) -> TwinRaven:
    """Open a home that exists; the embedded database is brought up to date, a shared one must be.

    Without `home` it is the one that `TWINRAVEN_HOME` names, else the nearest `.twinraven` from here upwards. Nothing
    is created: where there is no home, this raises NotFound and names `twinraven init`.
    """
    settings = load_settings(existing_home(None if home is None else Path(home)))
    raven = TwinRaven(settings, functions=functions, micros=micros, operator=operator)
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
