"""What learning saves on recorded agents, and what it costs.

Measured on recorded traces where there are any (see `recorded.py`); without them a generated desk of billing agents is
learned from, so that the module always says something. Turns and calls are counted on tasks that nothing was learned
from, over several splits; a ratio below 1 is what is left of them.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

from bench.harness import Harness, Row, cpu_timed
from bench.recorded import recorded_logs
from twinraven.foundation.clock import utc_now
from twinraven.foundation.event_loop import run_to_end
from twinraven.huginn import (
    Backtest,
    LearningConfig,
    RepeatedBacktest,
    ToolFacts,
    read_traces,
    repeat_backtest,
    run_backtest,
)

SPLITS = 8


def measure(harness: Harness) -> list[Row]:
    rows: list[Row] = []
    for name, lines in _records():
        runs = _repeated(lines).runs
        left = [1 - run.saved_share for run in runs]
        learned = [1 - run.learned_share for run in runs]
        made = [1 + run.extra_share for run in runs]
        rows += [
            _counted(f"learning: assistant turns left, {name}", left, 0.78),
            _counted(f"learning: assistant turns left by learned tools alone, {name}", learned, 0.85),
            _counted(f"learning: calls made, {name}", made, 1.2),
            harness.compare(
                f"learning and testing, {name}",
                ours=cpu_timed(lambda lines=lines: _backtest(lines)),
                theirs=cpu_timed(lambda lines=lines: [json.loads(line) for line in lines]),
                against="json.loads of the traces",
                aim=60.0,
            ),
        ]
    return rows


def _backtest(lines: list[bytes]) -> Backtest:
    log = read_traces(lines)
    return run_to_end(run_backtest(log.sessions, LearningConfig(), ToolFacts(), split="task", now=utc_now))


def _repeated(lines: list[bytes]) -> RepeatedBacktest:
    sessions, config = read_traces(lines).sessions, LearningConfig()
    return run_to_end(repeat_backtest(sessions, config, ToolFacts(), split="task", repeats=SPLITS, now=utc_now))


def _counted(name: str, ratios: list[float], aim: float) -> Row:
    """The mean of a count over splits, and its extremes; the same every time."""
    mean, least, most = (round(value, 3) for value in (sum(ratios) / len(ratios), min(ratios), max(ratios)))
    return Row(name, mean, f"the same sessions as recorded, mean of {len(ratios)} splits", least, most, aim)


def _records() -> Iterator[tuple[str, list[bytes]]]:
    recorded = recorded_logs()
    if not recorded:
        yield "generated billing agents", list(_generated())
    for path in recorded:
        with gzip.open(path) as file:
            yield path.name.removesuffix(".jsonl.gz"), file.read().splitlines()


def _generated() -> Iterator[bytes]:
    rng = random.Random(12)
    for number in range(1500):
        for line in _session(rng, number):
            yield json.dumps(line).encode()


def _session(rng: random.Random, number: int) -> Iterator[dict[str, Any]]:
    email, customer = f"u{rng.randrange(10**6)}@mail.test", f"C-{rng.randrange(10**9)}"
    invoices = [f"INV{rng.randrange(10**9)}" for _ in range(rng.randrange(2, 5))]
    wanted = rng.sample(invoices, rng.randrange(1, len(invoices) + 1))
    calls: list[tuple[str, dict[str, Any], Any]] = [
        ("search_customer", {"email": email}, {"customer": {"id": customer}}),
        ("load_customer", {"customer_id": customer}, {"invoices": [{"id": each} for each in invoices]}),
        *(("get_invoice", {"invoice_id": each}, {"id": each, "total": rng.randrange(999)}) for each in wanted),
    ]
    for seq, (tool, params, output) in enumerate(calls):
        yield {
            "session_id": f"s{number}",
            "seq": seq,
            "tool": tool,
            "params": params,
            "output": output,
            "user_before": f"I am {email}" if seq == 0 else None,
            "llm_turn": seq + 1,
            "task_id": number % 100,
        }
