"""What starting the command costs: processor time beside a Python that does nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.harness import Harness, Row, child_cpu_timed

COMMAND = str(Path(sys.executable).with_name("twinraven"))


def measure(harness: Harness) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        home = {"TWINRAVEN_HOME": str(Path(folder) / ".twinraven")}
        subprocess.run([COMMAND, "init"], check=True, stdout=subprocess.DEVNULL, env=home, cwd=folder)
        nothing = child_cpu_timed([sys.executable, "-c", "pass"])
        samples = harness.sample(
            {
                "python -c pass": nothing,
                "--help": child_cpu_timed([COMMAND, "--help"], env=home),
                "sessions list": child_cpu_timed([COMMAND, "sessions", "list"], env=home),
            }
        )
    return [
        harness.row(f"twinraven {words}", samples, ours=words, against="python -c pass", aim=10.0)
        for words in ("--help", "sessions list")
    ]
