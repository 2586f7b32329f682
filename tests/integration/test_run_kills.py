"""Runs whose workers are killed, stopped, blocked or poisoned: nothing is lost, and nothing happens twice."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.homes import make_home
from tests.postgres import PostgresLogin, PostgresServer
from tests.run_worker import TOOLS, effects_in, into
from tests.syncs import syncs_per_step
from tests.workers import worker_process
from tests.working import reach, start, step, working
from twinraven.app import TwinRaven, open_home
from twinraven.foundation.errors import StorageBusy
from twinraven.processes import Process
from twinraven.storage.sqlite import SqliteDatabase
from twinraven.tenancy import LOCAL

LEASE_S = 1.0


def _beside(name: str, *others: int, **inputs: Any) -> dict[str, Any]:
    return {**step(name, **inputs), "parallelizable_with": list(others)}


def order_of(item: str) -> list[dict[str, Any]]:
    """Two rails of different speed, then one effect after the other."""
    return [
        step("look", item=item),
        _beside("book", 2, 3, item=f"{item}.a"),
        _beside("pay", 1, item=f"{item}.b"),
        _beside("look", 1, item=item),
        step("book", item=f"{item}.c"),
        step("pay", item=f"{item}.d"),
    ]


BACKENDS = (
    "sqlite",
    "postgres",
    pytest.param("sqlite and temporal", marks=pytest.mark.soak),
    pytest.param("postgres and temporal", marks=pytest.mark.soak),
)
"""Stores, and who dispatches runs on them: what is promised depends on neither."""
on_every_backend = pytest.mark.parametrize("raven", BACKENDS, indirect=True)


def dispatched_by(request: pytest.FixtureRequest, backend: str) -> dict[str, Any]:
    """The settings of the engine that choose the dispatcher of a backend."""
    if not backend.endswith("temporal"):
        return {}
    return {"dispatcher": "temporal", "temporal_address": request.getfixturevalue("temporal_address")}


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[TwinRaven]:
    login: PostgresLogin | None = None
    if request.param.startswith("postgres"):
        login = request.getfixturevalue("postgres_login")
    engine: dict[str, Any] = {
        "poll_s": 0.05,
        "lease_s": LEASE_S,
        "max_deaths": 2 if "poison" in request.node.name else 1_000,
        "pools": [{"queue": "runs", "slots": 6}],
        **dispatched_by(request, request.param),
    }
    into(tmp_path)
    with open_home(make_home(tmp_path, postgres=login, engine=engine), functions=TOOLS) as raven:
        yield raven


def effects(raven: TwinRaven) -> Counter[str]:
    return effects_in(raven.home.parent)


async def tell_the_truth(raven: TwinRaven, run_id: str) -> int:
    """Answer every unknown effect of a run by looking whether it happened; says how many there were."""
    found, told = await raven.runs.get("default", run_id), 0
    for wait in found.waits:
        if wait.kind == "effect" and wait.answered_at is None:
            item = wait.question["params"]["item"]
            assert wait.question["error"]["details"]["idempotency_key"] == wait.subject
            assert item.endswith((".b", ".d", "b")), "only an effect that takes no keys can be unknown"
            happened = effects(raven)[f"pay {item}"] > 0
            said = {"effect": "happened", "output": {"paid": item}} if happened else {"effect": "did_not_happen"}
            await raven.runs.answer(run_id, wait.place, said, by=LOCAL)
            told += 1
    return told


async def unfinished(raven: TwinRaven, ids: list[str]) -> dict[str, str]:
    """The states of runs that have not come to their end; one that ended otherwise than well is a failure."""
    states = {each: (await raven.runs.get("default", each)).run.state for each in ids}
    assert set(states.values()) <= {"queued", "running", "waiting", "succeeded"}
    return {each: state for each, state in states.items() if state != "succeeded"}


async def works(raven: TwinRaven, pid: int) -> bool:
    """Whether the worker of this process has a run, or had one when it was last heard."""
    running = await raven.runs.list("default", state="running")
    return any(str(run.worker).startswith(f"{pid}-") for run in running)


@on_every_backend
async def test_killed_workers_lose_nothing_and_repeat_nothing(raven: TwinRaven, full_scale: bool) -> None:
    """However often workers are killed, every run ends, and every effect has happened once."""
    kills, at_once = (100, 12) if full_scale else (3, 12)
    ids: list[str] = []
    interrupted = 0
    while interrupted < kills:  # a worker that was killed while it did nothing counts for nothing
        open_ones = await unfinished(raven, ids[-4 * at_once :])
        for each in open_ones:
            await tell_the_truth(raven, each)
        for _ in range(at_once - len(open_ones)):
            number = len(ids)
            ids.append((await start(raven, order_of(f"i{number}"), run_id=f"r{number}")).run_id)
        with worker_process(raven) as child:
            async with asyncio.timeout(300):
                while not await works(raven, child.pid):  # noqa: ASYNC110 - another process takes the run
                    await asyncio.sleep(0.02)
            await asyncio.sleep(random.uniform(0, 0.8))
            child.kill()
        interrupted += await works(raven, child.pid)
    runs = len(ids)
    async with working(raven), asyncio.timeout(1_800):
        while open_ones := await unfinished(raven, ids):
            for each in open_ones:
                await tell_the_truth(raven, each)
            await asyncio.sleep(0.1)
    kinds = ("book {}.a", "pay {}.b", "book {}.c", "pay {}.d")
    assert effects(raven) == Counter(kind.format(f"i{number}") for number in range(runs) for kind in kinds)
    assert (await raven.audit.verify("default")).ok


async def stop(raven: TwinRaven, pid: int) -> None:
    """Stop a worker outside its transactions and changes of keys: a stopped process keeps the locks of files."""
    os.kill(pid, signal.SIGSTOP)
    while not _is_free(raven):
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGSTOP)


def _is_free(raven: TwinRaven) -> bool:
    """Return whether nobody holds the lock of the audit keys, or of a SQLite file."""
    for lock in raven.home.glob("keys/.*.lock"):
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return not isinstance(raven.database, SqliteDatabase) or _is_writable(raven.database.path)


def _is_writable(path: Path) -> bool:
    connection = SqliteDatabase(path, busy_timeout_s=0.2).connect()
    try:
        with connection.transaction("", write=True):
            return True
    except StorageBusy:
        return False
    finally:
        connection.close()


@on_every_backend
async def test_a_stopped_worker_settles_what_it_began_and_begins_nothing_more(raven: TwinRaven) -> None:
    """A worker that sleeps past its lease loses its run; awake again, it makes no further call."""
    steps = [step("book", item="a"), step("pay", item="b")]
    with worker_process(raven, RUN_WORKER_PAUSE="0.6") as sleeper:
        run = await start(raven, steps)
        await reach(raven, run.run_id, "running")
        await stop(raven, sleeper.pid)
        async with working(raven):
            while True:
                found = await reach(raven, run.run_id, "succeeded", "waiting")
                if found.run.state == "succeeded":
                    break
                await tell_the_truth(raven, run.run_id)
                await asyncio.sleep(0.05)
            before = effects(raven)
            os.kill(sleeper.pid, signal.SIGCONT)
            await asyncio.sleep(1.5)
    assert effects(raven) == before == Counter(["book a", "pay b"])


@on_every_backend
async def test_a_blocked_loop_does_not_cost_a_worker_its_runs(raven: TwinRaven) -> None:
    """The heart beats beside the loop: a tool that blocks longer than the lease is called once."""
    with worker_process(raven, RUN_WORKER_BLOCK=str(LEASE_S * 2)):
        # Who stands still for a lease loses runs whatever beats; on a busy machine one of several trials is clean.
        for number in range(6):
            run = await start(raven, [step("block", item=f"{number}")])
            await reach(raven, run.run_id, "running", "succeeded")
            async with working(raven):
                found = await reach(raven, run.run_id, "succeeded")
            assert effects(raven)[f"block {number}"] == 1
            if found.run.epoch == 1:
                return
    pytest.fail("the run was taken from its worker in every trial")


@pytest.mark.req("AD-14")
@on_every_backend
async def test_poison_is_set_aside(raven: TwinRaven) -> None:
    """A run that kills its workers is kept from the next, until a person resumes or cancels it."""
    run = await start(raven, [step("poison", item="a")])
    for _ in range(2):
        with worker_process(raven) as child:
            assert await asyncio.to_thread(child.wait, 90) == -signal.SIGKILL
    async with working(raven):
        found = await reach(raven, run.run_id, "set_aside")
        assert found.run.error_code == "RUN_SET_ASIDE"
        assert (await raven.runs.cancel(run.run_id, by=LOCAL)).state == "cancelled"
    assert effects(raven) == Counter({"poison a": 2})


@pytest.mark.soak
async def test_without_the_keys_of_the_run_effects_are_doubled(raven: TwinRaven) -> None:
    """The control: under a fresh key for each attempt, killed workers repeat effects, so the other tests can tell."""
    ids = [(await start(raven, order_of(f"i{number}"), run_id=f"r{number}")).run_id for number in range(40)]
    for _ in range(12):
        with worker_process(raven, RUN_WORKER_KEYLESS="1") as child:
            await asyncio.sleep(random.uniform(0.3, 0.6))
            child.kill()
    with worker_process(raven, RUN_WORKER_KEYLESS="1"):
        for each in ids:
            await reach(raven, each, "succeeded", patience_s=900)
    assert max(effects(raven).values()) > 1


async def test_a_store_that_goes_away_is_waited_for(restartable_postgres: PostgresServer, tmp_path: Path) -> None:
    """Postgres crashes and restarts while runs are under way: they end, each effect once."""
    into(tmp_path)
    with restartable_postgres.fresh_database() as login:
        engine = {"poll_s": 0.05, "lease_s": LEASE_S, "max_deaths": 1_000}
        with open_home(make_home(tmp_path, postgres=login, engine=engine), functions=TOOLS) as raven:
            ids = [(await start(raven, order_of(f"i{number}"), run_id=f"r{number}")).run_id for number in range(6)]
            async with working(raven):
                for crash in (True, False):
                    await asyncio.sleep(0.1)
                    await asyncio.to_thread(restartable_postgres.stop, crash=crash)
                    await asyncio.to_thread(restartable_postgres.start)
                async with asyncio.timeout(600):
                    while {(await raven.runs.get("default", each)).run.state for each in ids} != {"succeeded"}:
                        for each in ids:
                            await tell_the_truth(raven, each)
                        await asyncio.sleep(0.1)
            kinds = ("book {}.a", "pay {}.b", "book {}.c", "pay {}.d")
            assert effects(raven) == Counter(kind.format(f"i{number}") for number in range(6) for kind in kinds)


async def test_a_worker_that_starts_while_the_store_is_away_waits_for_it(
    restartable_postgres: PostgresServer, tmp_path: Path
) -> None:
    """A worker whose first look finds no store goes on looking, and ends what waits once the store is back."""
    into(tmp_path)
    with (
        restartable_postgres.fresh_database() as login,
        open_home(make_home(tmp_path, postgres=login, engine={"poll_s": 0.05}), functions=TOOLS) as raven,
    ):
        run = await start(raven, order_of("i"), run_id="r")
        await asyncio.to_thread(restartable_postgres.stop)
        async with working(raven):
            await asyncio.sleep(0.3)
            await asyncio.to_thread(restartable_postgres.start)
            assert (await reach(raven, run.run_id, "succeeded")).run.state == "succeeded"
        assert set(effects(raven).values()) == {1}


@pytest.mark.soak
def test_a_durable_read_costs_no_commit_and_a_write_less_than_three(tmp_path: Path) -> None:
    """Synchronised writes for each step, as the kernel sees them: reads wait for the next intent, writes need two."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    assert syncs_per_step(tmp_path / "lazy", "look") <= 0.1
    assert syncs_per_step(tmp_path / "strict", "look", RUN_WORKER_STRICT="1") <= 1.1
    # Its claim and its settlement, with which the event rides; the worker's own looks are in between.
    assert syncs_per_step(tmp_path / "write", "pay") <= 2.3


