"""Runs whose process dies, or whose disk fails, at any write around claim, settle, rest, answer and finish."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.homes import make_home
from tests.integration.test_run_kills import ROOT, effects, worker_process
from tests.postgres import PostgresLogin
from tests.run_worker import TOOLS, into
from tests.working import reach, start, step, working
from twinraven.app import TwinRaven, open_home

_WRITES = {"sqlite": "pwrite64,fsync,fdatasync,ftruncate", "postgres": "sendto"}
_MOST_WRITES = {"sqlite": 140, "postgres": 260}
_WHOLE = Counter(["book a", "book b"])


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> Path:
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if store == "postgres" else None
    made = make_home(tmp_path, postgres=login, engine={"poll_s": 0.02, "lease_s": 0.5, "max_deaths": 1_000})
    open_home(made).close()
    return made


def run_whole(home: Path, *tracer: str, patience_s: float = 60) -> int | None:
    """How the process that runs everything ended; None where it was ended for taking too long."""
    command = [*tracer, sys.executable, "-m", "tests.run_worker", "whole", str(home), str(home.parent)]
    try:
        return subprocess.run(command, cwd=ROOT, timeout=patience_s, check=False, capture_output=True).returncode
    except subprocess.TimeoutExpired:
        return None


async def check_whole(home: Path) -> None:
    """The run has ended well, each effect has happened once, and one answer is in the audit chain."""
    with open_home(home, functions=TOOLS) as raven:
        found = await raven.runs.get("default", "whole")
        assert found.run.state == "succeeded"
        assert effects(raven) == _WHOLE
        assert (await raven.audit.verify("default")).ok
        entries = await raven.audit.entries("default")
        assert [entry.event_type for entry in entries].count("run.answered") == 1


@pytest.mark.req("CH-16")
async def test_death_at_any_write_loses_and_doubles_nothing(home: Path, store: str, *, full_scale: bool) -> None:
    """A process that is killed at its k-th write is followed by one that ends the run, with each effect once."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    chance = random.Random(7)
    tracer = ("strace", "-f", "-q", "-o", "/dev/null", "-e", f"trace={_WRITES[store]}")
    died = 0
    for number in sorted(chance.sample(range(5, _MOST_WRITES[store]), 60 if full_scale else 2)):
        fault = f"inject={_WRITES[store]}:signal=SIGKILL:when={number}"
        died += await asyncio.to_thread(run_whole, home, *tracer, "-e", fault) != 0
    assert await asyncio.to_thread(run_whole, home) == 0
    await check_whole(home)
    assert died > 0


@pytest.mark.soak
@pytest.mark.parametrize("store", ["sqlite"])
@pytest.mark.parametrize("fault", ["error=ENOSPC:when={}+", "error=EIO:when={}"])
async def test_a_disk_that_fails_ends_nothing_falsely(home: Path, store: str, fault: str) -> None:
    """A disk that is full from some write on, or fails once, delays the run; with room again it ends, effects once."""
    tracer = ("strace", "-f", "-q", "-o", "/dev/null", "-e", f"trace={_WRITES[store]}")
    for number in range(3, _MOST_WRITES[store], 9):
        injected = f"inject={_WRITES[store]}:{fault.format(number)}"
        await asyncio.to_thread(run_whole, home, *tracer, "-e", injected, patience_s=8)
    assert await asyncio.to_thread(run_whole, home) == 0
    await check_whole(home)


@pytest.fixture
def raven(home: Path, tmp_path: Path) -> Generator[TwinRaven]:
    into(tmp_path)
    with open_home(home, functions=TOOLS) as raven:
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
        found = await reach(raven, run.run_id, "succeeded", "failed", patience_s=120)
    assert found.run.state == "succeeded"
    assert effects(raven) == Counter(f"book {number}" for number in range(2 * length) if number % 3 == 0)
    assert len(found.steps) == 2 * length
