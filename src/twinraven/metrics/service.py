"""Implements the use cases of metrics: define, report, aggregate, expire, and collect the system's own measurements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.foundation.clock import from_micros, now_micros, to_micros
from twinraven.foundation.errors import Conflict, InvalidInput, NotFound
from twinraven.metrics.model import (
    AGGREGATIONS,
    Aggregation,
    MetricDefinition,
    MetricPoint,
    MetricRequest,
    MetricValue,
    Scope,
    SeriesQuery,
    check_aggregation,
    check_dimensions,
    check_label,
    check_retention,
    to_number,
)
from twinraven.metrics.sql import (
    change_definition,
    collected_up_to,
    delete_definition,
    expired_before,
    find_definition,
    find_named,
    has_values,
    insert_definition,
    insert_values,
    list_definitions,
    list_values,
    read_series,
    remove_values,
    set_collected,
)
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

if TYPE_CHECKING:
    import asyncio

MOST_POINTS: Final = 2_000
_AHEAD_MICROS: Final = 86_400_000_000
_OWN: Final = "definitions"
"""The cursor that counts which of the system's own metrics a tenant was given."""

Exists = Callable[[str, Scope, str], Awaitable[bool]]
"""Whether a tenant has a service, tool, process or conversation of this id."""


class SystemMeasurement(NamedTuple):
    """A measurement of the system itself."""

    metric: MetricRequest
    entity_id: str
    value: int | float
    at: int
    """In microseconds."""
    dimensions: Mapping[str, str] = {}


class CollectedMeasurements(NamedTuple):
    """The measurements of a source since a cursor, and the next cursor."""

    figures: Sequence[SystemMeasurement]
    up_to: int
    is_all: bool = True
    """Whether there was nothing behind the cursor when it was read; a source may give a long log in parts."""


Source = Callable[[str, int], Awaitable[CollectedMeasurements]]
"""Measures a tenant from a place on."""


