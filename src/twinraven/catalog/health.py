"""Checks the health of services through their tools, because only tools know an address.

Each different place that the tools of a service connect to is probed once. A tool is as healthy as its place; a service
is healthy if all its places are, down if none can be reached, and degraded between the two. What is found is stored
only if nothing was changed while it was looked at, and told to the witness only if it is news.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from twinraven.catalog.bindings import Endpoint, bind
from twinraven.catalog.check_sql import CheckSummary, add_check, sum_up_checks
from twinraven.catalog.ports import Redact
from twinraven.catalog.service_model import HealthStatus, Service, ServiceType
from twinraven.catalog.services import Services
from twinraven.catalog.store import Health
from twinraven.catalog.tool_checks import fit_params, why_stopped
from twinraven.catalog.tool_model import Tool
from twinraven.catalog.transactions import CatalogTransaction, CatalogTransactions, owned, raise_not_found
from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidDefinition, NotFound, ToolUnavailable, TwinRavenError
from twinraven.storage import Transaction
from twinraven.tenancy import Principal

PROBE_TIMEOUT_S: Final = 10.0
LONGEST_LOOK_S: Final = 60.0
"""How long a look may take that a call waits for, unless the setting gives more: a call has a limit of its own."""

PROBES_AT_ONCE: Final = 8
NOTHING_TO_PROBE: Final = "no tool on it states an address to check"

_LONGEST_MESSAGE: Final = 500
_logger = logging.getLogger("twinraven.health")


class HealthProbe(Protocol):
    """Looks at an endpoint of one type of service; connectors provide it. What it raises counts as down."""

    async def probe(self, endpoint: Endpoint) -> Health: ...


@dataclass(frozen=True, slots=True)
class _Round:
    """One service with the tools that can be looked at, and what was found."""

    service: Service
    tools: tuple[Tool, ...]
    found: Mapping[str, Health]
    """By tool id."""
    verdict: Health
    took_ms: int
    """How long it took until all places had answered."""


class HealthChecks:
    """Looks at services and remembers what it found."""

    def __init__(
        self,
        acts: CatalogTransactions,
        services: Services,
        probes: Mapping[ServiceType, HealthProbe],
        *,
        redact: Redact | None = None,
        timeout_s: float = PROBE_TIMEOUT_S,
    ) -> None:
        """`redact` replaces secrets in what probes say, since a service may repeat what it was given."""
        self._acts = acts
        self._store = acts.store
        self._services = services
        self._probes = probes
        self._redact = redact
        self._timeout_s = timeout_s

    async def check_health(self, who: Principal, ref: str) -> Service:
        """Look at a service of the user's now."""
        service = await self._services.service(who, ref)
        return await self.check(who.tenant_id, owned(service, who.user_id, "service", ref).service_id)

    async def check(self, tenant_id: str, service_id: str) -> Service:
        """Check a service now, as the system; a disabled one is not checked."""
        return (await self._check(tenant_id, service_id, self._timeout_s))[0]

    async def check_for_call(self, tenant_id: str, service_id: str) -> Mapping[str, Health]:
        """Look at a service because a call waits, which has a time of its own; what was found, by tool id."""
        return (await self._check(tenant_id, service_id, max(LONGEST_LOOK_S, self._timeout_s)))[1]

    async def _check(self, tenant_id: str, service_id: str, timeout_s: float) -> tuple[Service, Mapping[str, Health]]:
        def look(tx: Transaction) -> tuple[Service, list[Tool]]:
            service = self._store.service(tx, tenant_id, service_id)
            if service is None:
                raise_not_found("service", service_id)
            return service, self._store.tools_on(tx, tenant_id, service_id)

        service, tools = await self._acts.look(tenant_id, look)
        if not service.enabled:
            return service, {}
        probe = self._probes.get(service.type)
        if probe is None:
            raise ToolUnavailable(f"nothing here can check a {service.type}", service_id=service_id)
        going = [tool for tool in tools if why_stopped(tool, service) is None]
        done = await self._probe_all(probe, service, going, timeout_s)
        return await self._acts.perform_unasked(tenant_id, lambda act: self._note(act, done)), done.found

    async def check_due(self, tenant_id: str, *, older_than: timedelta) -> list[Service]:
        """Check every enabled service whose last check is older than this, for periodic callers."""
        since = self._acts.now() - older_than
        services = await self._acts.look(tenant_id, lambda tx: self._store.services(tx, tenant_id))
        due = [
            service.service_id
            for service in services
            if service.enabled
            and service.type in self._probes
            and (service.last_health_check is None or service.last_health_check <= since)
        ]
        found: list[Service] = []
        for service_id in due:
            # One that was deleted meanwhile needs no look.
            with suppress(NotFound):
                found.append(await self.check(tenant_id, service_id))
        return found

    async def _probe_all(self, probe: HealthProbe, service: Service, tools: Sequence[Tool], timeout_s: float) -> _Round:
        places = _places(service, tools)
        limit = asyncio.Semaphore(PROBES_AT_ONCE)

        async def look(endpoint: Endpoint) -> Health:
            async with limit:
                return await self._probe(probe, endpoint, timeout_s)

        begun = time.perf_counter()
        answers = await asyncio.gather(*(look(endpoint) for endpoint, _ in places))
        took_ms = round(1000 * (time.perf_counter() - begun))
        found = {tool_id: health for (_, ids), health in zip(places, answers, strict=True) for tool_id in ids}
        return _Round(service, tuple(tools), found, _verdict(answers), took_ms)

    async def _probe(self, probe: HealthProbe, endpoint: Endpoint, timeout_s: float) -> Health:
        try:
            async with asyncio.timeout(timeout_s):
                return await probe.probe(endpoint)
        except TimeoutError:
            return Health(HealthStatus.DOWN, f"did not answer within {timeout_s:g} s (connectors.health_timeout_s)")
        except TwinRavenError as error:
            return Health.of_error(error)
        except OSError as error:
            return Health(HealthStatus.DOWN, f"{type(error).__name__}: {error}")
        except Exception as error:  # foreign code: whatever a probe raises says that it failed
            _logger.exception("a check of the service %s failed", endpoint.service.service_id)
            return Health(HealthStatus.DOWN, f"it could not be checked: {type(error).__name__}; the log says more")

    def _note(self, act: CatalogTransaction, done: _Round) -> Service:
        """Store what was found of what is still as it was; what changed meanwhile will be looked at again."""
        for tool in done.tools:
            health = self._presentable(done.found[tool.tool_id], act)
            if self._store.set_tool_health(act.tx, tool, health) and tool.status is not health.status:
                _tell(act, "tool", tool.tool_id, health)
        service, verdict = done.service, self._presentable(done.verdict, act)
        if self._store.set_service_health(act.tx, service, verdict) and service.status is not verdict.status:
            _tell(act, "service", service.service_id, verdict)
        stored = self._store.service(act.tx, act.tenant_id, service.service_id)
        if stored is None:
            return service
        # A service that states no address was not looked at, and took no time for that.
        if done.verdict.message != NOTHING_TO_PROBE:
            add_check(act.tx, act.tenant_id, service.service_id, verdict, done.took_ms)
        return stored

    async def history(
        self, who: Principal, since: datetime, until: datetime, *, width: timedelta
    ) -> list[tuple[Service, CheckSummary]]:
        """Return the health checks of the services that a user sees, in a time span."""
        visible = await self._services.services(who)
        found = await self._acts.look(
            who.tenant_id, lambda tx: sum_up_checks(tx, who.tenant_id, since, until, width=width)
        )
        return [(service, found.get(service.service_id, CheckSummary())) for service in visible]

    def _presentable(self, health: Health, act: CatalogTransaction) -> Health:
        """Return a finding as it can be stored: without secrets, and of bounded length."""
        message = None if health.status is HealthStatus.HEALTHY else health.message
        if message is not None and self._redact is not None:
            message = str(parse_json(self._redact(act.tenant_id, canonical_json(message))))
        if message is not None:
            message = message[:_LONGEST_MESSAGE].replace("\x00", "")
        return replace(health, message=message, at=act.now)


