"""Races on governed work through REST, on two open homes at once: nothing is lost, and of many one wins."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Door, Reply
from tests.api_homes import login_of
from tests.contract.test_effects import wallet_of
from tests.governed import add_budget, approved_task
from tests.governing import AGENT, Governed, decision, governed, outside, result
from twinraven.api import api_app
from twinraven.app import open_home
from twinraven.serving import Authenticator
from twinraven.tenancy import LOCAL


@dataclass
class Racing:
    """A home that is open twice, as in two processes: each has connections, threads and caches of its own."""

    house: Governed
    doors: tuple[Door, Door]

    async def at_once(self, path: str, bodies: list[dict[str, Any]]) -> list[Reply]:
        """Post everything at the same time, by turns through either door."""
        return await asyncio.gather(*(self.doors[n % 2].post(path, body) for n, body in enumerate(bodies)))


@pytest.fixture(params=["sqlite", "postgres"])
async def racing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Racing]:
    async with governed(tmp_path, postgres=login_of(request), policy={"judge": "outside"}) as house:
        with open_home(house.raven.home) as other:
            door = Door(api_app(other, Authenticator(other.tenancy, without_key=LOCAL)))
            yield Racing(house, (house.door, door))


@pytest.mark.req("CH-17")
async def test_no_update_of_many_writers_is_lost(racing: Racing, full_scale: bool) -> None:
    """Writers that read, change and, when they were late, read again leave one version for each of their changes."""
    writers, updates = (8, 1_000) if full_scale else (8, 6)
    budget = {"total": "0", "currency": "EUR"}
    made = await racing.house.door.post(f"/v1/campaigns/{racing.house.goal.campaign_id}/budgets", budget)
    path, met = f"/v1/budgets/{made.json()['budget_id']}", asyncio.Barrier(writers)

    async def write(door: Door) -> int:
        late = 0
        for number in range(updates):
            while True:
                seen = (await door.get(path)).json()
                if number == late == 0:
                    await met.wait()  # everybody has read before anybody writes: all but one are late
                total = f"{int(seen['total'].partition('.')[0]) + 1}.00"
                said = await door.patch(path, {"total": total, "state_version": seen["state_version"]})
                if said.status == 200:
                    break
                assert (said.status, said.json()["code"]) == (412, "OCC_CONFLICT"), said.body
                late += 1
        return late

    late = await asyncio.gather(*(write(racing.doors[number % 2]) for number in range(writers)))
    found = (await racing.house.door.get(path)).json()
    assert (found["total"], found["state_version"]) == (f"{writers * updates}.00", writers * updates + 1)
    assert sum(late) >= writers - 1


@pytest.mark.req("CH-08")
async def test_of_many_judges_one_decides(racing: Racing) -> None:
    """Judges of one result who saw the same version: one decision, and the others are told that the state has moved."""
    (task,) = await racing.house.plan(outside())
    await racing.house.raven.attempts.submit(result(task), by=AGENT)
    seen = await racing.house.task(task)
    words = ["approve", "reject", "escalate", "approve"]
    replies = await racing.at_once("/v1/decisions", [decision(seen, word) for word in words])
    told = Counter(reply.json().get("code", reply.status) for reply in replies)
    assert told == Counter({"OCC_CONFLICT": 3, 200: 1}), [reply.body for reply in replies]
    (won,) = (await racing.house.task(task)).decisions
    assert won.decision == words[[reply.status for reply in replies].index(200)]


@pytest.mark.req("CH-16")
async def test_one_decision_sent_many_times_is_one(racing: Racing) -> None:
    """A judge whose envelope arrives several times at once is answered the same each time, and has decided once."""
    (task,) = await racing.house.plan(outside())
    await racing.house.raven.attempts.submit(result(task), by=AGENT)
    said = decision(await racing.house.task(task))
    replies = await racing.at_once("/v1/decisions", [said] * 4)
    assert {reply.status for reply in replies} == {200}, [reply.body for reply in replies]
    (only,) = (await racing.house.task(task)).decisions
    assert {reply.json()["decision_id"] for reply in replies} == {only.decision_id}


@pytest.mark.req("CH-14")
async def test_a_budget_is_spent_to_the_last_cent_and_no_further(racing: Racing, full_scale: bool) -> None:
    """Of racing payments of 1 against a budget of 100 exactly 100 are taken; the rest is refused and holds nothing."""
    total, wanted = (100, 1_000) if full_scale else (6, 20)
    raven, task = racing.house.raven, await approved_task(racing.house.raven)
    wallet, budget = await wallet_of(raven, "5000.00"), await add_budget(raven, task, total)
    wishes = [
        {
            "task_id": task.task_id, "wallet_id": wallet, "amount": "0.01", "currency": "EUR", "counterparty": "ann",
            "idempotency_key": f"race-{number}",
        }
        for number in range(wanted)
    ]  # fmt: skip
    replies: list[Reply] = []
    for first in range(0, wanted, 20):
        replies += await racing.at_once("/v1/transactions", wishes[first : first + 20])
    told = Counter(reply.json().get("code", reply.status) for reply in replies)
    assert told == Counter({202: total, "LEDGER_OVERDRAWN": wanted - total}), told
    assert (await raven.wallets.get("default", wallet)).held == total
    assert (await raven.ledger.account("default", f"spent:{budget}")).balance == total
    assert len(await raven.effects.list("transaction", by=LOCAL, limit=2 * total)) == total
    assert (await raven.ledger.verify("default")).ok


@pytest.mark.req("CH-16")
async def test_of_many_wishes_under_one_key_one_is_an_effect(racing: Racing) -> None:
    """Callers who want the same thing under one key are all given the one effect; who wants another is refused."""
    raven, task = racing.house.raven, await approved_task(racing.house.raven)
    same = {"task_id": task.task_id, "channel": "blog", "text": "x", "idempotency_key": "k"}
    await raven.effects.list("publish", by=LOCAL)
    replies = await racing.at_once("/v1/publications", [same] * 7)
    assert {reply.status for reply in replies} == {202}
    assert len({reply.json()["publish_id"] for reply in replies}) == 1
    assert len(await raven.effects.list("publish", by=LOCAL)) == 1
