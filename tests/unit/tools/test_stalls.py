"""Stalls stop processes for a while and leave none of them stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tools.stalls import processes, run, running_below, stall

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def test_a_tree_is_stopped_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """While they are stalled a process and its children are stopped; afterwards all run."""
    with subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600; true"], start_new_session=True) as process:
        try:
            while len(running_below(process.pid)) < 2:
                pass
            stopped: list[int] = []

            def look(_: float) -> None:
                while running_below(process.pid):
                    pass
                stopped.extend(pid for pid, parent, state in processes() if parent == process.pid and state == "T")

            monkeypatch.setattr("tools.stalls.time.sleep", look)
            stall([process.pid, *running_below(process.pid)], 1.0)
            assert len(stopped) == 2
            while set(running_below(process.pid)) != set(stopped):
                pass
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_the_exit_code_is_the_commands() -> None:
    """Whoever runs tests under stalls hears whether they passed."""
    assert run([sys.executable, "-c", "raise SystemExit(3)"], seed=1) == 3
