"""What it costs to read a log for learning: mined on columns, and the sessions that matter loaded in full.

The same lines are parsed with `json.loads` for comparison, which reads them and keeps nothing.
"""

from __future__ import annotations

import json
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
from twinraven.huginn import LearningEvidence, SampleLimits, load_evidence

SESSIONS = 10_000
SAMPLE = 2_000


def measure(harness: Harness) -> list[Row]:
    lines = list(trace_lines(SESSIONS))
    with _home(lines) as home:
        row = harness.compare(
            f"a log of {SESSIONS:.0e} sessions, for learning",
            ours=lambda: _spent(home),
            theirs=cpu_timed(lambda: [json.loads(line) for line in lines]),
            against="json.loads of the same calls",
            aim=8.0,
        )
        return [row]


def _spent(home: Path) -> float:
    begun = time.process_time()
    _read(home)
    return time.process_time() - begun


def _read(home: Path) -> LearningEvidence:
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
