"""Verifies that files and rows agree, and rebuilds either from the other.

The rows are the truth; the files are for people, for version control, and for the day the rows are gone. So verifying
looks at every file without trusting any, and says of each disagreement what it is and what would settle it. Rebuilding
files writes what the rows say and removes what stands in its place; whole folders that no row knows are left to people.
Rebuilding rows takes in what the files say, except where they are older than the rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from twinraven.catalog import next_version
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.clock import from_micros
from twinraven.foundation.errors import Conflict, TwinRavenError
from twinraven.registry import sql, usage
from twinraven.registry.folders import SafeFolder, UnsafePath, is_temporary
from twinraven.registry.locks import ToolLocks
from twinraven.registry.metadata import encode_metadata, read_tool, same_state
from twinraven.registry.mirror import Mirror
from twinraven.registry.model import SLUG, SYSTEM, RegisteredTool, RegistryChange
from twinraven.registry.ports import Announce, AuditRegistryChange
from twinraven.registry.tool_folders import LOCKS, METADATA, ToolFolders, is_tenant_folder, version_file, version_number
from twinraven.storage import DEFAULT_TENANT, Database, Transaction

Kind = Literal["missing", "differs", "unknown", "refused", "unfinished"]

# What tools that watch or version folders leave in them.
_TOLERATED: Final = frozenset({".git", ".gitignore", ".gitattributes", ".gitkeep", ".DS_Store", "README.md", LOCKS})


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One place where files and rows do not say the same."""

    tool_id: str | None
    path: str
    kind: Kind
    what: str
    settled_by: str | None = None
    """What would settle it: `files` or `rows`, rebuilt."""

    def as_json(self) -> JsonObject:
        return {
            "tool_id": self.tool_id,
            "path": self.path,
            "kind": self.kind,
            "what": self.what,
            "settled_by": self.settled_by,
        }


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """The report of a rebuild: repaired tools, and those that were left, each with the reason."""

    tools: tuple[str, ...]
    left: dict[str, str]


