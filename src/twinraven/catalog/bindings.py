"""Resolves a tool's key into the binding that a connector needs, or the reason why the call must not be made.

This is the gate of the data-defined catalogue. It looks at what is stored now, at every call: a tool that was disabled,
un-shared or found dead a moment ago is not called. What was found dead some time ago is looked at again first, so that
a service comes back by itself; what was never looked at is looked at before its first call is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from twinraven.catalog.model import ToolEntry
from twinraven.catalog.service_model import CONNECTORS, NOT_CHECKED, HealthStatus, Service
from twinraven.catalog.store import Health
from twinraven.catalog.tool_checks import OWNERS_ONLY, fit_params, why_barred
from twinraven.catalog.tool_model import Tool
from twinraven.catalog.transactions import CatalogTransactions, raise_not_found
from twinraven.foundation.clock import iso
from twinraven.foundation.errors import PolicyViolation, ToolUnavailable
from twinraven.storage import Transaction

if TYPE_CHECKING:
    from twinraven.vault import SecretRef

T = TypeVar("T")

RECHECK_AFTER: Final = timedelta(seconds=30)

_ON_SERVICES: Final = frozenset(CONNECTORS.values())

Recheck = Callable[[str, str], Awaitable[Mapping[str, Health]]]
"""Looks at a service, by tenant and id; what was found, by tool id."""

Edition = Callable[[str, str], tuple[int, int] | None]
"""Which states of a tool and of its service are in force, by tenant and key; asks no store."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place that a service is reached at: the parameters, and whose secret opens it."""

    service: Service
    params: dict[str, Any]
    owner_id: str
    secret_ref: SecretRef | None = None


@dataclass(frozen=True, slots=True)
class ToolBinding:
    """A tool that may be called now, with the service it runs on."""

    service: Service
    tool: Tool
    secret_ref: SecretRef | None
    params: dict[str, Any]
    """The tool's connection parameters with the schema's defaults."""

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.service, self.params, self.tool.owner_id, self.secret_ref)


