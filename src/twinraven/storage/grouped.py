"""Groups commits: works that arrive while one transaction commits share the next one.

A durable commit costs one synchronised write however many works it holds. Each work of a group runs behind a savepoint,
so a refusal costs only the work that was refused. Where the store itself refuses the group, every work runs again in a
transaction of its own, because a work is a function that may be run again; where the store is busy, away, or cannot say
whether it committed, all of the group are told so.

The queue belongs to threads, not to an event loop: one database serves several loops of a process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from twinraven.foundation.errors import StorageBusy, StorageError, StorageUnavailable, TwinRavenError
from twinraven.storage.database import Transaction, Work

T = TypeVar("T")

MOST_TOGETHER = 256
_PATIENCE_S = 0.25


class _Waiting(NamedTuple):
    tenant_id: str
    work: Work[Any]
    future: Future[Any]


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

    async def write(self, tenant_id: str, work: Work[T]) -> T:
        """Run `work` and commit it; a cancelled caller stops waiting, the work itself is finished."""
        import asyncio

        # What is written on the thread belongs to the same request, whose correlation id is a context variable.
        bound: Work[T] = partial(copy_context().run, work)
        return await asyncio.shield(asyncio.wrap_future(self._enqueue(tenant_id, bound)))

    def _enqueue(self, tenant_id: str, work: Work[T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            now = time.monotonic()
            is_stuck = now - self._moved > _PATIENCE_S
            if self._lanes == 0 or (is_stuck and self._lanes < self._most_lanes):
                self._pool.submit(self._drain)
                self._lanes += 1
                self._moved = now
            self._queue.append(_Waiting(tenant_id, work, future))
        return future

    def _drain(self) -> None:
        while True:
            with self._lock:
                self._moved = time.monotonic()
                group = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_TOGETHER))]
                if not group:
                    self._lanes -= 1
                    return
            self._commit(group)

    def _commit(self, group: list[_Waiting]) -> None:
        if len(group) > 1:
            try:
                answers = self._transact(group[0].tenant_id, lambda tx: [_run_part(tx, each) for each in group])
            except (StorageBusy, StorageUnavailable) as error:
                return _tell_all(group, error)
            except StorageError as error:
                if error.details.get("commit") == "unknown":
                    return _tell_all(group, error)
            except Exception:  # noqa: BLE001, S110 - whose it was shows when each runs alone
                pass
            else:
                for each, (value, error) in zip(group, answers, strict=True):
                    each.future.set_result(value) if error is None else each.future.set_exception(error)
                return None
        for each in group:
            self._commit_alone(each)
        return None

    def _commit_alone(self, each: _Waiting) -> None:
        try:
            each.future.set_result(self._transact(each.tenant_id, each.work))
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: it belongs to whoever waits
            each.future.set_exception(error)


def _run_part(tx: Transaction, each: _Waiting) -> tuple[Any, TwinRavenError | None]:
    tx.begin_part(each.tenant_id)
    try:
        return each.work(tx), None
    except TwinRavenError as error:
        tx.undo_part()
        return None, error


def _tell_all(group: list[_Waiting], error: TwinRavenError) -> None:
    for each in group:
        each.future.set_exception(error)
