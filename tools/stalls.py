"""Run a command while its processes are stopped at random for seconds, as a busy host stops a machine: Linux only.

    python -m tools.stalls [--seed N] COMMAND ...

Stops now the whole tree of processes and now a few of it, and lets them go on. A test that fails then lives by its
clock, and a wait without end is a lock that an unlikely order leaves behind: attach a debugger and look who waits.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAUSE_S: Final = (2.0, 7.0)
_STALL_S: Final = (0.5, 4.0)
_WHOLE: Final = 0.4
"""How often the whole tree is stopped rather than a few of its processes."""
_STOPPED: Final = "TtZ"


def processes() -> Iterator[tuple[int, int, str]]:
    """Every process of the machine, with its parent and its state."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                yield int(entry.name), int(parent), state


def running_below(root: int) -> list[int]:
    """The descendants of a process that are neither stopped nor gone."""
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, state in processes():
        children.setdefault(parent, []).append((pid, state))
    found: list[int] = []
    pending = [root]
    while pending:
        for pid, state in children.get(pending.pop(), ()):
            pending.append(pid)
            if state not in _STOPPED:
                found.append(pid)
    return found


def stall(victims: Iterable[int], seconds: float) -> None:
    """Stop processes for a while."""
    stopped = [pid for pid in victims if _send(pid, signal.SIGSTOP)]
    try:
        time.sleep(seconds)
    finally:
        for pid in stopped:
            _send(pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def run(command: list[str], *, seed: int) -> int:
    """Run a command under stalls; its exit code."""
    chance = random.Random(seed)
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            time.sleep(chance.uniform(*_PAUSE_S))
            found = [process.pid, *running_below(process.pid)]
            few = chance.sample(found, min(len(found), chance.randint(1, 3)))
            stall(found if chance.random() < _WHOLE else few, chance.uniform(*_STALL_S))
        return process.returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tools.stalls", description="Run a command whose processes are stopped at random."
    )
    parser.add_argument("--seed", type=int, default=1, help="which stalls (default: %(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run")
    options = parser.parse_args()
    if not options.command:
        parser.error("COMMAND is missing; give what to run, such as: python -m tools.stalls make test")
    return run(options.command, seed=options.seed)


if __name__ == "__main__":
    sys.exit(main())
