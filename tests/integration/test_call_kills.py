"""kill -9 and failing disks around effects: nothing acknowledged is lost, nothing happens twice."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from tests.homes import make_home
from tests.payer import TIMEOUT_MS, pay, pay_into, payments, send, start_payer
from tests.tracers import injecting
from twinraven.app import TwinRaven, open_home
from twinraven.calls.claims import GRACE_MS
from twinraven.foundation.clock import now_micros
from twinraven.muninn import EventFilter

_LATER_US = (TIMEOUT_MS + GRACE_MS + 1_000) * 1000
_WRITES = "pwrite64,fsync,fdatasync,ftruncate"
_MOST_WRITES = 120


class Scene:
    """A home, the file that payments go to, and what processes that worked there acknowledged."""

    def __init__(self, folder: Path, keys: int, home: Path) -> None:
        self.home = home
        self.paid = folder / "paid"
        self.keys = keys
        self.told: list[tuple[int, str]] = []

    def run(self, role: str, *tracer: str, **variables: str) -> list[tuple[int, str]]:
        """What a process acknowledged until it ended, by itself or not."""
        said, _ = start_payer(role, self.home, self.paid, self.keys, *tracer, **variables).communicate()
        return self._note(said)

    def run_and_kill(self, role: str, *, first: int, words: int, pause_s: float) -> list[tuple[int, str]]:
        """What a process acknowledged until it was killed: a moment after so many words of its own."""
        payer = start_payer(
            role, self.home, self.paid, self.keys, PAYER_FIRST=str(first), PAYER_PAUSE=str(random.uniform(0, 0.01))
        )
        heard = [payer.stdout.readline() for _ in range(words)]
        time.sleep(pause_s)
        payer.kill()
        rest, _ = payer.communicate()
        return self._note("".join(heard) + rest)

    def _note(self, said: str) -> list[tuple[int, str]]:
        told = [(int(number), code) for number, code in map(str.split, said.splitlines())]
        self.told += told
        return told

    async def check(self) -> list[str]:
        """What each key comes to long after everybody died; in agreement with what was paid and acknowledged."""
        pay_into(self.paid)
        with open_home(self.home, functions=[pay], micros=lambda: now_micros() + _LATER_US) as raven:
            recorded = {event.input_params["to"] for event in await raven.events.events("default", _ALL)}
            outcomes = [await _outcome(raven, number) for number in range(self.keys)]
            assert (await raven.audit.verify("default")).ok
        paid = [len(payments(self.paid).get(f"payee-{number}", [])) for number in range(self.keys)]
        assert max(paid) <= 1
        assert [number for number, code in enumerate(outcomes) if code == "success" and not paid[number]] == []
        done = {number for number, code in self.told if code == "success"}
        assert [number for number in done if outcomes[number] != "success"] == []
        assert {f"payee-{number}" for number in done} <= recorded
        return outcomes


_ALL = EventFilter(limit=100_000)


async def _outcome(raven: TwinRaven, number: int) -> str:
    response = await send(raven, number, 1)
    return "success" if response.error is None else response.error["code"]


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    login = request.getfixturevalue("postgres_login") if request.param == "postgres" else None
    home = make_home(tmp_path, postgres=login)
    open_home(home).close()
    return Scene(tmp_path, 1, home)


@pytest.mark.req("CH-16")
@pytest.mark.parametrize(("moment", "times"), [("before", 0), ("after", 1)])
async def test_death_in_the_middle_of_an_effect_is_settled_by_its_key(scene: Scene, moment: str, times: int) -> None:
    """Whoever repeats the call is told that it is under way and later that nobody knows; it is never sent again."""
    assert scene.run("work", PAYER_DIES=moment) == []
    assert scene.run("work") == [(0, "CALL_IN_PROGRESS")]
    assert await scene.check() == ["EFFECT_UNKNOWN"]
    assert len(payments(scene.paid).get("payee-0", [])) == times


async def test_without_a_key_the_same_death_pays_twice(scene: Scene) -> None:
    """The control: a caller who repeats without a key of its own repeats the effect."""
    scene.run("keyless", PAYER_DIES="after")
    assert scene.run("keyless") == [(0, "success")]
    assert payments(scene.paid) == {"payee-0": [1, 1]}


@pytest.mark.req("CH-16")
async def test_kills_at_any_moment_lose_and_double_nothing(scene: Scene, *, full_scale: bool) -> None:
    """However often a worker is killed and started again, each key is one effect or known to be unknown."""
    kills = 100 if full_scale else 3
    chance = random.Random(kills)
    scene.keys = 1 + kills * 12
    first = 0
    for _ in range(kills):
        words = chance.randrange(1, 8)
        told = scene.run_and_kill("work", first=first, words=words, pause_s=chance.uniform(0, 0.02))
        first = told[-1][0] + 1
    outcomes = await scene.check()
    assert set(outcomes) <= {"success", "EFFECT_UNKNOWN"}
    # In a hundred kills some hit a call between its intent and its answer; in three perhaps none.
    assert full_scale <= outcomes.count("EFFECT_UNKNOWN") <= kills


@pytest.mark.req("CH-16")
async def test_a_file_that_cannot_grow_acknowledges_nothing_falsely(tmp_path: Path) -> None:
    """When the store refuses to write in the middle of the work, what was acknowledged is there and the rest is not."""
    home = make_home(tmp_path)
    open_home(home).close()
    scene = Scene(tmp_path, 60, home)
    scene.run("work", PAYER_FILE_LIMIT=str((home / "twinraven.db").stat().st_size + 200_000))
    done = [code for _, code in scene.told].count("success")
    assert 0 < done < scene.keys
    outcomes = await scene.check()
    assert outcomes.count("success") >= scene.keys - 2


@pytest.mark.soak
@pytest.mark.req("CH-16")
@pytest.mark.parametrize(("harm", "since"), [("error=EIO", ""), ("error=ENOSPC", "+"), ("signal=SIGKILL", "")])
async def test_a_disk_that_fails_at_any_write_acknowledges_nothing_falsely(
    tmp_path: Path, harm: str, since: str
) -> None:
    """One error, a disk that stays full, or death at each write of a call: no false word, no second effect."""
    beginning = make_home(tmp_path / "beginning")
    with open_home(beginning, functions=[pay]) as raven:
        # Keys and tables are there: what is tried is calls, not the first start.
        pay_into(tmp_path / "first")
        await send(raven, 10_000, 1)
    codes: list[dict[int, str]] = []
    for number in range(1, _MOST_WRITES):
        folder = Path(shutil.copytree(beginning.parent, tmp_path / "scene"))
        scene = Scene(folder, 2, folder / beginning.name)
        scene.run("work", *injecting(_WRITES, harm, f"{number}{since}", threads=True))
        await scene.check()
        codes.append(dict(scene.told))
        shutil.rmtree(folder)
    assert {0: "success", 1: "success"} in codes
    assert any(told != {0: "success", 1: "success"} for told in codes)
