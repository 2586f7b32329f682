"""Sudden death at every point of an act: afterwards files and rows agree, and it has happened whole or not at all."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.registry_child import ACTS, prepare
from tests.registry_kit import TENANT, House
from tests.tracers import injecting
from tests.workers import run_forked
from twinraven.storage import open_database

T = TypeVar("T")

_CALLS = "write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,ftruncate,flock"
_FILE_CALLS = "write,fsync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat"
_FIRST = 9
"""Before this call an act has not begun: SQLite opens its file."""
_MOST = 200


class Scene:
    """A folder with a database and the tools in it, that a child process works on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'twinraven.db'}"

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    def copy(self, name: str) -> Scene:
        return Scene(Path(shutil.copytree(self.folder, self.folder.with_name(name), dirs_exist_ok=False)))

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    @contextmanager
    def house(self) -> Generator[House]:
        database = open_database(self.url)
        house = House(database, self.tools, poll_s=3600)
        try:
            yield house
        finally:
            house.close()
            database.close()

    def ask(self, question: Callable[[House], Awaitable[T]]) -> T:
        async def answer() -> T:
            with self.house() as house:
                return await question(house)

        return asyncio.run(answer())

    def act(self, name: str, *tracer: str) -> str:
        """Run one act in a child, perhaps under a tracer that harms it; gives what it said."""
        return run_forked("tests.registry_child", self.url, str(self.tools), name, tracer=tracer)[1]


async def state(house: House) -> dict[str, Any]:
    """All that an act changes, of every tool."""
    found: dict[str, Any] = {}
    for record in await house.registry.tools(TENANT):
        tool = await house.registry.tool(TENANT, record.tool_id)
        found[record.tool_id] = (
            record.current_version,
            record.retirement_reason,
            record.quarantine is not None,
            [
                (each.version, each.status, each.promoted_at, each.superseded_at, each.retired_at, each.text)
                for each in tool.versions
            ],
        )
    return found


async def recover(house: House) -> list[Any]:
    """What a new process does first, and what it then finds wrong."""
    await house.registry.recover(TENANT)
    return await house.verification.verify(TENANT)


def leftovers(scene: Scene) -> list[str]:
    """Files that only an interrupted act leaves."""
    return [
        str(path.relative_to(scene.tools))
        for path in scene.tools.rglob("*")
        if path.name.endswith(".tmp") or path.parent.name == ".locks"
    ]


@pytest.fixture(scope="module")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The scene that every act begins with."""
    scene = Scene(tmp_path_factory.mktemp("registry") / "beginning")
    scene.folder.mkdir()
    database = open_database(scene.url)
    database.migrate()
    database.close()
    scene.ask(prepare)
    return scene


def check_outcome(scene: Scene, before: dict[str, Any], after: dict[str, Any], act: str) -> bool:
    """Whether the act has happened; whole or not at all, and possible again if not."""
    assert scene.ask(recover) == []
    assert leftovers(scene) == []
    found = scene.ask(state)
    assert found in (before, after)
    if found == before:
        assert scene.act(act) == "done"
        assert scene.ask(state) == after
        assert scene.ask(recover) == []
    return found == after


def points(*, full_scale: bool, act: str) -> range:
    """At which calls to strike: everywhere, or at a few places that differ from act to act."""
    return range(1, _MOST) if full_scale else range(_FIRST + 2 * sorted(ACTS).index(act), _MOST, 19)


@pytest.mark.req("RG-03", "RG-04")
@pytest.mark.parametrize("act", sorted(ACTS))
def test_death_at_any_point_leaves_files_and_rows_in_agreement(beginning: Scene, act: str, *, full_scale: bool) -> None:
    """Killed at a system call, an act has happened whole or not at all once the next process has looked."""
    before = beginning.ask(state)
    whole = beginning.copy(f"{act}-whole")
    assert whole.act(act) == "done"
    after = whole.ask(state)
    assert after != before
    outcomes: set[bool] = set()
    for number in points(full_scale=full_scale, act=act):
        scene = beginning.copy(f"{act}-{number}")
        is_over = scene.act(act, *injecting(_CALLS, "signal=SIGKILL", number)) == "done"
        outcomes.add(check_outcome(scene, before, after, act))
        scene.remove()
        if is_over:
            break
    assert outcomes == {True, False}


@pytest.mark.req("RG-03", "RG-04")
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("act", ["register", "promote_renamed"])
def test_a_disk_that_refuses_leaves_files_and_rows_in_agreement(
    beginning: Scene, act: str, error: str, *, full_scale: bool
) -> None:
    """A write that fails at any point leaves the act whole or undone, and what is missing is made up for later."""
    before = beginning.ask(state)
    whole = beginning.copy(f"{act}-{error}-whole")
    assert whole.act(act) == "done"
    after = whole.ask(state)
    for number in range(1, 40, 1 if full_scale else 11):
        scene = beginning.copy(f"{act}-{error}-{number}")
        scene.act(act, *injecting(_FILE_CALLS, f"error={error}", number))
        check_outcome(scene, before, after, act)
        scene.remove()


@pytest.mark.req("RG-03")
def test_death_while_recovering_is_recovered_from(beginning: Scene, *, full_scale: bool) -> None:
    """Whoever dies while finishing what another left is finished by the next."""
    before = beginning.ask(state)
    broken = beginning.copy("broken")
    # The version's file is in place, its row is not.
    broken.act("register", *injecting("pwrite64", "signal=SIGKILL", 12))
    assert leftovers(broken)
    for number in range(_FIRST, _MOST, 1 if full_scale else 8):
        scene = broken.copy(f"recover-{number}")
        is_over = scene.act("recover", *injecting(_CALLS, "signal=SIGKILL", number)) == "done"
        assert scene.ask(recover) == []
        assert leftovers(scene) == []
        assert scene.ask(state) == before
        scene.remove()
        if is_over:
            break