class Verification:
    """Compares and rebuilds, for one machine's folder."""

    def __init__(
        self, database: Database, places: ToolFolders, *, witness: AuditRegistryChange, announce: Announce | None = None
    ) -> None:
        self._database = database
        self._places = places
        self._locks = ToolLocks(places)
        self._witness = witness
        self._announce = announce

    async def verify(self, tenant_id: str) -> list[Disagreement]:
        """Return every disagreement of a tenant's tools, by place."""
        rows = await self._all_rows(tenant_id)
        return await asyncio.to_thread(lambda: list(self._compare(tenant_id, rows)))

    async def rebuild_files(self, tenant_id: str) -> RebuildReport:
        """Write every tool's files from its rows."""
        done: list[str] = []
        left: dict[str, str] = {}
        for tool_id in await self._all_rows(tenant_id):
            try:
                await self._locked(tenant_id, tool_id, lambda found: self._rewrite(tenant_id, found))
                done.append(tool_id)
            except (TwinRavenError, OSError) as error:
                left[tool_id] = str(error)
        return RebuildReport(tuple(done), left)

    async def rebuild_rows(self, tenant_id: str, *, by: str = SYSTEM) -> RebuildReport:
        """Take in every tool whose files say something else than its rows, unless the rows are newer."""
        on_disk, left = await asyncio.to_thread(self._read_all, tenant_id)
        done: list[str] = []
        for tool_id, found in on_disk.items():
            try:
                if await self._take_in(tenant_id, found, by=by):
                    done.append(tool_id)
            except TwinRavenError as error:
                left[tool_id] = error.message
        if done and self._announce is not None:
            await self._announce(tenant_id)
        return RebuildReport(tuple(done), left)

    async def _all_rows(self, tenant_id: str) -> dict[str, RegisteredTool]:
        def work(tx: Transaction) -> dict[str, RegisteredTool]:
            found = (sql.tool(tx, tenant_id, record.tool_id) for record in sql.records(tx, tenant_id))
            return {tool.record.tool_id: tool for tool in found if tool is not None}

        return await self._database.read(tenant_id, work)

    def _compare(self, tenant_id: str, rows: dict[str, RegisteredTool]) -> Iterator[Disagreement]:
        with self._places.tenant(tenant_id) as folder:
            names = [] if folder is None else folder.names()
            for name in names:
                if folder is None or name in rows or self._is_elsewhere(tenant_id, name):
                    continue
                yield _stranger(folder, tenant_id, name)
            for tool_id, tool in rows.items():
                if folder is None or tool_id not in names:
                    place = (self._places.root / tool.record.definition_path).parent
                    yield Disagreement(tool_id, str(place), "missing", "the tool has no folder", "files")
                else:
                    yield from _compare_tool(folder, tool)
        for tool_id in self._locks.marked(tenant_id):
            why = "somebody is changing it, or died doing so"
            yield Disagreement(tool_id, str(self._places.root / LOCKS / tool_id), "unfinished", why, "files")

    @staticmethod
    def _is_elsewhere(tenant_id: str, name: str) -> bool:
        """Return whether a name in a tenant's folder is none of its tools' business."""
        return name in _TOLERATED or (tenant_id == DEFAULT_TENANT and is_tenant_folder(name))

    async def _locked(self, tenant_id: str, tool_id: str, write: Callable[[RegisteredTool | None], None]) -> None:
        (lock,) = await self._locks.acquire(tenant_id, [tool_id])
        with ExitStack() as undo:
            undo.callback(lock.leave)
            found = await self._database.read(tenant_id, lambda tx: sql.tool(tx, tenant_id, tool_id))
            await asyncio.to_thread(write, found)
            undo.pop_all()
        await asyncio.to_thread(lock.finish)

    def _rewrite(self, tenant_id: str, tool: RegisteredTool | None) -> None:
        """Make a folder hold exactly what the rows say."""
        if tool is None:
            return
        wanted = {version_file(each.version): each.text.encode() for each in tool.versions}
        with self._places.tool(tenant_id, tool.record.tool_id, create=True) as folder:
            assert folder is not None
            for name in folder.names():
                if is_temporary(name) or _is_in_the_way(folder, name, wanted):
                    folder.remove(name)
        Mirror(self._places).sync(tenant_id, tool.record.tool_id, tool)

    def _read_all(self, tenant_id: str) -> tuple[dict[str, RegisteredTool], dict[str, str]]:
        """Read every tool the files describe, and why the others cannot be read."""
        found: dict[str, RegisteredTool] = {}
        left: dict[str, str] = {}
        with self._places.tenant(tenant_id) as folder:
            for name in [] if folder is None else folder.names():
                if folder is None or self._is_elsewhere(tenant_id, name):
                    continue
                try:
                    tool = _read_folder(folder, tenant_id, name)
                except UnsafePath as refusal:
                    left[name] = refusal.message
                    continue
                if tool is not None:
                    found[name] = tool
        return found, left

    async def _take_in(self, tenant_id: str, found: RegisteredTool, *, by: str) -> bool:
        """Make a tool's rows say what its files say; says whether they said something else."""

        def work(tx: Transaction) -> bool:
            known = sql.tool(tx, tenant_id, found.record.tool_id)
            if known is not None and _says_same(known, found):
                return False
            if known is not None and known.record.revision > found.record.revision:
                raise Conflict(
                    f"the rows are newer (revision {known.record.revision}) than the files "
                    f"(revision {found.record.revision}); rebuild the files instead",
                    tool_id=found.record.tool_id,
                )
            revision = next_version(tx, tenant_id, above=found.record.revision)
            self._replace(tx, known, found, revision)
            data: dict[str, Any] = {"versions": [version.version for version in found.versions]}
            change = RegistryChange(
                tenant_id, "tool.rebuilt", found.record.tool_id, found.record.current_version, by, data
            )
            self._witness(tx, change)
            return True

        changed = await self._database.write(tenant_id, work)
        if changed:
            await self._locked(tenant_id, found.record.tool_id, lambda tool: self._rewrite(tenant_id, tool))
        return changed

    def _replace(self, tx: Transaction, known: RegisteredTool | None, found: RegisteredTool, revision: int) -> None:
        tenant_id = found.record.tenant_id
        usage.begin(tx, tenant_id)
        if known is not None:
            sql.remove(tx, known)
        counts = [found.record.invocation_count, 0 if known is None else known.record.invocation_count]
        used = [found.record.last_used_at, None if known is None else known.record.last_used_at]
        recorded = usage.recorded_uses(tx, tenant_id, found.record.tool_id, registered_at=found.record.registered_at)
        if recorded is not None:
            counts.append(recorded.calls)
            used.append(from_micros(recorded.last_used_at))
        record = replace(
            found.record,
            revision=revision,
            invocation_count=max(counts),
            last_used_at=max((moment for moment in used if moment is not None), default=None),
        )
        sql.save(tx, None, replace(found, record=record))


