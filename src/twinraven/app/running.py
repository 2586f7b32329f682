"""Opens durable work: processes, and the worker that advances runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from twinraven.app.calling import calls, runs
from twinraven.app.catalogue import catalog, learned, process_tools
from twinraven.app.dispatching import dispatcher, journal_kit, run_waits
from twinraven.app.effecting import delivery
from twinraven.app.foundations import audit, database, holds_secret, tenancy
from twinraven.app.governing import attempts
from twinraven.app.knowing import entities, extraction, graph_progress
from twinraven.app.learning import maintenance, rounds
from twinraven.app.memory import activity
from twinraven.app.parts import Home, Part
from twinraven.app.planning import programs
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.errors import InvalidSetting
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.conversations import Conversations
    from twinraven.engine import EngineSettings, EngineWorker, Schedules, WorkerParts
    from twinraven.knowledge import Introspections
    from twinraven.metrics import Metrics
    from twinraven.processes import Processes


@Part
def processes(home: Home) -> Processes:
    """Work that people define as data."""
    from twinraven.processes import Processes

    made = Processes(
        database(home),
        process_tools(home),
        catalog=lambda: catalog(home),
        runs=lambda: runs(home),
        audit=audit(home),
        holds_secret=partial(holds_secret, home),
        micros=home.micros,
        learned=lambda tenant_id, tool_id: learned(home).definition(tenant_id, tool_id),
    )
    made.register_usage(_conversations_of)
    return made


def _conversations_of(tx: Transaction, tenant_id: str, process_id: str) -> list[str]:
    """Name the conversations that refer to a process which is to be deleted."""
    from twinraven.conversations import process_users

    return [f"conversation {each}" for each in process_users(tx, tenant_id, process_id)]


def make_worker(home: Home, types: Iterable[str] | None = None) -> EngineWorker:
    """Make a worker for this process; `types` names the types of steps that it makes, None all of them."""
    from twinraven.engine import (
        Advancer,
        CallingParts,
        EngineWorker,
        PoolSlots,
        WorkerParts,
        all_pools,
        read_pools,
        read_types,
    )

    wanted, served = home.settings.engine, read_types(types)
    pools = all_pools(read_pools(wanted.pools), types=served)
    slots = PoolSlots(pools, types=served)
    calling = CallingParts(
        database(home),
        calls(home),
        catalog(home),
        journal_kit(home),
        run_waits(home),
        slots,
        house=_house_work(home),
        programs=programs(),
        governor=attempts(home),
    )
    decided = runs(home)
    advancer = Advancer(
        calling, most_strikes=wanted.max_deaths, on_set_aside=decided.on_set_aside, on_ends=decided.on_ends
    )
    parts = WorkerParts(database(home), dispatcher(home), advancer, _schedules(home), pools, slots)
    if wanted.dispatcher == "embedded":
        return EngineWorker(parts, lease_s=wanted.lease_s, poll_s=wanted.poll_s)
    return _temporal_worker(parts, wanted)


@asynccontextmanager
async def working(home: Home, types: Iterable[str] | None = None) -> AsyncGenerator[EngineWorker]:
    """Work on runs while the block lasts."""
    import asyncio

    stop, worker = asyncio.Event(), make_worker(home, types)
    task = asyncio.create_task(worker.work(stop, drain_s=home.settings.engine.drain_s))
    try:
        yield worker
    finally:
        stop.set()
        await task


def _house_work(home: Home) -> dict[str, Callable[[str, JsonObject], Awaitable[Any]]]:
    """Return what the house does for a tenant: on a schedule, and what was decided."""

    async def maintain(tenant_id: str, _: JsonObject) -> Any:
        return (await maintenance(home).run(tenant_id)).as_json()

    async def learn(tenant_id: str, _: JsonObject) -> Any:
        begun = await rounds(home).start(tenant_id, by="system")
        return {"round_id": str(begun.round_id)}

    async def prune(tenant_id: str, _: JsonObject) -> Any:
        return {"pruned": await runs(home).prune(tenant_id)}

    async def write_episodes(tenant_id: str, about: JsonObject) -> Any:
        return await cast("_TalkingHome", home).conversations.write_episodes(tenant_id, about["conversation_id"])

    async def deliver(tenant_id: str, given: JsonObject) -> Any:
        return await delivery(home).deliver(tenant_id, given)

    async def enrich(tenant_id: str, about: JsonObject) -> Any:
        found = await entities(home).enrich(tenant_id, about["entity_id"])
        return {"entity_id": found.entity.entity_id, "enriched_by": found.entity.enriched_by}

    async def take_in(tenant_id: str, about: JsonObject) -> Any:
        return await graph_progress(home).take_in(tenant_id, about["group_id"])

    async def extract(tenant_id: str, about: JsonObject) -> Any:
        return await extraction(home).read_group(tenant_id, about["group_id"], about["extractor"])

    async def measure(tenant_id: str, _: JsonObject) -> Any:
        kept = cast("_TalkingHome", home).metrics
        await activity(home).fold(tenant_id)
        await maintenance(home).adoption(tenant_id)
        return {"collected": await kept.collect(tenant_id), "pruned": await kept.prune(tenant_id)}

    async def reflect(tenant_id: str, about: JsonObject) -> Any:
        notes = cast("_TalkingHome", home).introspections
        begun = await notes.reflect(tenant_id, about["user_id"], about["group_id"])
        return {"reflection_id": None if begun is None else begun.reflection_id}

    return {
        "episodes": write_episodes,
        "enrichment": enrich,
        "graph": take_in,
        "extraction": extract,
        "reflection": reflect,
        "metrics": measure,
        "maintenance": maintain,
        "learning": learn,
        "runs": prune,
        "effect": deliver,
    }


class _TalkingHome(Protocol):
    """A home that has conversations and notes, which are built on processes."""

    @property
    def conversations(self) -> Conversations: ...

    @property
    def introspections(self) -> Introspections: ...

    @property
    def metrics(self) -> Metrics: ...


def _schedules(home: Home) -> Schedules:
    from twinraven.engine import Schedules

    async def tenants() -> list[str]:
        return [each.tenant_id for each in await tenancy(home).tenants()]

    settings = home.settings
    plans: dict[str, Any] = {
        "maintenance": settings.registry.maintenance_schedule,
        "learning": settings.engine.learning_schedule,
        "runs": "daily",
        "metrics": "hourly",
    }
    return Schedules(database(home), runs(home), plans, tenants=tenants, now=dispatcher(home).now)


def _temporal_worker(parts: WorkerParts, wanted: EngineSettings) -> EngineWorker:
    try:
        from twinraven.engine import TemporalWorker
    except ImportError as error:
        raise InvalidSetting(
            f"engine.dispatcher is temporal, which needs more than is installed: {error}",
            field="engine.dispatcher",
            fix="pip install 'twinraven[temporal]'",
        ) from error
    return TemporalWorker(
        parts,
        address=wanted.temporal_address,
        namespace=wanted.temporal_namespace,
        lease_s=wanted.lease_s,
        poll_s=wanted.poll_s,
    )
