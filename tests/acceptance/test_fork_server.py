"""The warm process that tests fork commands from: what is left of a command when whoever stood for it is gone."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path

from tests.acceptance.cli import forked_command

_PATIENCE_MS = 60_000


def test_a_command_ends_with_the_process_that_stands_for_it(tmp_path: Path) -> None:
    """A killed process cannot pass the signal on, so the fork that does its work is killed in its place."""
    script = tmp_path / "lasting.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(3600)\n", encoding="utf-8")
    with subprocess.Popen([*forked_command(), f"script:{script}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        fork = os.pidfd_open(int(process.stdout.readline()))
        try:
            process.kill()
            ended = select.poll()
            ended.register(fork, select.POLLIN)
            assert ended.poll(_PATIENCE_MS)
        finally:
            os.close(fork)
