"""A server that is a program ends with everything it started, also when nobody has the patience to see it end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twinraven.connectors.mcp import child
from twinraven.connectors.mcp.child import child_link
from twinraven.connectors.mcp.guard import Guard
from twinraven.connectors.mcp.servers import ServerConfig

STUBBORN = 'trap \'\' TERM; (trap \'\' TERM HUP; exec sleep 60) & echo $! > "$0.new"; mv "$0.new" "$0"; wait; wait'
"""A program that does not end when it is asked, with one of its own, whose number it writes down."""


async def until_gone(pid: int) -> bool:
    """Whether it is gone within ten seconds; one that nobody has waited for yet is."""
    for _ in range(500):
        state = await asyncio.to_thread(
            subprocess.run, ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        if state.stdout.strip()[:1] in {"", "Z"}:
            return True
        await asyncio.sleep(0.02)
    return False


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come about in time")


async def number_in(note: Path) -> int:
    await until(note.exists)
    return int(note.read_text())


async def hold(note: Path) -> None:
    server = ServerConfig("desk", "stdio", command="/bin/sh", args=("-c", STUBBORN, str(note)))
    async with child_link(server, max_bytes=10_000, on_fault=lambda _: None):
        note.with_suffix(".held").touch()
        await asyncio.Event().wait()


async def held(note: Path) -> int:
    """The number of the program's own program, once both run and the link is there."""
    await until(note.with_suffix(".held").exists)
    return await number_in(note)


async def cancel_twice(holding: asyncio.Task[None]) -> None:
    """Once to end it, and once more while it is being ended."""
    holding.cancel()
    await asyncio.sleep(0.1)
    assert not holding.done()
    holding.cancel()
    await asyncio.wait([holding])


async def test_a_program_does_not_survive_an_end_that_is_cut_short(tmp_path: Path) -> None:
    """Cancelled again while it waits for the program's end, the link still leaves nothing of its group behind."""
    holding = asyncio.create_task(hold(tmp_path / "note"))
    pid = await held(tmp_path / "note")
    await cancel_twice(holding)
    assert await until_gone(pid)


async def test_a_program_does_not_survive_a_start_that_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled between the program's first act and the link to it, nothing of its group is left behind."""
    start = child._start  # pyright: ignore[reportPrivateUsage] - the moment that cannot be met otherwise

    async def start_slowly(*given: Any) -> Any:
        started = await start(*given)
        await number_in(tmp_path / "note")
        await asyncio.sleep(0.2)
        return started

    monkeypatch.setattr(child, "_start", start_slowly)
    holding = asyncio.create_task(hold(tmp_path / "note"))
    pid = await number_in(tmp_path / "note")
    holding.cancel()
    await asyncio.wait([holding])
    assert await until_gone(pid)


@pytest.mark.parametrize(("is_cut_short", "said"), [(True, ["strike"]), (False, ["dismiss"])])
async def test_the_guard_is_dismissed_only_by_who_saw_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_cut_short: bool, said: list[str]
) -> None:
    """A guard that is told of an end which nobody saw would let the group live."""
    heard: list[str] = []

    class Listener(Guard):
        async def dismiss(self) -> None:
            heard.append("dismiss")
            await super().dismiss()

        async def strike(self) -> None:
            heard.append("strike")
            await super().strike()

    monkeypatch.setattr(child, "Guard", Listener)
    monkeypatch.setattr(child, "_GRACE_S", 0.3)
    monkeypatch.setattr(child, "_KILL_S", 0.3)
    holding = asyncio.create_task(hold(tmp_path / "note"))
    await held(tmp_path / "note")
    if is_cut_short:
        await cancel_twice(holding)
    else:
        holding.cancel()
        await asyncio.wait([holding])
    assert heard == said


async def test_a_program_without_a_guard_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the guard cannot be posted for a reason nobody foresaw, the program that was started already is ended."""
    pids: list[int] = []

    def refuse(group: int) -> Guard:
        pids.append(group)
        raise RuntimeError("no guard today")

    monkeypatch.setattr(child, "Guard", refuse)
    monkeypatch.setattr(child, "_GRACE_S", 0.1)
    monkeypatch.setattr(child, "_KILL_S", 0.1)
    with pytest.raises(RuntimeError, match="no guard today"):
        await hold(tmp_path / "note")
    assert await until_gone(pids[0])


async def test_a_program_is_ended_although_its_last_words_are_not_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever fails over the news that the program closed its output does not keep its group alive."""
    note = tmp_path / "note"
    monkeypatch.setattr(child, "_GRACE_S", 0.1)
    monkeypatch.setattr(child, "_KILL_S", 0.3)
    server = ServerConfig("desk", "stdio", command="/bin/sh", args=("-c", f"exec >&-; {STUBBORN}", str(note)))

    def fail(_: str) -> None:
        raise RuntimeError("not now")

    async def lose_it() -> None:
        async with child_link(server, max_bytes=10_000, on_fault=fail) as line:
            await until(lambda: note.exists() and line.is_closed)

    with pytest.raises(RuntimeError, match="not now"):
        await lose_it()
    assert await until_gone(await number_in(note))


@pytest.mark.parametrize("strikes", [True, False])
async def test_a_guard_that_hears_no_word_kills_the_group(*, strikes: bool) -> None:
    """Struck, the group is killed; dismissed, it is let alone."""
    group = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    guard = Guard(group.pid)
    if strikes:
        await guard.strike()
    else:
        await guard.dismiss()
        os.killpg(group.pid, signal.SIGTERM)
    assert await asyncio.wait_for(group.wait(), 2) == -(signal.SIGKILL if strikes else signal.SIGTERM)


LEAVES = """
import os, sys, time
if os.fork() == 0:
    os.setpgid(0, 0)
    with open(sys.argv[1] + ".new", "w") as note:
        note.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
"""


async def test_what_left_the_group_ends_too(tmp_path: Path) -> None:
    """A process that made itself a group of its own, in the session of its program, does not outlive us."""
    command = [sys.executable, "-c", LEAVES, str(tmp_path / "note")]
    with subprocess.Popen(command, start_new_session=True) as program:
        guard = Guard(program.pid)
        pid = await number_in(tmp_path / "note")
        assert os.getpgid(pid) == pid
        await guard.strike()
        assert await until_gone(pid)
