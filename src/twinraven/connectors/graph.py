"""Queries graph databases over Bolt, with parameterised Cypher.

Every query runs in a transaction of its own. A read is rolled back, and one that changed something is refused as what
it is; a write is committed only when its rows have been read, so every failure before that leaves nothing behind and
may be tried again. Only a commit whose answer is lost leaves the outcome open.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from twinraven.catalog import GraphQuery, Health, HealthStatus, ToolEntry
from twinraven.connectors.addresses import AddressGuard
from twinraven.connectors.binding import Binding, BindingSource, bind_call
from twinraven.connectors.breaker import CircuitBreaker
from twinraven.connectors.delivery import Sleep
from twinraven.connectors.endpoints import PROBE_TIMEOUT_S, check_certificate
from twinraven.connectors.extras import require
from twinraven.connectors.graph_target import GraphTarget
from twinraven.foundation.errors import (
    EffectUnknown,
    InvalidDefinition,
    InvalidInput,
    InvalidOutput,
    ToolTimeout,
    ToolUnavailable,
    TwinRavenError,
)
from twinraven.storage import forget_after_fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from neo4j import AsyncDriver, AsyncSession, AsyncTransaction

    from twinraven.calls import CallFrame
    from twinraven.connectors.graph_drivers import GraphDrivers

    OpenSession = Callable[..., AsyncSession]

_MARGIN = 0.95  # what is left of a call's time is needed to say that it ran out
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class GraphLimits:
    """Limits of graph queries: timeout, rows and retries."""

    timeout_ms: int = 30_000
    max_rows: int = 10_000
    attempts: int = 3


class GraphConnector:
    """Reaches `neo4j_graph` services."""

    name = "graph"

    def __init__(
        self,
        bindings: BindingSource,
        guard: AddressGuard,
        *,
        limits: GraphLimits | None = None,
        breaker: CircuitBreaker | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._bindings = bindings
        self._guard = guard
        self._limits = limits or GraphLimits()
        self._breaker = breaker or CircuitBreaker()
        self._sleep = sleep
        forget_after_fork(self)

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> list[dict[str, Any]]:
        """Run the query with these parameters; rows are objects by column."""
        require("neo4j", "graph")
        binding: Binding[GraphQuery] = await bind_call(self._bindings, entry, call)
        asked = binding.operation.request(params)
        target = GraphTarget.of(binding, await binding.secret(call.caller))
        work = _Work(
            query=asked.query,
            parameters=asked.parameters,
            database=GraphTarget.database_of(binding),
            writes=entry.writes,
            tool_id=entry.tool_id,
            max_rows=self._limits.max_rows,
        )
        until = time.monotonic() + (entry.timeout_ms or self._limits.timeout_ms) * _MARGIN / 1000
        return await self._run(work, target, (call.tenant_id, binding.owner_id, target.host, target.port), until)

    async def probe(self, binding: Binding[Any], *, user: str | None = None) -> Health:
        """Connect, log in and ask for nothing."""
        require("neo4j", "graph")
        try:
            work = _Work("RETURN 1 AS one", {}, GraphTarget.database_of(binding), False, binding.tool_id, 1)
            target = GraphTarget.of(binding, await binding.secret(user))
            async with self._drivers.lease(target) as driver:
                await work.run(driver, time.monotonic() + PROBE_TIMEOUT_S)
        except TwinRavenError as error:
            return Health.of_error(error)
        return Health(HealthStatus.HEALTHY)

    @staticmethod
    def check(binding: Binding[Any]) -> None:
        """Raise unless a call could use these connection parameters."""
        GraphTarget.of(binding, None)
        GraphTarget.database_of(binding)
        check_certificate(binding)

    async def aclose(self) -> None:
        if "_drivers" in self.__dict__:
            await self._drivers.aclose()

    def after_fork(self) -> None:
        """A child must not speak on its parent's connections."""
        self.__dict__.pop("_drivers", None)

    @cached_property
    def _drivers(self) -> GraphDrivers:
        from twinraven.connectors.graph_drivers import GraphDrivers

        return GraphDrivers(self._guard)

    async def _run(self, work: _Work, target: GraphTarget, place: Hashable, until: float) -> Any:
        for number in range(1, self._limits.attempts + 1):
            try:
                with self._breaker.attempt(place, name=target.name) as attempt:
                    try:
                        async with self._drivers.lease(target) as driver:
                            answer = await work.run(driver, until)
                    except (ToolUnavailable, ToolTimeout):
                        attempt.succeeded = False
                        raise
                    attempt.succeeded = True
                    return answer
            except ToolUnavailable:
                pause = _PAUSE_S * 2**number
                if number == self._limits.attempts or time.monotonic() + pause >= until:
                    raise
                await self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")


@dataclass(slots=True)
class _Work:
    """One query in one transaction."""

    query: str
    parameters: dict[str, Any]
    database: str | None
    writes: bool
    tool_id: str
    max_rows: int
    is_committing: bool = False

    async def run(self, driver: AsyncDriver, until: float) -> Any:
        """Return the rows, or an error that says whether something may have happened."""
        import neo4j.exceptions as failures

        seconds = max(0.001, until - time.monotonic())
        self.is_committing = False
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._run(driver, seconds)
        except (failures.Neo4jError, failures.DriverError) as error:
            raise self._translate(error) from error
        except (OverflowError, TypeError) as error:
            raise InvalidInput(f"a parameter is nothing that a graph can hold: {error}", field="params") from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            if self.is_committing:
                raise self._unknown("the commit was not answered in time") from error
            raise ToolTimeout(f"the graph did not answer within {round(seconds * 1000)} ms") from error

    async def _run(self, driver: AsyncDriver, seconds: float) -> list[dict[str, Any]]:
        from neo4j import READ_ACCESS, WRITE_ACCESS

        mode = WRITE_ACCESS if self.writes else READ_ACCESS
        open_session = cast("OpenSession", driver.session)  # pyright: ignore[reportUnknownMemberType]
        async with open_session(database=self.database, default_access_mode=mode) as session:
            transaction = await session.begin_transaction(timeout=seconds)
            rows = await self._rows(transaction)
            if self.writes:
                self.is_committing = True
                await transaction.commit()
            else:
                await transaction.rollback()
        return rows

    async def _rows(self, transaction: AsyncTransaction) -> list[dict[str, Any]]:
        from twinraven.connectors.graph_values import as_json

        result = await transaction.run(cast("Any", self.query), self.parameters)
        rows: list[dict[str, Any]] = []
        async for record in result:
            if len(rows) == self.max_rows:
                raise InvalidOutput(
                    f"the graph answers more than {self.max_rows} rows; add a LIMIT", tool_id=self.tool_id
                )
            columns = record.keys()  # a record iterates over its values
            rows.append({name: as_json(record[name]) for name in columns})
        summary = await result.consume()
        if summary.counters.contains_updates and not self.writes:
            raise InvalidDefinition(
                "this tool is declared a read, but its query changes the graph; nothing was kept", tool_id=self.tool_id
            )
        return rows

    def _translate(self, error: Exception) -> TwinRavenError:
        from twinraven.connectors.graph_errors import failure_of, is_lost

        if self.is_committing and is_lost(error):
            return self._unknown("the connection broke during the commit")
        return failure_of(error, self.tool_id)

    def _unknown(self, what: str) -> EffectUnknown:
        return EffectUnknown(f"{what}; whether it took effect is unknown", tool_id=self.tool_id)
