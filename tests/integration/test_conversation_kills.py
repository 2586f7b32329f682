"""Processes that are killed in the middle of a turn: the turn is there whole or not at all, with one episode each."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.mortals import Mortals
from tests.postgres import PostgresLogin
from tests.talking import Speaker, bound, settled, talking_home, talking_process
from tests.working import working
from twinraven.app import TwinRaven, open_home
from twinraven.tenancy import LOCAL

ROOT = Path(__file__).resolve().parents[2]
ENGINE = {"poll_s": 0.05, "lease_s": 1.0, "max_deaths": 1_000, "drain_s": 5.0}
PARTS = 12


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


class Turns:
    """A home in which one process after another has a turn, and others end what it leaves."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._home = home
        self._mortals = Mortals(folder, "tests.talk_worker", str(home))
        self.close = self._mortals.close

    async def begin(self) -> str:
        with open_home(self._home, functions=[Speaker().speak]) as raven:
            return (await raven.conversations.create(by=LOCAL)).conversation_id

    async def one(self, *, die_before: int = 0) -> int | None:
        """Have one turn and check that it is whole; how many calls were made, None where the process died."""
        conversation_id = await self.begin()
        made = await asyncio.to_thread(self._mortals.work, conversation_id, die_before=die_before)
        with open_home(self._home, functions=[Speaker().speak]) as raven:
            async with working(raven):
                count = await check_whole(raven, conversation_id)
            assert (await raven.audit.verify("default")).ok
        assert count in ((0, 2) if made is None else (2,)), f"killed before call {die_before}"
        return made


@pytest.fixture(params=["sqlite", "postgres"])
async def turns(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Turns]:
    login: PostgresLogin | None = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    with talking_home(tmp_path, Speaker(), postgres=login, engine=ENGINE) as raven:
        await prepared(raven)
        home = raven.home
    made = Turns(home, tmp_path)
    yield made
    await asyncio.to_thread(made.close)


@pytest.mark.req("AD-20")
async def test_killed_at_a_system_call(turns: Turns) -> None:
    """kill -9 before any write, sync or message of a turn with ingestion: one episode, one binding, no lost turn."""
    count = await turns.one()
    assert count is not None
    for number in sorted(random.sample(range(1, count), 3)):
        await turns.one(die_before=number)


@pytest.mark.soak
@pytest.mark.req("AD-20")
@pytest.mark.parametrize("part", range(PARTS), ids=lambda part: f"part{part}")
async def test_killed_at_every_system_call(turns: Turns, part: int) -> None:
    """The same before each of them, until a process outlives all; parts run alone (`-k part7-`) or at once (`-n 2`)."""
    assert await turns.one() is not None
    died = 0
    while await turns.one(die_before=1 + part + died * PARTS) is None:
        died += 1
    assert died * PARTS > 100


def _wait(child: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return
