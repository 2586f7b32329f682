"""Mining against the miners one would otherwise take, on a generated log and on a real one.

Gapped chains against `prefixspan` from PyPI, contiguous chains against a window query in DuckDB; processor time, all
threads counted, the same chains and counts checked in every run. Both sides begin with the log in their own form:
columns here, lists or a table there. DuckDB is not asked for latencies, which our side counts as well. Then what an
event costs in a long log beside a short one, and the memory it takes above the columns.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

from bench.generated_log import generate_log
from bench.harness import HERE, Contender, Harness, Row, cpu_timed, peer_python
from bench.recorded import recorded_logs
from twinraven.huginn.mining import EventColumns, MiningConfig, Pattern, mine
from twinraven.huginn.mining.search import search_all

COPIES = 40
BYTES = 40
SHORT, LONG = 9_000, 900_000

GAPPED = MiningConfig(algorithm="prefixspan", min_support=0.05, respect_breaks=False)
CONTIGUOUS = MiningConfig(algorithm="contiguous", min_support=0.01, respect_breaks=False)


def measure(harness: Harness) -> list[Row]:
    logs = {"generated log": _generated(100_000)}
    for path in recorded_logs()[-1:]:
        logs[f"{path.name.partition('.')[0]} {COPIES} times"] = _real(path)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="twinraven-bench-") as folder:
        for name, columns in logs.items():
            for config, peer, aim in ((GAPPED, "prefixspan", 1 / 20), (CONTIGUOUS, "duckdb", 1 / 10)):
                duel = _Duel(columns, config, peer, Path(folder) / f"{name}.npz")
                against = {"prefixspan": "prefixspan (PyPI)", "duckdb": "DuckDB window query"}[peer]
                title = f"{config.algorithm}, {name}"
                rows.append(harness.compare(title, ours=duel.ours, theirs=duel.theirs, against=against, aim=aim))
    short, long = _generated(SHORT), _generated(LONG)
    for config in (GAPPED, CONTIGUOUS):
        rows.append(_flatness(harness, config, short, long))
        rows.append(_memory(config, long))
    return rows


class _Duel:
    """One log, mined by both sides; whoever disagrees stops the benchmark."""

    def __init__(self, columns: EventColumns, config: MiningConfig, peer: str, path: Path) -> None:
        self._columns, self._config, self._peer, self._path = columns, config, peer, path
        self._python = peer_python("mining")
        self._found: list[Pattern] = []
        np.savez(path, tools=columns.tools, offsets=columns.offsets, failed=columns.failed)

    def ours(self) -> float:
        begun = time.process_time()
        self._found = mine(self._columns, self._config)
        return time.process_time() - begun

    def theirs(self) -> float:
        minimum = search_all(self._columns, self._config).minimum
        script = [str(self._python), str(HERE / "mining_peers.py"), self._peer, str(self._path)]
        run = subprocess.run([*script, str(minimum), str(self._config.max_length)], check=True, stdout=subprocess.PIPE)
        answer = json.loads(run.stdout)
        self._compare(answer["chains"])
        return answer["seconds"]

    def _compare(self, rows: list[tuple[list[int], int, int, int]]) -> None:
        names = self._columns.names
        theirs = {tuple(names[tool] for tool in tools): numbers for tools, *numbers in rows}
        ours = {found.tools: found for found in self._found}
        assert ours.keys() == theirs.keys(), "the chains differ"
        for tools, (sessions, *others) in theirs.items():
            assert ours[tools].sessions == sessions, tools
            # SQL counts overlapping occurrences; ours do not overlap.
            if others and not _overlaps_itself(tools):
                assert [ours[tools].occurrences, ours[tools].failures] == others, tools


def _overlaps_itself(tools: tuple[str, ...]) -> bool:
    return any(tools[shift:] == tools[:-shift] for shift in range(1, len(tools)))


def _flatness(harness: Harness, config: MiningConfig, short: EventColumns, long: EventColumns) -> Row:
    """An event of the long log beside one of the short, which is mined often enough to be measured."""
    rounds = 20

    def per_event(columns: EventColumns, times: int) -> Contender:
        spent = cpu_timed(lambda: [mine(columns, config) for _ in range(times)])
        return lambda: spent() / times / len(columns)

    return harness.compare(
        f"{config.algorithm}, an event of {len(long):.0e}",
        ours=per_event(long, 1),
        theirs=per_event(short, rounds),
        against=f"an event of {len(short):.0e}",
        aim=1.5,
    )


def _memory(config: MiningConfig, columns: EventColumns) -> Row:
    tracemalloc.start()
    mine(columns, config)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    share = round(peak / len(columns) / BYTES, 3)
    title = f"mining: {config.algorithm}, memory above the columns of {len(columns):.0e} events"
    return Row(name=title, ratio=share, against=f"{BYTES} bytes an event", low=share, high=share, aim=1.0)


def _generated(sessions: int) -> EventColumns:
    log = generate_log(sessions=sessions)
    return EventColumns.from_arrays(
        log.names, log.tools, log.offsets, failed=log.failed, latency=log.latency, start=log.start
    )


def _real(path: Path) -> EventColumns:
    """The recorded calls as they are, one copy of every session after the other."""
    with gzip.open(path) as file:
        calls = [json.loads(line) for line in file]
    return EventColumns.build(
        (f"{copy}:{call['session_id']}", call["tool"], False, call["session_outcome"] == "failure", None, 0, False)
        for copy in range(COPIES)
        for call in calls
    )