class Metrics:
    """Metrics of all tenants."""

    def __init__(
        self,
        database: Database,
        *,
        exists: Exists,
        audit: AuditLog,
        sources: Mapping[str, Source] | None = None,
        own: Sequence[MetricRequest] = (),
        micros: Callable[[], int] = now_micros,
    ) -> None:
        """`own` are the system's own metrics, which a tenant has from its first look at its metrics on."""
        self._own = tuple(own)
        self._database = database
        self._exists = exists
        self._audit = audit
        self._sources = dict(sources or {})
        self._micros = micros
        self._collecting: dict[tuple[str, asyncio.AbstractEventLoop], asyncio.Task[int]] = {}

    async def define(self, wish: MetricRequest, *, by: Principal) -> MetricDefinition:
        """Define a metric; its name is unique within its scope. For administrators."""

        def work(tx: Transaction) -> str:
            _refuse_taken(tx, by.tenant_id, wish.scope, wish.name, besides=None)
            metric_id = insert_definition(tx, by.tenant_id, wish, at=self._micros())
            self._tell(tx, "metric.defined", metric_id, by)
            return metric_id

        return await self.definition(by.tenant_id, await self._database.write(by.tenant_id, work))

    async def change(
        self,
        metric_id: str,
        *,
        by: Principal,
        name: str | None = None,
        description: str | None = None,
        aggregation: Aggregation | None = None,
        retention_days: int | None = None,
        keeps_for_good: bool = False,
    ) -> MetricDefinition:
        """Change what may change; scope and type never do. For administrators."""
        check_retention(retention_days)
        given: dict[str, Any] = {
            "name": name,
            "description": description,
            "aggregation": aggregation,
            "retention_days": retention_days,
        }
        changes = {key: value for key, value in given.items() if value is not None}
        if keeps_for_good:
            changes["retention_days"] = None
        if name is not None:
            check_label(name, field="name")
        if aggregation is not None and aggregation not in AGGREGATIONS:
            raise InvalidInput(f"aggregation must be one of {', '.join(AGGREGATIONS)}", field="aggregation")

        def work(tx: Transaction) -> None:
            changed = replace(_present(tx, by.tenant_id, metric_id), **changes)
            check_aggregation(changed.data_type, changed.aggregation)
            _refuse_taken(tx, by.tenant_id, changed.scope, changed.name, besides=metric_id)
            change_definition(tx, by.tenant_id, changed, at=self._micros())
            self._tell(tx, "metric.changed", metric_id, by, fields=sorted(changes))

        await self._database.write(by.tenant_id, work)
        return await self.definition(by.tenant_id, metric_id)

    async def delete(self, metric_id: str, *, by: Principal, cascade: bool = False) -> int:
        """Delete a definition; its values go along only where that is asked for. For administrators."""

        def work(tx: Transaction) -> int:
            found = _present(tx, by.tenant_id, metric_id)
            if has_values(tx, by.tenant_id, metric_id) and not cascade:
                message = f"metric {found.name!r} has values; delete it with cascade to delete them too"
                raise Conflict(message, field="cascade", metric_id=metric_id)
            removed = remove_values(tx, by.tenant_id, metric_id)
            delete_definition(tx, by.tenant_id, metric_id)
            self._tell(tx, "metric.deleted", metric_id, by, values=removed)
            return removed

        return await self._database.write(by.tenant_id, work)

    async def definition(self, tenant_id: str, metric_id: str) -> MetricDefinition:
        return await self._database.read(tenant_id, lambda tx: _present(tx, tenant_id, metric_id))

    async def named(self, tenant_id: str, scope: str, name: str) -> MetricDefinition:
        found = await self._database.read(tenant_id, lambda tx: find_named(tx, tenant_id, scope, name))
        if found is None:
            raise NotFound(f"scope {scope!r} has no metric {name!r}", field="name")
        return found

    async def definitions(
        self, tenant_id: str, *, scope: str | None = None, limit: int = 10_000, after: str | None = None
    ) -> list[MetricDefinition]:
        """Definitions by scope and name, the system's own among them."""
        await self._define_own(tenant_id)
        return await self._database.read(
            tenant_id, lambda tx: list_definitions(tx, tenant_id, scope=scope, limit=limit, after=after)
        )

    async def report(
        self,
        tenant_id: str,
        metric_id: str,
        entity_id: str,
        value: Any,
        *,
        at: datetime | None = None,
        dimensions: Mapping[str, str] | None = None,
    ) -> MetricValue:
        """Append a value; its type, its metric and what it is of must fit and exist."""
        check_label(entity_id, field="entity_id")
        stated = check_dimensions({} if dimensions is None else dimensions)
        now = self._micros()
        moment = now if at is None else to_micros(at, field="timestamp")
        if moment > now + _AHEAD_MICROS:
            raise InvalidInput("timestamp lies in the future", field="timestamp")
        found = await self.definition(tenant_id, metric_id)
        number = to_number(value, found.data_type)
        if not await self._exists(tenant_id, found.scope, entity_id):
            raise NotFound(f"there is no {found.scope} {entity_id!r}", field="entity_id")

        def work(tx: Transaction) -> str:
            _present(tx, tenant_id, metric_id)
            return insert_values(tx, tenant_id, [(metric_id, entity_id, number, moment, stated)])[0]

        value_id = await self._database.write(tenant_id, work)
        shown = value.isoformat() if isinstance(value, datetime) else value
        return MetricValue(value_id, metric_id, entity_id, shown, from_micros(moment), stated)

    async def values(
        self, tenant_id: str, metric_id: str, wish: SeriesQuery, *, limit: int = 1_000, after: str | None = None
    ) -> list[MetricValue]:
        """Values as they were reported, in the order of their time."""

        def work(tx: Transaction) -> list[MetricValue]:
            found = _present(tx, tenant_id, metric_id)
            return list_values(tx, tenant_id, found, wish, limit=limit, after=after)

        return await self._database.read(tenant_id, work)

    async def series(
        self, tenant_id: str, metric_id: str, wish: SeriesQuery, *, collects: bool = True
    ) -> list[MetricPoint]:
        """Return the values summed up by stretches of time; unless told otherwise, the system's own come first."""
        check_series(wish)
        if collects:
            await self.collect(tenant_id)

        def work(tx: Transaction) -> list[MetricPoint]:
            found = _present(tx, tenant_id, metric_id)
            check_aggregation(found.data_type, wish.aggregation or found.aggregation)
            return read_series(tx, tenant_id, found, wish)

        return await self._database.read(tenant_id, work)

    async def collect(self, tenant_id: str) -> int:
        """Append what the system measured of itself since the last time; says how many values."""
        await self._define_own(tenant_id)
        return sum([await self._collect_all(tenant_id, name, source) for name, source in self._sources.items()])

    async def collect_within(self, tenant_id: str, seconds: float) -> bool:
        """Collect for so long and go on in the background; says whether everything is collected."""
        import asyncio

        here = asyncio.get_running_loop()
        task = self._collecting.get((tenant_id, here))
        if task is None:
            task = self._collecting[tenant_id, here] = asyncio.ensure_future(self.collect(tenant_id))
            task.add_done_callback(lambda done: self._end_collecting(tenant_id, here, done))
        done, _ = await asyncio.wait((task,), timeout=seconds)
        for ended in done:
            ended.result()  # raises what kept it from measuring
        return bool(done)

    async def aclose(self) -> None:
        """Stop what goes on in the background of this event loop."""
        import asyncio

        here = asyncio.get_running_loop()
        tasks = [task for (_, loop), task in self._collecting.items() if loop is here]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def append_in(self, tx: Transaction, tenant_id: str, figures: Sequence[SystemMeasurement]) -> None:
        """Append figures of the system with the caller's own rows."""
        ids = {each.metric: "" for each in figures}
        for metric in ids:
            ids[metric] = _defined(tx, tenant_id, metric, self._micros())
        rows = [
            (
                ids[each.metric],
                each.entity_id,
                to_number(each.value, each.metric.data_type),
                each.at,
                each.dimensions,
            )
            for each in figures
        ]
        insert_values(tx, tenant_id, rows)

    async def prune(self, tenant_id: str) -> int:
        """Remove values whose retention is over."""
        now = self._micros()

        def work(tx: Transaction) -> int:
            removed = 0
            for found in list_definitions(tx, tenant_id):
                before = expired_before(found, now=now)
                if before is not None:
                    removed += remove_values(tx, tenant_id, found.metric_id, before=before)
            return removed

        return await self._database.write(tenant_id, work)

    async def _define_own(self, tenant_id: str) -> None:
        """Define the system's own metrics once; one that is deleted comes back when it is measured again."""
        count = len(self._own)
        if await self._database.read(tenant_id, lambda tx: collected_up_to(tx, tenant_id, _OWN)) >= count:
            return

        def work(tx: Transaction) -> None:
            if collected_up_to(tx, tenant_id, _OWN, lock=True) < count:
                for metric in self._own:
                    _defined(tx, tenant_id, metric, self._micros())
                set_collected(tx, tenant_id, _OWN, count)

        await self._database.write(tenant_id, work)

    def _end_collecting(self, tenant_id: str, loop: asyncio.AbstractEventLoop, task: asyncio.Task[int]) -> None:
        del self._collecting[tenant_id, loop]
        if not task.cancelled() and (error := task.exception()) is not None:
            import logging

            # Who waits is told as well; the next who asks tries again.
            logging.getLogger(__name__).warning("the system's own figures were not collected: %s", error)

    async def _collect_all(self, tenant_id: str, name: str, source: Source) -> int:
        """Collect a source part by part, each of them stored before the next is read."""
        total = 0
        while True:
            is_all, found = await self._collect(tenant_id, name, source)
            total += found
            if is_all:
                return total

    async def _collect(self, tenant_id: str, name: str, source: Source) -> tuple[bool, int]:
        begin = await self._database.read(tenant_id, lambda tx: collected_up_to(tx, tenant_id, name))
        found = await source(tenant_id, begin)
        if found.up_to == begin and not found.figures:
            return True, 0

        def work(tx: Transaction) -> int:
            # Whoever collected meanwhile has these figures already.
            if collected_up_to(tx, tenant_id, name, lock=True) != begin:
                return 0
            self.append_in(tx, tenant_id, found.figures)
            set_collected(tx, tenant_id, name, found.up_to)
            return len(found.figures)

        return found.is_all, await self._database.write(tenant_id, work)

    def _tell(self, tx: Transaction, event: str, metric_id: str, by: Principal, **data: Any) -> None:
        self._audit.append(tx, NewAuditEntry(by.tenant_id, event, "metric", metric_id, by.actor, data=data))


