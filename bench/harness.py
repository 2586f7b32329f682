"""How a benchmark measures: contenders take turns, and only ratios leave the room.

Seconds depend on the machine and on who else is using it. A ratio of two things measured side by side depends on much
less, provided they really alternate: each repeat runs every contender once, forwards and backwards in turn, and gives
one ratio. The median of these is the result, the smallest and the largest are its spread.

A contender is a function that does its work once and returns what it cost. `timed` and `cpu_timed` make one from plain
work; a contender that has set-up to leave out, or that lives in a child process, measures itself.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
REPEATS = 5

Contender = Callable[[], float]
Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Row:
    """One result: our cost divided by theirs, the spread of that ratio, and the most it should be."""

    name: str
    ratio: float
    against: str
    low: float
    high: float
    aim: float

    @property
    def is_met(self) -> bool:
        return self.ratio <= self.aim


class Harness:
    """What a benchmark module's `measure(harness)` is given."""

    def __init__(self, module: str, *, repeats: int = REPEATS) -> None:
        if repeats < REPEATS:
            raise ValueError(f"{repeats} repeats say nothing about spread; take at least {REPEATS}")
        self._module = module
        self._repeats = repeats

    def sample(self, contenders: Mapping[str, Contender]) -> dict[str, list[float]]:
        """What each contender cost in each repeat, after one round that nobody counts."""
        for contender in contenders.values():
            contender()
        costs: dict[str, list[float]] = {name: [] for name in contenders}
        forwards = list(contenders)
        for repeat in range(self._repeats):
            for name in forwards if repeat % 2 == 0 else reversed(forwards):
                costs[name].append(contenders[name]())
        return costs

    def row(self, name: str, samples: Samples, *, ours: str, against: str, aim: float) -> Row:
        """One contender against another of the same samples; `aim` is the highest ratio that is good enough."""
        ratios = [our / their for our, their in zip(samples[ours], samples[against], strict=True)]
        return Row(
            name=f"{self._module}: {name}",
            ratio=round(median(ratios), 3),
            against=against,
            low=round(min(ratios), 3),
            high=round(max(ratios), 3),
            aim=aim,
        )

    def compare(self, name: str, ours: Contender, theirs: Contender, *, against: str, aim: float) -> Row:
        """The common case: two contenders, one row."""
        samples = self.sample({"TwinRaven": ours, against: theirs})
        return self.row(name, samples, ours="TwinRaven", against=against, aim=aim)


def timed(work: Callable[[], object]) -> Contender:
    """Wall-clock seconds of `work`."""

    def contender() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    return contender


def cpu_timed(work: Callable[[], object]) -> Contender:
    """Processor seconds of `work`, all threads counted: what a busy neighbour cannot change."""

    def contender() -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    return contender


def child_cpu_timed(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> Contender:
    """Processor seconds of a child process and its children, from start to exit."""

    def contender() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return contender


def peer_python(name: str) -> Path:
    """The Python of a peer's own environment, made from bench/peers/NAME.txt when it is not there or out of date."""
    wanted = (HERE / "peers" / f"{name}.txt").read_text(encoding="utf-8")
    environment = HERE / ".peers" / name
    python, stamp = environment / "bin" / "python", environment / ".installed"
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"bench: making the environment of the peers {name!r}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(HERE / "peers" / f"{name}.txt")]
    subprocess.run(install, check=True, stdout=sys.stderr)
    stamp.write_text(wanted, encoding="utf-8")
    return python
