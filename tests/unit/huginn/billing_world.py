"""The billing agents of `examples/traces` as Huginn reads them, with data flow that is known because it is planted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from examples.traces.generate import INVOICE, LOAD, LOOKUP, RATE, SETTLE, SessionScript, billing_scripts, lines_of
from twinraven.huginn.traces import SessionTrace, read_traces

__all__ = [
    "INVOICE",
    "LOAD",
    "LOOKUP",
    "RATE",
    "SETTLE",
    "SessionScript",
    "billing_scripts",
    "billing_sessions",
    "lines_of",
    "shuffled_outputs",
    "traces",
]


def billing_sessions(count: int, *, seed: int = 1, tasks: int = 40, pause: bool = False) -> list[SessionTrace]:
    """Sessions of billing agents, as Huginn reads them."""
    return traces(billing_scripts(count, seed=seed, tasks=tasks, pause=pause))


def traces(scripts: Sequence[SessionScript]) -> list[SessionTrace]:
    """Scripts as Huginn reads them."""
    return read_traces(lines_of(scripts).splitlines()).sessions


def shuffled_outputs(sessions: Sequence[SessionTrace], *, seed: int) -> list[SessionTrace]:
    """The same calls, each answered with the answer to some other call of that tool."""
    rng = random.Random(seed)
    pools: dict[str, list[Any]] = {}
    for session in sessions:
        for call in session.calls:
            pools.setdefault(call.tool_id, []).append(call.output)
    for pool in pools.values():
        rng.shuffle(pool)
    return [
        replace(session, calls=tuple(replace(call, output=pools[call.tool_id].pop()) for call in session.calls))
        for session in sessions
    ]
