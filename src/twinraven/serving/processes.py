"""Several processes that share one port, and somebody who looks after them.

Each is started with the same command on the same open socket. One that dies is started again, later each time it dies
soon; a signal that asks to end reaches all of them, and whoever does not end in time is ended.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from typing import Final

from twinraven.serving.signals import ending_with

_PATIENCE_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_SOON_S: Final = 10.0

_logger = logging.getLogger("twinraven.serving")


async def keep_running(commands: Sequence[Sequence[str]], *, fds: Sequence[int] = ()) -> None:
    """Run a process of our own Python for each command until we are asked to end."""
    ended = asyncio.Event()
    with ending_with(ended.set):
        await asyncio.gather(*(_keep(command, fds, ended) for command in commands))


async def _keep(command: Sequence[str], fds: Sequence[int], ended: asyncio.Event) -> None:
    pause = _FIRST_PAUSE_S
    while not ended.is_set():
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(sys.executable, *command, pass_fds=fds)
        dying = asyncio.ensure_future(process.wait())
        ending = asyncio.ensure_future(ended.wait())
        await asyncio.wait([dying, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if ended.is_set():
            await _end(process, dying)
            return
        pause = _FIRST_PAUSE_S if time.monotonic() - began > _SOON_S else min(2 * pause, _LONGEST_PAUSE_S)
        _logger.warning("process %d ended with %s; another is started", process.pid, process.returncode)
        await _pause(ended, pause)


async def _end(process: asyncio.subprocess.Process, dying: asyncio.Future[int]) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(asyncio.shield(dying), _PATIENCE_S)
    except TimeoutError:
        process.kill()
        await dying


async def _pause(ended: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(ended.wait(), seconds)
    except TimeoutError:
        return