def _places(service: Service, tools: Sequence[Tool]) -> list[tuple[Endpoint, list[str]]]:
    """Return each different place that tools connect to, with the tools that do.

    One without tools if defaults suffice.
    """
    places: dict[tuple[bytes, str | None, str], tuple[Endpoint, list[str]]] = {}
    for tool in tools:
        endpoint = bind(tool, service).endpoint
        key = (canonical_json(endpoint.params), tool.secret_id, tool.owner_id)
        places.setdefault(key, (endpoint, []))[1].append(tool.tool_id)
    if not places and not service.structure.requires_secret:
        try:
            params = fit_params(service, {})
        except InvalidDefinition:
            return []
        return [(Endpoint(service, params, service.owner_id), [])]
    return list(places.values())


def _verdict(answers: Iterable[Health]) -> Health:
    """Return a service's health from that of its places."""
    found = list(answers)
    if not found:
        return Health(HealthStatus.DEGRADED, NOTHING_TO_PROBE)
    worse = [health for health in found if health.status is not HealthStatus.HEALTHY]
    if not worse:
        return Health(HealthStatus.HEALTHY)
    is_dead = all(health.status is HealthStatus.DOWN for health in found)
    message = worse[0].message or worse[0].status.value
    more = f" (and {len(worse) - 1} more of {len(found)})" if len(worse) > 1 else ""
    return Health(HealthStatus.DOWN if is_dead else HealthStatus.DEGRADED, message + more)


def _tell(act: CatalogTransaction, kind: str, subject_id: str, health: Health) -> None:
    act.tell(f"{kind}.health_changed", kind, subject_id, status=health.status.value, message=health.message)
