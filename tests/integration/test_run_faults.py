"""Runs whose process dies, or whose disk fails, at any write around claim, settle, rest, answer and finish."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.homes import make_home
from tests.integration.test_run_kills import BACKENDS, dispatched_by, effects
from tests.mortals import Mortals
from tests.postgres import PostgresLogin
from tests.run_worker import TOOLS, into
from tests.tracers import injecting
from tests.workers import ForkedProcess, worker_process
from tests.working import reach, start, step, working
from twinraven.app import TwinRaven, open_home
from twinraven.audit import AuditFilter

_WRITES = "pwrite64,fsync,fdatasync,ftruncate"
_MOST_WRITES = 140
PARTS = 6
_ENGINE: dict[str, Any] = {"poll_s": 0.02, "lease_s": 0.5, "max_deaths": 1_000}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> Path:
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    made = make_home(tmp_path, postgres=login, engine=_ENGINE)
    open_home(made).close()
    return made


def run_whole(home: Path, *tracer: str, patience_s: float = 900) -> int | None:
    """How the process that runs everything ended; None where it was ended for taking too long."""
    with ForkedProcess("tests.run_worker", "whole", str(home), str(home.parent), "whole", tracer=tracer) as process:
        try:
            return process.wait(patience_s)
        except TimeoutError:
            return None


async def check_whole(home: Path, run_id: str = "whole") -> None:
    """The run has ended well, each effect has happened once, and one answer is in the audit chain."""
    with open_home(home, functions=TOOLS) as raven:
        found = await raven.runs.get("default", run_id)
        assert found.run.state == "succeeded"
        happened = {name: count for name, count in effects(raven).items() if name.startswith(f"book {run_id}.")}
        assert happened == {f"book {run_id}.a": 1, f"book {run_id}.b": 1}
        assert (await raven.audit.verify("default")).ok
        entries = await raven.audit.entries("default", AuditFilter(subject_id=run_id))
        assert [entry.event_type for entry in entries].count("run.answered") == 1


class Runs:
    """A home in which one process after another carries a run through, and others end what it leaves."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._mortals = Mortals(home.parent, "tests.run_worker", "wholes", str(home), str(home.parent))
        self._count = 0
        self.close = self._mortals.close

    async def one(self, *, die_before: int = 0) -> int | None:
        """Carry out one run and check that it is whole; how many calls were made, None where the process died."""
        self._count += 1
        run_id = f"run{self._count}"
        made = await asyncio.to_thread(self._mortals.work, run_id, die_before=die_before)
        if made is None:
            assert await asyncio.to_thread(self._mortals.work, run_id) is not None
        await check_whole(self._home, run_id)
        return made


@pytest.fixture
async def runs(home: Path) -> AsyncGenerator[Runs]:
    made = Runs(home)
    yield made
    await asyncio.to_thread(made.close)


@pytest.mark.req("CH-16")
async def test_death_at_any_write_loses_and_doubles_nothing(runs: Runs) -> None:
    """A process that is killed before any write or message is followed by one that ends the run, each effect once."""
    count = await runs.one()
    assert count is not None
    for number in sorted(random.sample(range(1, count), 2)):
        await runs.one(die_before=number)


@pytest.mark.soak
@pytest.mark.req("CH-16")
@pytest.mark.parametrize("part", range(PARTS), ids=lambda part: f"part{part}")
async def test_death_at_every_write_loses_and_doubles_nothing(runs: Runs, part: int) -> None:
    """The same before each of them, until a process outlives all; parts run alone (`-k part3-`) or at once (`-n 2`)."""
    assert await runs.one() is not None
    died = 0
    while await runs.one(die_before=1 + part + died * PARTS) is None:
        died += 1
    assert died * PARTS > 40


@pytest.mark.soak
@pytest.mark.parametrize("store", ["sqlite"])
@pytest.mark.parametrize(("harm", "since"), [("error=ENOSPC", "+"), ("error=EIO", "")])
async def test_a_disk_that_fails_ends_nothing_falsely(home: Path, harm: str, since: str) -> None:
    """A disk that is full from some write on, or fails once, delays the run; with room again it ends, effects once."""
    for number in range(3, _MOST_WRITES, 9):
        tracer = injecting(_WRITES, harm, f"{number}{since}", threads=True)
        await asyncio.to_thread(run_whole, home, *tracer, patience_s=8)
    assert await asyncio.to_thread(run_whole, home) == 0
    await check_whole(home)


@pytest.fixture(params=BACKENDS)
def raven(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[TwinRaven]:
    login: PostgresLogin | None = None
    if request.param.startswith("postgres"):
        login = request.getfixturevalue("postgres_login")
    engine = {**_ENGINE, **dispatched_by(request, request.param)}
    into(tmp_path)
    with open_home(make_home(tmp_path, postgres=login, engine=engine), functions=TOOLS) as raven:
        yield raven


async def test_two_rails_of_different_speed_are_resumed_again_and_again(raven: TwinRaven, *, full_scale: bool) -> None:
    """A run of two rails that is killed and taken over many times goes on where each rail was, and never fails."""
    length, kills = (60, 50) if full_scale else (6, 2)
    rails = [step("look" if number % 3 else "book", item=f"{number}") for number in range(2 * length)]
    for number, each in enumerate(rails):
        # Even steps are one rail and odd ones the other: each waits for the one before it on its own rail.
        each |= {"id": f"s{number}", "after": [f"s{number - 2}"] if number > 1 else []}
    run = await start(raven, rails)
    for _ in range(kills):
        with worker_process(raven, RUN_WORKER_PAUSE="0.05") as child:
            await asyncio.sleep(random.uniform(0.1, 0.4))
            child.kill()
    async with working(raven):
        found = await reach(raven, run.run_id, "succeeded", "failed", patience_s=900)
    assert found.run.state == "succeeded"
    assert effects(raven) == Counter(f"book {number}" for number in range(2 * length) if number % 3 == 0)
    assert len(found.steps) == 2 * length
