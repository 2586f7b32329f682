"""Kills a process before its k-th write, sync or message, counted over all of its threads.

`Mortals` keeps one warm process of a module that calls `tests.dying.serve`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Mortals:
    """Processes that live through one piece of work, or die on the way."""

    def __init__(self, folder: Path, module: str, *arguments: str) -> None:
        if sys.platform != "linux" or shutil.which("cc") is None:
            pytest.skip("deaths are preloaded on Linux, by a library that cc compiles")
        library = folder / "dying.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(ROOT / "tests/dying.c"), "-ldl"], check=True
        )
        self._server = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "LD_PRELOAD": str(library), "TESTS_DYING": str(library)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def work(self, subject: str, *, die_before: int = 0) -> int | None:
        """Do one piece of work; how many calls it made, or None where the process died before the given one."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{die_before} {subject}\n")
        self._server.stdin.flush()
        told = self._server.stdout.readline().split()
        assert told, "the process that forks has ended"
        status = int(told[0])
        assert status in (0, -9), f"a child ended with {status}"
        return None if status else int(told[1])

    def close(self) -> None:
        assert self._server.stdin is not None
        with self._server:
            self._server.stdin.close()
