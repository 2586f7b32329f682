"""Starts scheduled internal work once for each slot, however many workers look.

A slot's run has an id made of the schedule and the slot's moment, so two workers that see it due start one run. Runs
are started before the slot is ticked off: a worker that dies in between leaves it due.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, Protocol

from twinraven.engine.invoker import HOUSE
from twinraven.foundation.clock import from_micros, to_micros
from twinraven.storage import Database, Transaction

Period = Literal["off", "hourly", "daily", "weekly", "monthly"]

_HOUR: Final = 2
_SUNDAY: Final = 6


class HouseWorkStarter(Protocol):
    """Starts a run of internal work."""

    async def start_house_work(self, tenant_id: str, target: str, *, run_id: str) -> None: ...


class Scheduled(NamedTuple):
    """A piece of work and how often it is done."""

    work: str
    period: Period


def next_slot(period: Period, after: int) -> int:
    """Return the next moment of a schedule, in microseconds: on the hour, else at two at night, UTC."""
    now = from_micros(after)
    hour = now.replace(minute=0, second=0, microsecond=0)
    if period == "hourly":
        return to_micros(hour + timedelta(hours=1))
    day = hour.replace(hour=_HOUR)
    if day <= now:
        day += timedelta(days=1)
    while not _fits(period, day):
        day += timedelta(days=1)
    return to_micros(day)


def _fits(period: Period, day: datetime) -> bool:
    return (
        period == "daily" or (period == "weekly" and day.weekday() == _SUNDAY) or (period == "monthly" and day.day == 1)
    )


class Schedules:
    """The house's schedules, looked at by every worker."""

    def __init__(
        self,
        database: Database,
        runs: HouseWorkStarter,
        plans: Mapping[str, Period],
        *,
        tenants: Callable[[], Awaitable[list[str]]],
        now: Callable[[Transaction], int],
        look_every_s: float = 30.0,
    ) -> None:
        self._database = database
        self._runs = runs
        self._plans = [Scheduled(work, period) for work, period in plans.items() if period != "off"]
        self._tenants = tenants
        self._now = now
        self._look_every_s = look_every_s
        self._looks_at = 0.0

    async def start_due(self) -> None:
        """Start the work whose slot has come, for each tenant."""
        if not self._plans or time.monotonic() < self._looks_at:
            return
        self._looks_at = time.monotonic() + self._look_every_s
        for plan in self._plans:
            # A schedule that is changed begins anew: its name holds the period.
            name = f"{plan.work}:{plan.period}"
            slot = await self._database.write("", lambda tx, name=name, plan=plan: self._due(tx, name, plan))
            if slot is None:
                continue
            for tenant_id in await self._tenants():
                await self._runs.start_house_work(tenant_id, f"{HOUSE}{plan.work}", run_id=f"schedule:{name}:{slot}")
            await self._database.write("", lambda tx, name=name, plan=plan, slot=slot: self._tick(tx, name, plan, slot))

    def _due(self, tx: Transaction, name: str, plan: Scheduled) -> int | None:
        now = self._now(tx)
        tx.execute(
            "INSERT INTO engine_schedules (name, next_at) VALUES (:name, :next) ON CONFLICT DO NOTHING",
            name=name,
            next=next_slot(plan.period, now),
        )
        row = tx.fetch_one(
            "SELECT next_at FROM engine_schedules WHERE name = :name AND next_at <= :now", name=name, now=now
        )
        return None if row is None else row["next_at"]

    def _tick(self, tx: Transaction, name: str, plan: Scheduled, slot: int) -> None:
        tx.execute(
            "UPDATE engine_schedules SET next_at = :next WHERE name = :name AND next_at = :slot",
            next=next_slot(plan.period, self._now(tx)),
            name=name,
            slot=slot,
        )
