"""What durability adds to a call, what a wide graph adds to a deep one, and what importing the engine costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.bench_engine import ours
from bench.durable_sizes import WIDE
from bench.harness import Harness, Row

_IMPORT = "import time; {}; begun = time.process_time(); {}; print(time.process_time() - begun)"
_ALLOWED_S = 0.03


def measure(harness: Harness) -> list[Row]:
    with tempfile.TemporaryDirectory() as bytecode:
        return _measure(harness, bytecode)


def _measure(harness: Harness, bytecode: str) -> list[Row]:
    return [
        harness.compare(
            "a durable write, CPU",
            ours("writes", "cpu"),
            ours("calls", "cpu"),
            against="the same call alone",
            aim=1.3,
        ),
        harness.compare(
            f"{WIDE} steps wide, CPU", ours("wide", "cpu"), ours("deep", "cpu"), against=f"{WIDE} in order", aim=1.1
        ),
        harness.compare(
            "importing the engine after the call path, CPU",
            _import_cost("from twinraven.calls import Calls", "import twinraven.engine.worker", bytecode),
            lambda: _ALLOWED_S,
            against="30 ms",
            aim=1.0,
        ),
    ]


def _import_cost(before: str, after: str, bytecode: str) -> Callable[[], float]:
    """Processor seconds that the import `after` costs once the import `before` is done, compiled as when installed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = bytecode

    def contender() -> float:
        command = [sys.executable, "-c", _IMPORT.format(before, after)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path.cwd(), env=env)
        return float(done.stdout)

    return contender