def check_series(wish: SeriesQuery) -> None:
    """Refuse a stretch of time that is none, or too many points."""
    if wish.since >= wish.until:
        raise InvalidInput("since must lie before until", field="since")
    if wish.bucket_s < 1:
        raise InvalidInput("bucket_s must be at least 1", field="bucket_s")
    if (wish.until - wish.since).total_seconds() / wish.bucket_s > MOST_POINTS:
        message = f"at most {MOST_POINTS} points; ask for wider buckets or for less time"
        raise InvalidInput(message, field="bucket_s")


def _present(tx: Transaction, tenant_id: str, metric_id: str) -> MetricDefinition:
    found = find_definition(tx, tenant_id, metric_id)
    if found is None:
        raise NotFound(f"no metric {metric_id!r}", field="metric_id")
    return found


def _refuse_taken(tx: Transaction, tenant_id: str, scope: str, name: str, *, besides: str | None) -> None:
    found = find_named(tx, tenant_id, scope, name)
    if found is not None and found.metric_id != besides:
        raise Conflict(f"scope {scope!r} has a metric {name!r} already; choose another name", field="name")


def _defined(tx: Transaction, tenant_id: str, wish: MetricRequest, at: int) -> str:
    """Return the id of one of the system's own metrics, defined if it is not there."""
    found = find_named(tx, tenant_id, wish.scope, wish.name)
    return insert_definition(tx, tenant_id, wish, at=at) if found is None else found.metric_id
