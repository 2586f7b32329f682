"""Whoever looks after processes: what becomes of them when it ends, is killed, or cannot keep one of them up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gateways import until
from twinraven.foundation.errors import TwinRavenError
from twinraven.serving import keep_running

_WORKER = """
import os, sys
open(sys.argv[1] + "/" + str(os.getpid()), "w").close()
os.read(int(sys.argv[sys.argv.index("--lifeline") + 1]), 1)
"""
_DEAF = """
import os, sys, time
open(sys.argv[1] + "/" + str(os.getpid()), "w").close()
time.sleep(60)
"""
_SUPERVISOR = """
import asyncio, sys
from twinraven.serving import keep_running
asyncio.run(keep_running([["-c", sys.argv[1], sys.argv[2]]] * 2))
"""


def born(folder: Path) -> list[int]:
    return [int(found.name) for found in folder.iterdir()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def supervised(folder: Path, worker: str) -> subprocess.Popen[bytes]:
    """Somebody in a process of its own who looks after two others, which are up."""
    supervisor = subprocess.Popen([sys.executable, "-c", _SUPERVISOR, worker, str(folder)])
    await until(lambda: len(born(folder)) == 2, within_s=30)
    return supervisor


async def test_nobody_outlives_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    """kill -9 of the one that looks after them ends all of them, so the port is free."""
    supervisor = await supervised(tmp_path, _WORKER)
    supervisor.kill()
    supervisor.wait()
    await until(lambda: not any(map(is_alive, born(tmp_path))), within_s=10)


async def test_a_second_signal_ends_those_that_do_not_listen(tmp_path: Path) -> None:
    """The first signal lets processes end in order; with the second nobody is waited for."""
    supervisor = await supervised(tmp_path, _DEAF)
    supervisor.terminate()
    await asyncio.sleep(0.5)
    assert supervisor.poll() is None
    supervisor.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(supervisor.wait, 10) == 0
    assert not any(map(is_alive, born(tmp_path)))


async def test_one_that_never_comes_up_is_given_up_and_the_others_are_ended(tmp_path: Path) -> None:
    """A command that dies at each start is an error after a few, and leaves no process behind."""
    commands = [["-c", _WORKER, str(tmp_path)], ["-c", "raise SystemExit(7)"]]
    with pytest.raises(TwinRavenError, match="ended with 7 right after its start, 5 times"):
        await asyncio.wait_for(keep_running(commands), 40)
    assert len(born(tmp_path)) == 1
    assert not any(map(is_alive, born(tmp_path)))


async def test_one_that_cannot_be_started_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong with one is told, and nobody is left running unwatched."""
    start = asyncio.create_subprocess_exec

    async def refuse(program: str, *arguments: str, pass_fds: list[int]) -> asyncio.subprocess.Process:
        if "refused" in arguments:
            await until(lambda: len(born(tmp_path)) == 1)
            raise OSError("no more processes")
        return await start(program, *arguments, pass_fds=pass_fds)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(OSError, match="no more processes"):
        await asyncio.wait_for(keep_running([["-c", _WORKER, str(tmp_path)], ["refused"]]), 30)
    assert not any(map(is_alive, born(tmp_path)))


async def test_what_does_not_end_in_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience has an end, for those that do not listen."""
    monkeypatch.setattr("twinraven.serving.processes._MARGIN_S", 0.0)
    keeping = asyncio.ensure_future(keep_running([["-c", _DEAF, str(tmp_path)]], patience_s=0.3))
    await until(lambda: len(born(tmp_path)) == 1)
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(keeping, 10)
    assert time.monotonic() - began >= 0.3
    assert not any(map(is_alive, born(tmp_path)))
