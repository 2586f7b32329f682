"""Ends a program with everything it started when this process is gone, however it went.

A process that is killed cannot end its programs, and one that does not read its input never learns of it. So a shell
waits at a pipe of which this process alone holds the other end. When that end closes without a word, it kills the
program's group. Unlike a signal at the parent's death this reaches the whole group, works on every Unix, does not
depend on the thread that started the program, and runs no code between fork and exec. Where the system shows its
processes in /proc, what left the group but not the session is killed as well.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
from contextlib import suppress
from typing import Final

_SHELL: Final = "/bin/sh"
_SCRIPT: Final = """
read -r word && exit
kill -s KILL -- "-$0"
for stat in /proc/[0-9]*/stat; do
  { read -r line < "$stat"; } 2>/dev/null || continue
  pid=${stat#/proc/}
  set -- ${line##*) }
  [ "$4" = "$0" ] && kill -s KILL "${pid%/stat}"
done
"""
"""After the last bracket a line of /proc holds state, parent, group and session."""
_FAREWELL_S: Final = 1.0
_logger = logging.getLogger("twinraven.mcp")


class Guard:
    """Watches over one group of processes."""

    def __init__(self, group: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own script and a number
                [_SHELL, "-c", _SCRIPT, str(group)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                # What is done to our own group must not be done to it.
                start_new_session=True,
            )
        except OSError as error:
            _logger.warning("programs outlive this process if it is killed: %s cannot be run: %s", _SHELL, error)

    async def dismiss(self) -> None:
        """Let go of the group, which has ended."""
        if self._process is not None:
            await asyncio.to_thread(_tell, self._process)

    async def strike(self) -> None:
        """Have the process group killed, because its end was not seen."""
        if self._process is not None:
            assert self._process.stdin is not None
            # Not left to a thread: whoever is cancelled once more would perhaps not get one.
            self._process.stdin.close()
            await asyncio.to_thread(_await_end, self._process)


def _tell(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError), process.stdin as pipe:
        pipe.write(b"done\n")
    _await_end(process)


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_FAREWELL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
