"""What it costs to read a log for learning: mined on columns, and the sessions that matter loaded in full.

The same lines are parsed with `json.loads` for comparison, which reads them and keeps nothing. Then the memory that a
call of the log takes at the peak, above what an open home takes, beside the size of its line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.generated_traces import trace_lines
from bench.harness import Harness, Row, cpu_timed
from twinraven.app import open_home
from twinraven.foundation.clock import utc_now
from twinraven.foundation.event_loop import run_to_end
from twinraven.huginn import Evidence, SampleLimits, load_evidence

SESSIONS = 10_000
SAMPLE = 2_000


def measure(harness: Harness) -> list[Row]:
    lines = list(trace_lines(SESSIONS))
    with _home(lines) as home:
        compared = harness.compare(
            f"a log of {SESSIONS:.0e} sessions, for learning",
            ours=lambda: _spent(home),
            theirs=cpu_timed(lambda: [json.loads(line) for line in lines]),
            against="json.loads of the same calls",
            aim=8.0,
        )
        return [compared, _memory(home, lines)]


def _memory(home: Path, lines: list[bytes]) -> Row:
    """The peak of a process that reads, less that of one that only opens the home."""
    peak = _child(home, "read") - _child(home, "open")
    share = round(peak / sum(map(len, lines)), 3)
    title = f"reading: memory for a log of {SESSIONS:.0e} sessions"
    return Row(name=title, ratio=share, against="the bytes of its calls as lines", low=share, high=share, aim=8.0)


def _child(home: Path, what: str) -> int:
    run = subprocess.run(
        [sys.executable, "-m", "bench.bench_reading", str(home), what], check=True, stdout=subprocess.PIPE
    )
    return int(run.stdout)


def _spent(home: Path) -> float:
    begun = time.process_time()
    _read(home)
    return time.process_time() - begun


def _read(home: Path) -> Evidence:
    with open_home(home) as raven:
        run = replace(raven.mining_run, config=raven.learning_config.mining)
        reading = load_evidence(raven.events, "default", run, now=utc_now(), limits=SampleLimits(sessions=SAMPLE))
        return run_to_end(reading)


@contextmanager
def _home(lines: list[bytes]) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        home = Path(folder) / ".twinraven"
        home.mkdir()
        with open_home(home) as raven:
            run_to_end(raven.importer.import_calls("default", lines))
        yield home


def _main() -> None:
    home, what = Path(sys.argv[1]), sys.argv[2]
    if what == "read":
        _read(home)
    else:
        open_home(home).close()
    # Not ru_maxrss, which a child inherits from whoever started it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))))


if __name__ == "__main__":
    _main()