@on_every_backend
async def test_a_process_goes_on_where_its_killed_worker_was(raven: TwinRaven) -> None:
    """A worker that is killed in the middle of a process loses nothing: the run ends, each effect happened once."""
    inner = _process(
        "inner", [_process_step("a", "book", "{step.item}.a"), _process_step("b", "book", "{step.item}.b")]
    )
    await raven.processes.save(inner, by=LOCAL)
    outer = [
        _process_step("first", "book", "{step.item}.0"),
        {**_process_step("down", "book", "{step.item}"), "tool": None, "process": "inner"},
        _process_step("last", "book", "{step.item}.1"),
    ]
    await raven.processes.save(_process("outer", outer, output_template="{{last.booked}}"), by=LOCAL)
    run = await raven.processes.run("outer", {"item": "x"}, by=LOCAL)
    with worker_process(raven, RUN_WORKER_PAUSE="0.3") as child:
        async with asyncio.timeout(600):
            while not effects(raven):  # noqa: ASYNC110 - another process has them
                await asyncio.sleep(0.02)
        child.kill()
    assert (await raven.runs.get("default", run.run_id)).run.state != "succeeded"
    async with working(raven):
        found = await reach(raven, run.run_id, "succeeded", "failed")
    assert (found.run.state, found.output, found.run.epoch) == ("succeeded", "x.1", 2)
    assert effects(raven) == Counter([f"book x.{end}" for end in "0ab1"])


def _process(name: str, steps: list[dict[str, Any]], **more: Any) -> Process:
    return Process.from_json(
        {
            "id": name,
            "description": "Book",
            "initial_context": ["item"],
            "steps": steps,
            "max_recursion_depth": 1,
            **more,
        }
    )


def _process_step(name: str, tool: str, item: str) -> dict[str, Any]:
    return {"id": name, "tool": tool, "inputs": {"item": item}, "output": {"variable": name}}
