"""Counts the synchronised writes of durable steps, as the kernel sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FEW, _MANY = 10, 60


def syncs_per_step(folder: Path, tool_id: str, **variables: str) -> float:
    """How often a step of a chain of calls of one tool waits for the disk, by the difference of two chains."""
    counted = [_syncs(folder / str(steps), tool_id, steps, variables) for steps in (_FEW, _MANY)]
    return (counted[1] - counted[0]) / (_MANY - _FEW)


def _syncs(folder: Path, tool_id: str, steps: int, variables: dict[str, str]) -> int:
    folder.mkdir(parents=True)
    trace = folder / "trace"
    command = [sys.executable, "-m", "tests.run_worker", "chain", str(folder / "home"), tool_id, str(steps)]
    traced = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace), *command]
    # Without pauses: what is counted is the journal's, not that of events, which are stored as they come.
    environment = {**os.environ, "RUN_WORKER_PAUSE": "0", **variables}
    subprocess.run(traced, cwd=ROOT, env=environment, check=True, timeout=300)
    return trace.read_text().count("sync(")