class Bindings:
    """Looks tools up for connectors."""

    def __init__(
        self, acts: CatalogTransactions, *, recheck: Recheck | None = None, edition: Edition | None = None
    ) -> None:
        self._acts = acts
        self._store = acts.store
        self._recheck = recheck
        self._edition = edition
        self._checked: dict[tuple[str, str], tuple[int, int]] = {}
        self._rechecking: dict[tuple[str, str], Future[Mapping[str, Health]]] = {}
        self._looked_at: dict[tuple[str, str], datetime] = {}

    async def binding(
        self, tenant_id: str, key: str, *, caller: str | None = None, definition: str | None = None
    ) -> ToolBinding:
        """Return the binding of a tool's call; NotFound, PolicyViolation or ToolUnavailable where it must not be made.

        `caller` is the user the call runs for. Without one only the tool is judged: whoever asks so has looked it up
        for its caller, and the secret is opened for its owner alone in any case. `definition` is what the tool must
        still be where somebody approved it as that.
        """
        tool, service = await self._find(tenant_id, key, caller)
        if self._recheck is not None and _is_due(tool, service, self._acts.now()):
            await self._look_again(self._recheck, tenant_id, service.service_id)
            tool, service = await self._find(tenant_id, key, caller)
        refuse_unavailable(tool, service)
        if definition is not None and definition != tool.definition(service):
            await self._acts.announce(tenant_id)
            _refuse(tool, service, "it was changed after this call was approved; call it again")
        if caller is not None and not tool.is_runnable_by(caller):
            raise PolicyViolation(f"tool {key!r} {OWNERS_ONLY}", tool_id=key)
        return bind(tool, service)

    def needs_check(self, tenant_id: str, entry: ToolEntry) -> bool:
        """Return whether a tool's service may be unchecked as it is now."""
        if self._edition is None or entry.connector not in _ON_SERVICES:
            return False
        edition = self._edition(tenant_id, entry.tool_id)
        return edition is not None and self._checked.get((tenant_id, entry.tool_id)) != edition

    async def check_first(self, tenant_id: str, entry: ToolEntry, *, caller: str | None) -> None:
        """Check the service of a tool that was never checked; what was found is for `binding` to judge."""
        key = entry.tool_id
        edition = None if self._edition is None else self._edition(tenant_id, key)
        tool, service = await self._find(tenant_id, key, caller)
        may_run = why_barred(tool, service) is None and (caller is None or tool.is_runnable_by(caller))
        if self._recheck is not None and may_run and NOT_CHECKED in (tool.error_message, service.error_message):
            found = await self._await_look(self._recheck, tenant_id, service.service_id)
            refusal = found[tool.tool_id].refusal if tool.tool_id in found else None
            if refusal is not None:
                raise refusal
        if edition is not None:
            self._checked[tenant_id, key] = edition

    async def _find(self, tenant_id: str, key: str, caller: str | None) -> tuple[Tool, Service]:
        def work(tx: Transaction) -> tuple[Tool, Service] | None:
            tool = self._store.tool(tx, tenant_id, key)
            if tool is None or tool.key != key or not (caller is None or tool.is_visible_to(caller)):
                return None
            service = self._store.service(tx, tenant_id, tool.service_id)
            assert service is not None, "the database keeps a tool's service"
            return tool, service

        found = await self._acts.look(tenant_id, work)
        return found if found is not None else raise_not_found("tool", key)

    async def _look_again(self, recheck: Recheck, tenant_id: str, service_id: str) -> None:
        """Check a service again that was found down, unless it was checked just now."""
        place = (tenant_id, service_id)
        now, last = self._acts.now(), self._looked_at.get(place)
        if place in self._rechecking or last is None or now - last >= RECHECK_AFTER:
            await self._await_look(recheck, tenant_id, service_id)

    async def _await_look(self, recheck: Recheck, tenant_id: str, service_id: str) -> Mapping[str, Health]:
        """Callers that want the same service looked at wait for one look, also those who asked before it ended."""
        place = (tenant_id, service_id)
        looking = self._rechecking.get(place)
        if looking is None:
            self._looked_at[place] = self._acts.now()
            # Callers on other event loops wait for it too.
            looking = asyncio.run_coroutine_threadsafe(
                _done(recheck(tenant_id, service_id)), asyncio.get_running_loop()
            )
            self._rechecking[place] = looking
            looking.add_done_callback(lambda _: self._rechecking.pop(place, None))
        return await asyncio.shield(asyncio.wrap_future(looking))


async def _done(work: Awaitable[T]) -> T:
    return await work


def bind(tool: Tool, service: Service) -> ToolBinding:
    """Return a tool and its service as connectors take them."""
    from twinraven.vault import SecretRef

    secret = None if tool.secret_id is None else SecretRef(tool.tenant_id, tool.secret_id)
    return ToolBinding(service, tool, secret, fit_params(service, tool.connection_params))


def refuse_unavailable(tool: Tool, service: Service) -> None:
    """Raise ToolUnavailable, saying why, if a tool must not be called now."""
    why = why_barred(tool, service)
    if why is not None:
        # It does not pass by itself: somebody has to let it be called again.
        _refuse(tool, service, why, retryable=False)
    if service.status is HealthStatus.DOWN:
        _refuse(tool, service, f"its service {service.name!r} is down{_seen(service)}")
    if tool.status is HealthStatus.DOWN:
        _refuse(tool, service, f"it is down{_seen(tool)}")


def _refuse(tool: Tool, service: Service, why: str, *, retryable: bool = True) -> NoReturn:
    error = ToolUnavailable(
        f"tool {tool.key!r} cannot be called: {why}", tool_id=tool.key, service_id=service.service_id, reason=why
    )
    error.retryable = retryable
    raise error


def _seen(item: Service | Tool) -> str:
    when = "" if item.last_health_check is None else f" (checked {iso(item.last_health_check)})"
    return f": {item.error_message or 'no reason was given'}{when}"


def _is_due(tool: Tool, service: Service, now: datetime) -> bool:
    """Return whether the last check found it down, long enough ago to check again."""
    if why_barred(tool, service) is not None:
        return False
    dead = [item.last_health_check for item in (service, tool) if item.status is HealthStatus.DOWN]
    return any(checked is None or now - checked >= RECHECK_AFTER for checked in dead)
