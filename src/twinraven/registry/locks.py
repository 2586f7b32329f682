"""Locks each tool's files for one writer, and marks those that a dead writer left unfinished.

The lock of a tool is a file of its own, held with `flock` from before the first change until files and rows agree
again, and removed with the last of it. Locks end with their process; so a lock file that nobody holds says that whoever
held it died in between, and names the tool whose files must be compared with the rows. A start therefore has nothing to
search.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, cast

import orjson

from twinraven.foundation.errors import StorageBusy
from twinraven.registry.folders import NO_SURPRISES, SafeFolder, UnsafePath
from twinraven.registry.model import check_slug
from twinraven.registry.tool_folders import ToolFolders

PATIENCE_S: Final = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.1
_MOST_NAMES: Final = 1_000_000
_OPEN: Final = os.O_RDWR | NO_SURPRISES


class ToolLock:
    """The right to change one tool's files."""

    def __init__(self, places: ToolFolders, tenant_id: str, tool_id: str, descriptor: int, *, is_marked: bool) -> None:
        self._places = places
        self._tenant_id = tenant_id
        self._descriptor: int | None = descriptor
        self.is_marked = is_marked
        """Whether an earlier holder died under it."""
        self.tool_id = tool_id

    @property
    def leftovers(self) -> list[str]:
        """The files that a dead writer meant to make or remove: without rows that ask for them, they must go."""
        if not self.is_marked or self._descriptor is None:
            return []
        try:
            names = orjson.loads(os.pread(self._descriptor, _MOST_NAMES, 0))
        except orjson.JSONDecodeError:
            # It died while it wrote this down, and therefore before it touched anything.
            return []
        if not isinstance(names, list):
            return []
        return [name for name in cast("list[Any]", names) if isinstance(name, str)]

    def intend(self, names: Sequence[str]) -> None:
        """Write down, before it happens, which files will come or go."""
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, orjson.dumps(list(names)), 0)
        os.fsync(self._descriptor)

    def finish(self) -> None:
        """Files and rows agree: nothing is left to mark."""
        try:
            with self._places.locks(self._tenant_id) as folder:
                if folder is not None:
                    folder.remove(self.tool_id)
        finally:
            self.leave()

    def leave(self) -> None:
        """Let others in and leave the file, if it is still there: this tool must be looked at."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def give_up(self) -> None:
        """Nothing was done under this lock; a mark that was there before stays."""
        if self.is_marked:
            self.leave()
        else:
            self.finish()


class ToolLocks:
    """The locks of all tools on this machine."""

    def __init__(self, places: ToolFolders, *, patience_s: float = PATIENCE_S) -> None:
        self._places = places
        self._patience_s = patience_s

    async def acquire(self, tenant_id: str, tool_ids: Sequence[str]) -> list[ToolLock]:
        """Acquire the locks of some tools in one global order, so that there is no deadlock."""
        held: list[ToolLock] = []
        with ExitStack() as undo:
            for tool_id in sorted(set(tool_ids)):
                lock = await self._wait_for(tenant_id, tool_id)
                undo.callback(lock.give_up)
                held.append(lock)
            undo.pop_all()
        return held

    def try_acquire(self, tenant_id: str, tool_id: str) -> ToolLock | None:
        """Acquire the lock, or return None where it is held."""
        import fcntl  # Unix alone has it; the module can be imported elsewhere.

        check_slug(tool_id)
        with self._places.locks(tenant_id, create=True) as folder:
            assert folder is not None
            while True:
                descriptor, is_marked = _open_lock(folder, tool_id)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _is_in_place(folder, tool_id, descriptor):
                        os.fsync(folder.descriptor)
                        return ToolLock(self._places, tenant_id, tool_id, descriptor, is_marked=is_marked)
                except BlockingIOError:
                    os.close(descriptor)
                    return None
                # Whoever held it removed it after we opened it; the name is free or somebody else's now.
                os.close(descriptor)

    def marked(self, tenant_id: str) -> list[str]:
        """Return tools with lock files: a writer holds them, or died doing so."""
        with self._places.locks(tenant_id) as folder:
            return [] if folder is None else folder.names()

    async def _wait_for(self, tenant_id: str, tool_id: str) -> ToolLock:
        deadline = time.monotonic() + self._patience_s
        pause = _FIRST_PAUSE_S
        while True:
            # Waiting happens here and not on the thread: threads that wait could be all there are.
            lock = await asyncio.to_thread(self.try_acquire, tenant_id, tool_id)
            if lock is not None:
                return lock
            if time.monotonic() > deadline:
                raise StorageBusy(f"somebody has been changing {tool_id!r} for too long", tool_id=tool_id)
            await asyncio.sleep(random.uniform(0, pause))
            pause = min(pause * 2, _LONGEST_PAUSE_S)


def _open_lock(folder: SafeFolder, tool_id: str) -> tuple[int, bool]:
    """Open the lock file, and whether it was there before."""
    try:
        return os.open(tool_id, _OPEN | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder.descriptor), False
    except FileExistsError:
        pass
    except OSError as error:
        raise UnsafePath(str(folder.path / tool_id), f"cannot be made: {error.strerror}") from error
    try:
        return os.open(tool_id, _OPEN, dir_fd=folder.descriptor), True
    except FileNotFoundError:
        return _open_lock(folder, tool_id)
    except OSError as error:
        raise UnsafePath(str(folder.path / tool_id), f"cannot be used as a lock: {error.strerror}") from error


def _is_in_place(folder: SafeFolder, tool_id: str, descriptor: int) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = os.stat(tool_id, dir_fd=folder.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