def _stranger(folder: SafeFolder, tenant_id: str, name: str) -> Disagreement:
    place = str(folder.path / name)
    try:
        tool = _read_folder(folder, tenant_id, name)
    except UnsafePath as refusal:
        return Disagreement(name if SLUG.fullmatch(name) else None, refusal.path, "refused", refusal.why)
    if tool is None:
        return Disagreement(name, place, "unknown", "a folder without any version")
    return Disagreement(name, place, "unknown", "a tool that the rows do not know", "rows")


def _read_folder(folder: SafeFolder, tenant_id: str, name: str) -> RegisteredTool | None:
    if not SLUG.fullmatch(name):
        raise UnsafePath(str(folder.path / name), "is not named as a tool could be")
    with folder.child(name) as inside:
        return None if inside is None else read_tool(inside, tenant_id, name)


def _compare_tool(folder: SafeFolder, tool: RegisteredTool) -> Iterator[Disagreement]:
    tool_id = tool.record.tool_id
    try:
        with folder.child(tool_id) as inside:
            if inside is not None:
                yield from _compare_files(inside, tool)
    except UnsafePath as refusal:
        yield Disagreement(tool_id, refusal.path, "refused", refusal.why, "files")


def _compare_files(folder: SafeFolder, tool: RegisteredTool) -> Iterator[Disagreement]:
    tool_id = tool.record.tool_id
    wanted = {version_file(each.version): each.text.encode() for each in tool.versions}
    for name in folder.names():
        if name not in wanted and name != METADATA and name not in _TOLERATED:
            yield Disagreement(tool_id, str(folder.path / name), "unknown", "no row knows this file", "files")
    for name, text in (*wanted.items(), (METADATA, encode_metadata(tool))):
        place = str(folder.path / name)
        try:
            body = folder.read(name)
        except UnsafePath as refusal:
            yield Disagreement(tool_id, refusal.path, "refused", refusal.why, "files")
            continue
        if body is None:
            yield Disagreement(tool_id, place, "missing", "the file is not there", "files")
        elif not (same_state(body, text) if name == METADATA else body == text):
            yield Disagreement(tool_id, place, "differs", "the file says something else than the row", "files")


def _is_in_the_way(folder: SafeFolder, name: str, wanted: dict[str, bytes]) -> bool:
    """Return whether a file must go before the right one can be written."""
    if name != METADATA and version_number(name) is None:
        return False
    try:
        return folder.read(name) != wanted.get(name) and name != METADATA
    except UnsafePath:
        return True


def _says_same(known: RegisteredTool, found: RegisteredTool) -> bool:
    return known.versions == found.versions and same_state(encode_metadata(known), encode_metadata(found))
