"""Changes the files and rows of tools as one transaction, and recovers unfinished ones.

Whoever changes a tool holds its lock from the first file to the last. New version files come first; the transaction is
the moment it becomes true; then the files are made to say what the rows say, whether it became true or not. If that
last part cannot be done (the process dies, the disk is full), the lock file stays behind as a mark, and the next one to
come finishes it. An act that has begun is not cut short when its caller is cancelled.

After a crash, or a commit that failed, the store may show one thing now and another after the next start: what was
written but not synchronised. So whoever puts such a tool right first commits something of its own, which settles all
that came before, and believes the rows only then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar

from twinraven.catalog import next_version
from twinraven.foundation.errors import StorageError, TwinRavenError
from twinraven.registry import sql
from twinraven.registry.locks import ToolLock, ToolLocks
from twinraven.registry.mirror import Mirror
from twinraven.registry.model import SLUG, RegisteredTool, ToolVersion
from twinraven.registry.tool_folders import METADATA, ToolFolders, version_file
from twinraven.storage import Database, Work

T = TypeVar("T")
Intents = dict[str, list[str]]
"""By tool, the files that come or go: those that no row asks for afterwards are removed."""

_logger = logging.getLogger("twinraven.registry")


class RegistryTransactions:
    """Changes tools, files and rows together, one writer per tool."""

    def __init__(self, database: Database, places: ToolFolders) -> None:
        self._database = database
        self._locks = ToolLocks(places)
        self._mirror = Mirror(places)
        self._recovered: set[str] = set()

    async def perform(
        self,
        tenant_id: str,
        tool_ids: Iterable[str],
        work: Work[T],
        *,
        makes: Sequence[ToolVersion] = (),
        vanishes: str | None = None,
    ) -> T:
        """Change some tools in the transaction `work`; `makes` are the new versions, `vanishes` a tool that goes."""
        return await asyncio.shield(self._perform(tenant_id, list(tool_ids), work, makes, vanishes))

    async def recover(self, tenant_id: str) -> list[str]:
        """Finish what others began and did not survive; gives the tools that were put right."""
        mended: list[str] = []
        for tool_id in await asyncio.to_thread(self._locks.marked, tenant_id):
            if not SLUG.fullmatch(tool_id):
                continue
            lock = await asyncio.to_thread(self._locks.try_acquire, tenant_id, tool_id)
            if lock is not None and await self._settle(tenant_id, lock, lock.leftovers, is_sure=False):
                mended.append(tool_id)
        self._recovered.add(tenant_id)
        return mended

    async def _perform(
        self,
        tenant_id: str,
        tool_ids: list[str],
        work: Work[T],
        makes: Sequence[ToolVersion],
        vanishes: str | None,
    ) -> T:
        if tenant_id not in self._recovered:
            await self.recover(tenant_id)
        locks = await self._locks.acquire(tenant_id, tool_ids)
        intents: Intents = {}
        is_sure = True
        try:
            for lock in locks:
                if lock.is_marked:
                    await self._mend(tenant_id, lock.tool_id, lock.leftovers, is_sure=False)
            new = await self._unknown(tenant_id, makes)
            intents = await self._intents(tenant_id, new, vanishes)
            await asyncio.to_thread(_write_down, locks, intents)
            for version in new:
                await asyncio.to_thread(self._mirror.write_version, tenant_id, version)
            return await self._database.write(tenant_id, work)
        except StorageError:
            is_sure = False
            raise
        finally:
            for lock in locks:
                await self._settle(tenant_id, lock, intents.get(lock.tool_id, ()), is_sure=is_sure)

    async def _unknown(self, tenant_id: str, makes: Sequence[ToolVersion]) -> list[ToolVersion]:
        """Return the versions whose files are to be made; where something stands in their way, nothing is begun."""
        new: list[ToolVersion] = []
        for version in makes:
            known = await self._rows(tenant_id, version.tool_id)
            if known is None or known.version(version.version) is None:
                await asyncio.to_thread(self._mirror.refuse_strangers, tenant_id, version, known)
                new.append(version)
        return new

    async def _intents(self, tenant_id: str, new: Sequence[ToolVersion], vanishes: str | None) -> Intents:
        intents: Intents = {}
        for version in new:
            intents.setdefault(version.tool_id, [METADATA]).append(version_file(version.version))
        gone = None if vanishes is None else await self._rows(tenant_id, vanishes)
        if gone is not None:
            intents[gone.record.tool_id] = [METADATA, *(version_file(each.version) for each in gone.versions)]
        return intents

    async def _settle(self, tenant_id: str, lock: ToolLock, leftovers: Sequence[str], *, is_sure: bool) -> bool:
        try:
            await self._mend(tenant_id, lock.tool_id, leftovers, is_sure=is_sure)
            await asyncio.to_thread(lock.finish)
        except (TwinRavenError, OSError) as error:
            lock.leave()
            _logger.warning("the files of %r could not be written and will be later: %s", lock.tool_id, error)
            return False
        return True

    async def _mend(self, tenant_id: str, tool_id: str, leftovers: Sequence[str], *, is_sure: bool) -> None:
        if not is_sure:
            await self._database.write(tenant_id, lambda tx: next_version(tx, tenant_id))
        tool = await self._rows(tenant_id, tool_id)
        await asyncio.to_thread(self._mirror.sync, tenant_id, tool_id, tool, leftovers)

    async def _rows(self, tenant_id: str, tool_id: str) -> RegisteredTool | None:
        return await self._database.read(tenant_id, lambda tx: sql.tool(tx, tenant_id, tool_id))


def _write_down(locks: Sequence[ToolLock], intents: Intents) -> None:
    for lock in locks:
        lock.intend(intents.get(lock.tool_id, ()))
