"""Saves processes as versions, shows them, compares them, and starts runs of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final

from twinraven.audit import AuditLog, NewAuditEntry
from twinraven.catalog import Catalog, ToolEntry, next_version
from twinraven.engine import Run, RunRequest, Runs
from twinraven.flow import FlowDefinition, invalid
from twinraven.foundation.canonical import JsonObject, canonical_json
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import Conflict, NotFound, PolicyViolation, ToolUnavailable
from twinraven.processes.checks import check_process
from twinraven.processes.compile import ProcessLookup, compile_process
from twinraven.processes.differences import Difference, differences
from twinraven.processes.model import Process, ProcessVersion
from twinraven.processes.opening import OpenedProcess, open_as_process
from twinraven.processes.sql import ProcessStore, calls
from twinraven.processes.tools import ProcessTools
from twinraven.storage import Database, Transaction
from twinraven.tenancy import Principal

ProcessUsage = Callable[[Transaction, str, str], list[str]]
"""Says, for a tenant and a process, what refers to it, each in a few words."""

_KIND: Final = "process"


class Processes:
    """Manages the processes of all tenants: all users of a tenant see them, owners and administrators change them."""

    def __init__(
        self,
        database: Database,
        tools: ProcessTools,
        *,
        catalog: Callable[[], Catalog],
        runs: Callable[[], Runs],
        audit: AuditLog,
        holds_secret: Callable[[str, bytes], bool],
        micros: Callable[[], int],
        learned: Callable[[str, str], FlowDefinition],
    ) -> None:
        """`learned` gives, for a tenant, the definition of a learned tool in service, or raises NotFound."""
        self._database = database
        self._learned = learned
        self._tools = tools
        self._catalog = catalog
        self._runs = runs
        self._audit = audit
        self._holds_secret = holds_secret
        self._micros = micros
        self._store = ProcessStore()
        self._usages: list[ProcessUsage] = []

    def register_usage(self, usage: ProcessUsage) -> None:
        """Register a callback that names references to a process, so that it is not deleted."""
        self._usages.append(usage)

    async def check(self, process: Process, *, by: Principal) -> FlowDefinition:
        """Return the flow that a process would run; InvalidDefinition names the place of what is wrong."""
        return await self._database.read(by.tenant_id, lambda tx: self._checked(tx, process, by))

    async def save(self, process: Process, *, by: Principal, expected_version: int | None = None) -> ProcessVersion:
        """Save a new version and put it in force; one that says the same as the last is that version."""
        text = canonical_json(process.as_json())
        if self._holds_secret(by.tenant_id, text):
            raise invalid(_KIND, "holds a secret of the tenant; put it into the vault and let a tool use it")

        def work(tx: Transaction) -> ProcessVersion:
            next_version(tx, by.tenant_id)  # waits for whoever saves right now
            before = self._store.find(tx, by.tenant_id, process.id)
            if before is not None:
                _refuse_stranger(before, by)
            if expected_version is not None and expected_version != (0 if before is None else before.version):
                found = "none" if before is None else str(before.version)
                raise Conflict(f"the version in force is {found}, not {expected_version}", process_id=process.id)
            self._checked(tx, process, by)
            if before is not None and before.process == process:
                return before
            return self._add(tx, process, before, text.decode(), by)

        saved = await self._database.write(by.tenant_id, work)
        await self._tools.refresh(by.tenant_id)
        return saved

    async def list(self, tenant_id: str) -> tuple[ProcessVersion, ...]:
        """List all processes in the version in force, by id."""
        return tuple(await self._database.read(tenant_id, lambda tx: self._store.current(tx, tenant_id)))

    async def get(self, tenant_id: str, process_id: str, *, version: int | None = None) -> ProcessVersion:
        """Return a process in force, or one of its versions; NotFound where there is none."""
        if version is not None:
            found = next((each for each in await self.versions(tenant_id, process_id) if each.version == version), None)
        else:
            found = await self._database.read(tenant_id, lambda tx: self._store.find(tx, tenant_id, process_id))
        if found is None:
            which = "" if version is None else f" in version {version}"
            raise NotFound(f"there is no process {process_id!r}{which}", process_id=process_id)
        return found

    async def versions(self, tenant_id: str, process_id: str) -> tuple[ProcessVersion, ...]:
        """Return all versions, the newest first; those of a deleted process stay."""
        found = await self._database.read(tenant_id, lambda tx: self._store.versions(tx, tenant_id, process_id))
        if not found:
            raise NotFound(f"there is no process {process_id!r}", process_id=process_id)
        return tuple(found)

    async def diff(
        self, tenant_id: str, process_id: str, *, before: int | None = None, after: int | None = None
    ) -> tuple[Difference, ...]:
        """Compare two versions of a process; by default the last two."""
        newest = (await self.versions(tenant_id, process_id))[0].version
        later = newest if after is None else after
        earlier = max(1, later - 1) if before is None else before
        one = await self.get(tenant_id, process_id, version=earlier)
        other = await self.get(tenant_id, process_id, version=later)
        return differences(one.process, other.process)

    async def enable(self, process_id: str, *, enabled: bool, by: Principal) -> ProcessVersion:
        """Enable or disable a process, which is a new version like every change."""
        before = await self.get(by.tenant_id, process_id)
        return await self.save(replace(before.process, enabled=enabled), by=by, expected_version=before.version)

    async def delete(self, process_id: str, *, by: Principal) -> None:
        """Take a process out of force where nothing refers to it; its versions and runs stay."""

        def work(tx: Transaction) -> None:
            next_version(tx, by.tenant_id)
            before = self._store.find(tx, by.tenant_id, process_id)
            if before is None:
                raise NotFound(f"there is no process {process_id!r}", process_id=process_id)
            _refuse_stranger(before, by)
            current = self._store.current(tx, by.tenant_id)
            users = [f"process {each.process.id!r}" for each in current if calls(each.process, sub_process=process_id)]
            users += [user for usage in self._usages for user in usage(tx, by.tenant_id, process_id)]
            if users:
                raise Conflict(f"{process_id!r} is used by {', '.join(users[:5])}", process_id=process_id)
            self._store.remove(tx, by.tenant_id, process_id)
            self._tell(tx, "process.deleted", process_id, by, version=before.version)

        await self._database.write(by.tenant_id, work)
        await self._tools.refresh(by.tenant_id)

    async def open(self, tool_id: str, *, by: Principal, process_id: str | None = None) -> OpenedProcess:
        """Open a learned tool in service as a process to edit; nothing is saved."""
        self._catalog().resolve(by.tenant_id, tool_id, by.user_id)
        return open_as_process(self._learned(by.tenant_id, tool_id), process_id or f"{tool_id}-process")

    async def run(
        self,
        process_id: str,
        parameters: JsonObject,
        *,
        by: Principal,
        run_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Run:
        """Start a durable run of the version in force; the run keeps it, whatever is saved later."""
        await self._tools.refresh(by.tenant_id)
        flow = self._tools.flow(by.tenant_id, process_id)
        if flow is None:
            raise NotFound(f"there is no process {process_id!r}", process_id=process_id)
        return await self._runs().start(
            RunRequest(parameters, definition=flow, run_id=run_id, timeout_s=timeout_s), by=by
        )

    async def executable(
        self, tenant_id: str, process_id: str, *, version: int | None = None
    ) -> tuple[ProcessVersion, FlowDefinition]:
        """Return a version of an enabled process, by default the one in force, and its flow."""

        def work(tx: Transaction) -> tuple[ProcessVersion, FlowDefinition]:
            chosen = self._store.find(tx, tenant_id, process_id)
            if chosen is None:
                raise NotFound(f"there is no process {process_id!r}", process_id=process_id)
            if not chosen.process.enabled:
                raise ToolUnavailable(f"the process {process_id!r} is disabled", tool_id=process_id)
            if version is not None and version != chosen.version:
                versions = self._store.versions(tx, tenant_id, process_id)
                chosen = next((each for each in versions if each.version == version), None)
                if chosen is None:
                    raise NotFound(f"there is no process {process_id!r} in version {version}", process_id=process_id)
            return chosen, compile_process(chosen.process, self._finder(tx, tenant_id))

        return await self._database.read(tenant_id, work)

    def _checked(self, tx: Transaction, process: Process, by: Principal) -> FlowDefinition:
        catalog = self._catalog()
        if catalog.holder(by.tenant_id, process.id, besides=self._tools) is not None:
            raise invalid("id", f"{process.id!r} is the name of a tool; choose another")

        def find(tool_id: str) -> tuple[ToolEntry | None, str | None]:
            try:
                entry = catalog.resolve(by.tenant_id, tool_id, by.user_id)
            except NotFound:
                return None, None
            return entry, catalog.why_not(by.tenant_id, by.user_id, entry)

        return check_process(process, self._finder(tx, by.tenant_id), find)

    def _finder(self, tx: Transaction, tenant_id: str) -> ProcessLookup:
        """Finds processes in force, each once: those that a step names, not all that the tenant has."""

        @cache
        def find(process_id: str) -> Process | None:
            found = self._store.find(tx, tenant_id, process_id)
            return None if found is None else found.process

        return find

    def _add(
        self, tx: Transaction, process: Process, before: ProcessVersion | None, text: str, by: Principal
    ) -> ProcessVersion:
        now = from_micros(self._micros())
        earlier = self._store.versions(tx, by.tenant_id, process.id)
        saved = ProcessVersion(
            process=process,
            version=earlier[0].version + 1 if earlier else 1,
            owner_id=by.user_id if before is None else before.owner_id,
            saved_by=str(by.actor),
            created_at=now if before is None else before.created_at,
            updated_at=now,
        )
        self._store.add(tx, by.tenant_id, saved, text)
        self._tell(tx, "process.saved", process.id, by, version=saved.version, enabled=process.enabled)
        return saved

    def _tell(self, tx: Transaction, event: str, process_id: str, by: Principal, **data: Any) -> None:
        self._audit.append(
            tx,
            NewAuditEntry(
                tenant_id=by.tenant_id,
                event_type=event,
                subject_type=_KIND,
                subject_id=process_id,
                actor=by.actor,
                data=data,
            ),
        )


def _refuse_stranger(before: ProcessVersion, by: Principal) -> None:
    if by.role != "admin" and before.owner_id != by.user_id:
        raise PolicyViolation(
            f"the process {before.process.id!r} belongs to somebody else", process_id=before.process.id
        )
