"""Measures one whole round of learning on a generated log of any size: CPU against `json.loads`, and peak memory.

python -m bench.learning_scale SESSIONS [FOLDER]

The log is made in a process of its own, so that the peak is that of learning. A folder that has a home is used again.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.generated_traces import trace_lines
from twinraven.app import open_home
from twinraven.foundation.event_loop import run_to_end
from twinraven.huginn import round_outcome

_CHUNK = 10_000


def fill(home: Path, sessions: int) -> None:
    """Import so many sessions into a new home."""
    home.mkdir(parents=True)
    with open_home(home) as raven:
        for first in range(0, sessions, _CHUNK):
            lines = trace_lines(min(_CHUNK, sessions - first), first=first)
            run_to_end(raven.importer.import_calls("default", lines))
            _report(f"imported {min(first + _CHUNK, sessions):,} of {sessions:,} sessions")


def _report(text: str) -> None:
    """Write where a long measurement stands to stderr: the CPU and the peak memory of this process so far."""
    print(f"{time.process_time():9.1f} s {_peak_bytes() / 2**20:8.0f} MiB  {text}", file=sys.stderr, flush=True)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def parsing_s(sessions: int) -> float:
    """The CPU that `json.loads` takes for the same lines, a chunk at a time."""
    spent = 0.0
    for first in range(0, sessions, _CHUNK):
        lines = list(trace_lines(min(_CHUNK, sessions - first), first=first))
        begun = time.process_time()
        for line in lines:
            json.loads(line)
        spent += time.process_time() - begun
    return spent


class Phases:
    """The CPU of each phase of a round, by what the round says when a phase begins."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._current, self._since = "columns and chains", time.process_time()

    def say(self, text: str) -> None:
        """Book what was spent since the last message, and begin the phase that this one names by its first word."""
        _report(text)
        now = time.process_time()
        self.spent[self._current] = self.spent.get(self._current, 0.0) + now - self._since
        self._current, self._since = text.split(" ", 1)[0], now


def learn(home: Path) -> dict[str, Any]:
    """A round of learning, and what it took."""
    phases = Phases()
    begun = time.process_time()
    with open_home(home) as raven:
        outcome = round_outcome(run_to_end(raven.huginn.learn("default", by="bench", progress=phases.say)))
    phases.say("end")
    spent = time.process_time() - begun
    figures = {name: outcome[name] for name in ("sessions", "chains", "drafts", "proven")}
    proposed = len(outcome["proposals"])
    return {**figures, "proposals": proposed, "learn_s": spent, "phases_s": phases.spent, "peak_bytes": _peak_bytes()}


def measure(sessions: int, folder: Path) -> dict[str, Any]:
    """Fill, learn and parse, each of the first two in a process of its own."""
    home = folder / ".twinraven"
    if not home.exists():
        subprocess.run([sys.executable, "-m", __spec__.name, "fill", str(home), str(sessions)], check=True)
    done = subprocess.run([sys.executable, "-m", __spec__.name, "learn", str(home)], check=True, stdout=subprocess.PIPE)
    figures = json.loads(done.stdout)
    parsed = parsing_s(sessions)
    return {**figures, "json_loads_s": parsed, "ratio": figures["learn_s"] / parsed}


def main(arguments: list[str]) -> None:
    if arguments[0] == "fill":
        fill(Path(arguments[1]), int(arguments[2]))
    elif arguments[0] == "learn":
        print(json.dumps(learn(Path(arguments[1]))))
    else:
        given = arguments[1:]
        with nullcontext(given[0]) if given else tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
            print(json.dumps(measure(int(arguments[0]), Path(folder)), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
