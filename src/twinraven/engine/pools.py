"""Limits how much a process does at once: pools of slots by worker type, and rates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from twinraven.engine.model import RUNS_QUEUE, TYPE_ALIASES, WORKER_TYPES
from twinraven.foundation.errors import InvalidInput, InvalidSetting

DEFAULT_SLOTS: Final = 16


class Pool(NamedTuple):
    """Limits the jobs of a queue in one process: how many at once, and how many begin per second."""

    slots: int
    per_second: float | None = None


class SlotCount:
    """Counts the jobs that a slot has ended, and those that ended with an error."""

    __slots__ = ("errors", "processed")

    def __init__(self) -> None:
        self.processed = 0
        self.errors = 0


class PoolSlots:
    """The slots of a process, by queue: who has one, what each has done, and how soon the next job may begin.

    Steps that a run makes itself and steps that were put on a queue share the slots and the rate of their type.
    """

    def __init__(self, pools: Mapping[str, Pool], *, types: frozenset[str] | None = None) -> None:
        """`types` names the types that this process serves; None for all."""
        self._pools = pools
        self._types = types
        self._semaphores: dict[str, asyncio.Semaphore] = {}
        self._rates: dict[str, RateLimit] = {}
        self._idle: dict[str, list[int]] = {}
        self._counts: dict[str, list[SlotCount]] = {name: _counts(pool) for name, pool in pools.items()}

    def serves(self, queue: str) -> bool:
        """Return whether this process makes calls of a type."""
        return self._types is None or queue in self._types

    def room(self, queue: str) -> int:
        """Return how many more jobs of a queue can begin now."""
        pool = self._pool(queue)
        idle = len(self._idle.get(queue, range(pool.slots)))
        return idle if pool.per_second is None else min(idle, self._rate(queue, pool.per_second).available())

    @asynccontextmanager
    async def hold(self, queue: str) -> AsyncGenerator[SlotCount]:
        """Provide a slot of a pool for one job, which is counted there unless it has no end yet."""
        pool = self._pool(queue)
        async with self._semaphores.setdefault(queue, asyncio.Semaphore(pool.slots)):
            idle = self._idle.setdefault(queue, list(range(pool.slots)))
            number = heappop(idle)
            try:
                if pool.per_second is not None:
                    await asyncio.sleep(self._rate(queue, pool.per_second).spend())
                if queue not in self._counts:
                    self._counts[queue] = _counts(pool)
                count = self._counts[queue][number]
                yield count
                count.processed += 1
            finally:
                heappush(idle, number)

    def counts(self) -> dict[str, list[list[int]]]:
        """Return the jobs processed by each slot of each pool, and those with an error."""
        return {name: [[each.processed, each.errors] for each in slots] for name, slots in self._counts.items()}

    def _pool(self, queue: str) -> Pool:
        return self._pools.get(queue, Pool(DEFAULT_SLOTS))

    def _rate(self, queue: str, per_second: float) -> RateLimit:
        return self._rates.setdefault(queue, RateLimit(per_second))


def _counts(pool: Pool) -> list[SlotCount]:
    return [SlotCount() for _ in range(pool.slots)]


class RateLimit:
    """A token bucket that holds a second's worth."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._tokens = max(1.0, per_second)
        self._filled = time.monotonic()

    def available(self) -> int:
        now = time.monotonic()
        most = max(1.0, self._per_second)
        self._tokens = min(most, self._tokens + (now - self._filled) * self._per_second)
        self._filled = now
        return int(self._tokens)

    def spend(self) -> float:
        """Spend one, in advance if there is none; says how long until it is there."""
        self.available()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._per_second)


def read_types(stated: Iterable[str] | None) -> frozenset[str] | None:
    """Read the types of workers that a process serves, None for all; a connector's name means its type."""
    if stated is None:
        return None
    types = frozenset(TYPE_ALIASES.get(name, name) for name in stated)
    unknown = sorted(types - set(WORKER_TYPES))
    if unknown:
        raise InvalidInput(f"there is no worker type {unknown[0]!r}; there are {', '.join(WORKER_TYPES)}", field="type")
    return types


def read_pools(stated: Iterable[Mapping[str, Any]]) -> dict[str, Pool]:
    """Read the pools that `engine.pools` states: `{"queue": "rest_api", "slots": 4, "per_second": 10}` each."""
    pools: dict[str, Pool] = {}
    for number, body in enumerate(stated):
        where = f"engine.pools[{number}]"
        unknown = sorted(body.keys() - {"queue", "slots", "per_second"})
        queue, slots, rate = body.get("queue"), body.get("slots", DEFAULT_SLOTS), body.get("per_second")
        if unknown:
            raise InvalidSetting(f"{where} has no field {unknown[0]!r}", field=where)
        queue = TYPE_ALIASES.get(queue, queue) if isinstance(queue, str) else ""
        if queue not in (RUNS_QUEUE, *WORKER_TYPES) or queue in pools:
            known = ", ".join((RUNS_QUEUE, *WORKER_TYPES))
            raise InvalidSetting(f"{where}.queue must be one of {known}, each once", field=f"{where}.queue")
        if isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= 10_000:
            raise InvalidSetting(f"{where}.slots must be 1 to 10000", field=f"{where}.slots")
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate <= 1e6):
            raise InvalidSetting(f"{where}.per_second must be above 0", field=f"{where}.per_second")
        pools[queue] = Pool(slots, rate)
    return pools


def all_pools(pools: Mapping[str, Pool], *, types: frozenset[str] | None) -> dict[str, Pool]:
    """Return the pools of a process: the queue of runs, and one for each type that it serves."""
    served = WORKER_TYPES if types is None else sorted(types)
    return {name: pools.get(name, Pool(DEFAULT_SLOTS)) for name in (RUNS_QUEUE, *served)}
