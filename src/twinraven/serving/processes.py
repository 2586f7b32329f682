"""Supervises several worker processes that share one port.

Each is started with the same command on the same open socket. One that dies is started again, later each time it dies
soon; one that never comes up is not tried for ever. All hold the end of a pipe that closes when we ask them to end, and
when we are gone without a word, so that nobody is left behind on the port. Whoever does not end in time is ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from twinraven.foundation.errors import TwinRavenError
from twinraven.serving.listening import PATIENCE_S
from twinraven.serving.signals import ending_with

_MARGIN_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_SOON_S: Final = 10.0
_STILLBORN_S: Final = 5.0
_MOST_STILLBORN: Final = 5

_logger = logging.getLogger("twinraven.serving")


async def keep_running(
    commands: Sequence[Sequence[str]], *, fds: Sequence[int] = (), patience_s: float = PATIENCE_S
) -> None:
    """Run a process of our own Python for each command until we are asked to end; asked twice, end them at once.

    Each command must take `--lifeline FD`, end in order when that pipe ends, and need no longer than `patience_s`.
    """
    crew = _Crew(fds, patience_s + _MARGIN_S)
    keepers = [asyncio.ensure_future(crew.keep(command)) for command in commands]
    with ending_with(crew.end, at_once=crew.hurried.set):
        try:
            await asyncio.gather(*keepers)
        finally:
            crew.end()
            await asyncio.gather(*keepers, return_exceptions=True)
            crew.close()


class _Crew:
    """Processes that live and end together."""

    def __init__(self, fds: Sequence[int], patience_s: float) -> None:
        self._fds = fds
        self._patience_s = patience_s
        self._lifeline, self._held = os.pipe()
        self._is_held = True
        self._ended = asyncio.Event()
        self.hurried = asyncio.Event()

    def end(self) -> None:
        """Let go of the lifeline."""
        self._ended.set()
        if self._is_held:
            self._is_held = False
            os.close(self._held)

    def close(self) -> None:
        os.close(self._lifeline)

    async def keep(self, command: Sequence[str]) -> None:
        """Restart a command whenever it ends, until the shutdown."""
        pause, stillborn = _FIRST_PAUSE_S, 0
        has_lived = False
        while not self._ended.is_set():
            began = time.monotonic()
            process = await self._start(command)
            if await self._outlives(process):
                return
            lived_s = time.monotonic() - began
            has_lived = has_lived or lived_s > _STILLBORN_S
            stillborn += 1
            # One that was up before can come up again, when what it needs is back.
            if stillborn == _MOST_STILLBORN and not has_lived:
                raise TwinRavenError(
                    f"a process ended with {process.returncode} right after its start, {stillborn} times in a row; "
                    "what it said stands above",
                    command=" ".join(command),
                )
            pause = _FIRST_PAUSE_S if lived_s > _SOON_S else min(2 * pause, _LONGEST_PAUSE_S)
            _logger.warning("process %d ended with %s; another is started", process.pid, process.returncode)
            await _first(self._ended, within_s=pause)

    async def _start(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        lifeline = str(self._lifeline)
        return await asyncio.create_subprocess_exec(
            sys.executable, *command, "--lifeline", lifeline, pass_fds=[*self._fds, self._lifeline]
        )

    async def _outlives(self, process: asyncio.subprocess.Process) -> bool:
        """Wait for a process's end; whether it was there until we wanted it to end."""
        dying = asyncio.ensure_future(process.wait())
        ending = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait([dying, ending], return_when=asyncio.FIRST_COMPLETED)
            if not self._ended.is_set():
                return False
            hurrying = asyncio.ensure_future(self.hurried.wait())
            await asyncio.wait([dying, hurrying], return_when=asyncio.FIRST_COMPLETED, timeout=self._patience_s)
            hurrying.cancel()
        finally:
            ending.cancel()
            if self._ended.is_set() and not dying.done():
                with suppress(ProcessLookupError):
                    process.kill()
                await dying
        return True


async def _first(event: asyncio.Event, *, within_s: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), within_s)
