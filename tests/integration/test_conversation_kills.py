"""Processes that are killed in the middle of a turn: the turn is there whole or not at all, with one episode each."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.postgres import PostgresLogin
from tests.talking import Speaker, bound, settled, talking_home, talking_process
from tests.working import working
from twinraven.app import TwinRaven
from twinraven.tenancy import LOCAL

ROOT = Path(__file__).resolve().parents[2]
ENGINE = {"poll_s": 0.05, "lease_s": 1.0, "max_deaths": 1_000, "drain_s": 5.0}
CALLS = "pwrite64,fsync,fdatasync"


@pytest.fixture(params=["sqlite", "postgres"])
def raven(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[TwinRaven]:
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    with talking_home(tmp_path, Speaker(), postgres=login, engine=ENGINE) as raven:
        yield raven


def talker(raven: TwinRaven, conversation_id: str, *prefix: str) -> list[str]:
    return [*prefix, sys.executable, "-m", "tests.talk_worker", str(raven.home), conversation_id]


async def prepared(raven: TwinRaven) -> None:
    await raven.processes.save(talking_process("plain"), by=LOCAL)


async def check_whole(raven: TwinRaven, conversation_id: str) -> int:
    """Everything that was committed ends once, and has one episode and one binding; says how many turns there are."""
    turns = await raven.conversations.turns(conversation_id, by=LOCAL)
    assert [turn.speaker for turn in turns] in ([], ["user", "agent"])
    for turn in turns:
        done = await settled(raven, turn)
        assert (done.state, len(turn.alternatives)) == ("done", 1)
    found = await bound(raven, conversation_id)
    episodes = await raven.knowledge.episodes("default", group_id=conversation_id)
    assert sorted(each.name for each in episodes) == sorted(f"Turn:{each.alternative_id}" for each in found)
    assert {each.episode_id for each in found} == {each.episode_id for each in episodes}
    rows = await raven.database.read(
        "default",
        lambda tx: tx.fetch_all(
            "SELECT alternative_id, COUNT(*) AS count FROM alternative_episodes WHERE conversation_id = :id "
            "GROUP BY alternative_id",
            id=conversation_id,
        ),
    )
    assert all(row["count"] == 1 for row in rows)
    return len(turns)


@pytest.mark.req("AD-20")
async def test_killed_workers_lose_no_turn_and_write_no_episode_twice(raven: TwinRaven, full_scale: bool) -> None:
    """At whatever moment the process dies, others end what it began."""
    await prepared(raven)
    ids: list[str] = []
    for _ in range(60 if full_scale else 3):
        ids.append((await raven.conversations.create(by=LOCAL)).conversation_id)
        with subprocess.Popen(talker(raven, ids[-1]), cwd=ROOT) as child:
            await asyncio.to_thread(_wait, child, random.uniform(0.6, 3.0))
            child.kill()
    async with working(raven):
        counts = [await check_whole(raven, each) for each in ids]
    assert all(count in (0, 2) for count in counts)
    assert (await raven.audit.verify("default")).ok


@pytest.mark.req("AD-20")
@pytest.mark.parametrize("raven", ["sqlite"], indirect=True)
async def test_killed_at_a_system_call(raven: TwinRaven, tmp_path: Path, full_scale: bool) -> None:
    """kill -9 before the k-th write or sync of a turn with its ingestion: one episode, one binding, no lost turn."""
    await prepared(raven)
    log = tmp_path / "calls"
    whole = (await raven.conversations.create(by=LOCAL)).conversation_id
    await asyncio.to_thread(
        subprocess.run, talker(raven, whole, "strace", "-f", "-o", str(log), "-e", f"trace={CALLS}"), cwd=ROOT,
        check=True,
    )  # fmt: skip
    count = len(re.findall(r"(?:pwrite64|fsync|fdatasync)\(", log.read_text()))
    assert count > 20
    chosen = range(1, count + 1) if full_scale else sorted(random.sample(range(1, count + 1), 3))
    ids: list[str] = []
    for number in chosen:
        ids.append((await raven.conversations.create(by=LOCAL)).conversation_id)
        inject = f"inject={CALLS}:signal=SIGKILL:when={number}"
        command = talker(raven, ids[-1], "strace", "-f", "-o", os.devnull, "-e", f"trace={CALLS}", "-e", inject)
        await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=False)
    async with working(raven):
        counts = [await check_whole(raven, each) for each in [whole, *ids]]
    assert counts[0] == 2
    assert all(each in (0, 2) for each in counts)


def _wait(child: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return
