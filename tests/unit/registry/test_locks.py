"""Locks: one holder at a time, and a mark where a holder died."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from twinraven.foundation.errors import InvalidInput, StorageBusy
from twinraven.registry import ToolFolders, UnsafePath
from twinraven.registry import locks as locking
from twinraven.registry.folders import SafeFolder
from twinraven.registry.locks import ToolLock, ToolLocks


@pytest.fixture
def locks(tmp_path: Path) -> ToolLocks:
    return ToolLocks(ToolFolders(tmp_path), patience_s=0.2)


@pytest.mark.req("RG-14")
async def test_a_lock_has_one_holder(locks: ToolLocks) -> None:
    """Who does not get it waits, is told after a while, and gets it when it is free."""
    (held,) = await locks.acquire("default", ["a"])
    assert locks.try_acquire("default", "a") is None
    with pytest.raises(StorageBusy):
        await locks.acquire("default", ["a"])
    (other,) = await locks.acquire("default", ["b"])
    (elsewhere,) = await locks.acquire("acme", ["a"])
    held.finish()
    (again,) = await locks.acquire("default", ["a"])
    assert not again.is_marked
    for lock in (again, other, elsewhere):
        lock.finish()
    assert locks.marked("default") == []


@pytest.mark.req("RG-14")
async def test_many_who_want_several_locks_all_get_them(tmp_path: Path) -> None:
    """Locks are taken in one order, so that nobody waits in a circle; no two hold one at once."""
    locks = ToolLocks(ToolFolders(tmp_path), patience_s=30)
    inside: set[str] = set()

    async def work(names: list[str]) -> None:
        held = await locks.acquire("default", names)
        assert inside.isdisjoint(names)
        inside.update(names)
        await asyncio.sleep(0.001)
        inside.difference_update(names)
        for lock in held:
            lock.finish()

    await asyncio.gather(*(work(names) for names in [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]] * 5))
    assert locks.marked("default") == []


@pytest.mark.req("RG-14")
@pytest.mark.parametrize("is_taken", [False, True])
async def test_a_lock_that_its_holder_removed_meanwhile_is_none(
    locks: ToolLocks, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    """Who opened the file before its holder removed it takes the file that is there now, unless somebody has it."""
    first = locks.try_acquire("default", "a")
    assert first is not None
    opened, taken = locking._open_lock, list[ToolLock | None]()  # pyright: ignore[reportPrivateUsage]

    def open_late(folder: SafeFolder, tool_id: str) -> tuple[int, bool]:
        found = opened(folder, tool_id)
        monkeypatch.setattr(locking, "_open_lock", opened)
        first.finish()
        taken.extend(locks.try_acquire("default", "a") for _ in range(is_taken))
        return found

    monkeypatch.setattr(locking, "_open_lock", open_late)
    second = locks.try_acquire("default", "a")
    assert (second is None) == is_taken
    second = second or taken[0]
    assert second is not None
    assert locks.try_acquire("default", "a") is None
    second.finish()
    assert locks.marked("default") == []


@pytest.mark.req("RG-03")
async def test_a_lock_left_behind_is_a_mark(locks: ToolLocks, tmp_path: Path) -> None:
    """The next holder learns that somebody died and which files that one meant to touch."""
    (held,) = await locks.acquire("default", ["a"])
    held.intend(["v1.json", "metadata.json"])
    held.leave()
    assert locks.marked("default") == ["a"]
    (next_one,) = await locks.acquire("default", ["a"])
    assert (next_one.is_marked, next_one.leftovers) == (True, ["v1.json", "metadata.json"])
    next_one.give_up()
    assert locks.marked("default") == ["a"]
    (last,) = await locks.acquire("default", ["a"])
    last.finish()
    assert locks.marked("default") == []
    assert list((tmp_path / ".locks").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"[", b'"v1.json"', b"{}", b"[1, null]", b"\xff"])
async def test_a_mark_that_says_nothing_takes_nothing_away(locks: ToolLocks, tmp_path: Path, content: bytes) -> None:
    """Whoever died while writing its intent down had not touched anything; neither does who comes next."""
    (tmp_path / ".locks").mkdir()
    (tmp_path / ".locks" / "a").write_bytes(content)
    (lock,) = await locks.acquire("default", ["a"])
    assert lock.leftovers == []
    lock.finish()


async def test_giving_up_leaves_no_mark_of_ones_own(locks: ToolLocks) -> None:
    """Somebody who got the first lock and not the second has done nothing, and nothing says otherwise."""
    (held,) = await locks.acquire("default", ["b"])
    with pytest.raises(StorageBusy):
        await locks.acquire("default", ["a", "b"])
    assert locks.marked("default") == ["b"]
    held.finish()


async def test_a_link_is_no_lock(locks: ToolLocks, tmp_path: Path) -> None:
    """A lock file that is a link, or whose name is a path, is refused."""
    (tmp_path / ".locks").mkdir()
    (tmp_path / ".locks" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath):
        await locks.acquire("default", ["a"])
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(InvalidInput, match="slug"):
        await locks.acquire("default", ["../a"])
