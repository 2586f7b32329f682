"""Groups commits: works that arrive while one transaction commits share the next one.

A durable commit costs one synchronised write however many works it holds. A work is a function that may be run again,
so a group is tried as it is. Where a work refuses, the group runs again with each work behind a savepoint: a refusal
costs only the work that was refused. The groups after it run so at once, as one refusal is rarely alone. Where the
store itself refuses the group, every work runs again in a transaction of its own; where the store is busy, away, or
cannot say whether it committed, all of the group are told so.

The queue belongs to threads, not to an event loop: one database serves several loops of a process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from twinraven.foundation.errors import StorageBusy, StorageError, StorageUnavailable, TwinRavenError
from twinraven.storage.database import Transaction, Work

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

T = TypeVar("T")

MOST_TOGETHER = 256
_WARY_GROUPS = 16
_PATIENCE_S = 0.25


class _Waiting(NamedTuple):
    tenant_id: str
    work: Work[Any]
    loop: AbstractEventLoop
    future: Future[Any]


_Told = tuple[_Waiting, Any, BaseException | None]
"""What came of a work: its value, or why there is none."""


class _Refused(Exception):
    """A work of a group raised an error of its own."""


class GroupCommit:
    """Runs works on a store's threads, as many in one transaction as have come together."""

    def __init__(
        self, pool: ThreadPoolExecutor, transact: Callable[[str, Work[Any]], Any], *, most_lanes: int = 1
    ) -> None:
        """One lane is best where all is well; a store that lets several write gets more while one of them is stuck."""
        self._pool = pool
        self._transact = transact
        self._most_lanes = most_lanes
        self._lock = Lock()
        self._queue: deque[_Waiting] = deque()
        self._lanes = 0
        self._moved = 0.0
        self._wary = 0
        """How many of the next groups run behind savepoints."""

    async def write(self, tenant_id: str, work: Work[T]) -> T:
        """Run `work` and commit it; a cancelled caller stops waiting, the work itself is finished."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        future: Future[T] = loop.create_future()
        # What is written on the thread belongs to the same request, whose correlation id is a context variable.
        self._enqueue(_Waiting(tenant_id, partial(copy_context().run, work), loop, future))
        return await future

    def _enqueue(self, waiting: _Waiting) -> None:
        with self._lock:
            now = time.monotonic()
            is_stuck = now - self._moved > _PATIENCE_S
            if self._lanes == 0 or (is_stuck and self._lanes < self._most_lanes):
                self._pool.submit(self._drain)
                self._lanes += 1
                self._moved = now
            self._queue.append(waiting)

    def _drain(self) -> None:
        while True:
            with self._lock:
                self._moved = time.monotonic()
                group = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_TOGETHER))]
                if not group:
                    self._lanes -= 1
                    return
            _tell(self._commit(group))

    def _commit(self, group: list[_Waiting]) -> list[_Told]:
        if len(group) > 1:
            try:
                return self._commit_together(group)
            except (StorageBusy, StorageUnavailable) as error:
                return [(each, None, error) for each in group]
            except StorageError as error:
                if error.details.get("commit") == "unknown":
                    return [(each, None, error) for each in group]
            except Exception:  # noqa: BLE001, S110 - whose it was shows when each runs alone
                pass
        return [self._commit_alone(each) for each in group]

    def _commit_together(self, group: list[_Waiting]) -> list[_Told]:
        tenant_id = group[0].tenant_id
        if self._wary <= 0:
            try:
                return self._transact(tenant_id, lambda tx: _run_all(tx, group))
            except _Refused:
                self._wary = _WARY_GROUPS
        self._wary -= 1
        return self._transact(tenant_id, lambda tx: [(each, *_run_part(tx, each)) for each in group])

    def _commit_alone(self, each: _Waiting) -> _Told:
        try:
            return each, self._transact(each.tenant_id, each.work), None
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: it belongs to whoever waits
            return each, None, error


def _run_all(tx: Transaction, group: list[_Waiting]) -> list[_Told]:
    tenant_id = group[0].tenant_id
    told: list[_Told] = []
    for each in group:
        if each.tenant_id != tenant_id:
            tenant_id = each.tenant_id
            tx.act_for(tenant_id)
        try:
            told.append((each, each.work(tx), None))
        except TwinRavenError as error:
            raise _Refused from error
    return told


def _run_part(tx: Transaction, each: _Waiting) -> tuple[Any, TwinRavenError | None]:
    tx.begin_part(each.tenant_id)
    try:
        return each.work(tx), None
    except TwinRavenError as error:
        tx.undo_part()
        return None, error


def _tell(told: list[_Told]) -> None:
    """Wake the waiting callers, with one hop per event loop; closed loops are skipped."""
    loops: dict[AbstractEventLoop, list[_Told]] = {}
    for each in told:
        loops.setdefault(each[0].loop, []).append(each)
    for loop, those in loops.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, those)


def _resolve(told: list[_Told]) -> None:
    for waiting, value, error in told:
        if waiting.future.done():  # the caller was cancelled
            continue
        if error is None:
            waiting.future.set_result(value)
        else:
            waiting.future.set_exception(error)
