"""Detects drift: measures the support and confidence of a chain in recent sessions.

A call of the learned tool is an occurrence of its chain, since it replaced one: a tool that everybody uses must not
look as if its chain had died out. It counts wherever it is made: a tool learned from scripts may be called by itself,
and one learned from single calls in a script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from twinraven.huginn.chains import columns_of
from twinraven.huginn.mining import EventColumns, MiningConfig, find_instances, prepare, transition_counts
from twinraven.huginn.mining_run import LogWindow, MiningRun, load_columns
from twinraven.huginn.scripts import load_script_traces, uses_of_tool
from twinraven.muninn import EventStore
from twinraven.registry import Support


class ChainSupport:
    """Mines one chain again, for the registry."""

    def __init__(self, events: EventStore, *, idle_gap_s: float) -> None:
        self._events = events
        self._idle_gap_s = idle_gap_s

    async def measure(self, tenant_id: str, chain: dict[str, Any], *, tool_id: str, since: datetime) -> Support:
        """Support and confidence of a chain in sessions since a time."""
        run = MiningRun.from_dict(chain["mining_config"], idle_gap_s=self._idle_gap_s)
        window = LogWindow(since=since, tag=run.window.tag)
        uses = await uses_of_tool(self._events, tenant_id, tool_id, where=window.where)
        if run.of == "scripts":
            # Whether the same script still recurs does not matter here: every script that makes these calls counts.
            scripts = await load_script_traces(self._events, tenant_id, least_sessions=1, where=window.where)
            columns, names = columns_of(scripts.sessions), [session.session_id for session in scripts.sessions]
            # A run of a script is a session here, so is a call that took the place of one.
            elsewhere = Counter(str(use.event_id) for use in uses if use.parent_event_id not in scripts.event_ids)
        else:
            loaded = await load_columns(self._events, tenant_id, idle_gap_s=run.idle_gap_s, window=window)
            columns, names = loaded.columns, loaded.session_ids
            elsewhere = Counter(use.session_id for use in uses if use.parent_event_id is not None)
        found = _Found(prepare(columns, run.config), names, elsewhere)
        return _support(found, tuple(chain["tools"]), tool_id, run.config)


class _Found(NamedTuple):
    """Where a chain may occur: columns with the names of their sessions, and calls of the tool outside them."""

    columns: EventColumns
    names: Sequence[str]
    elsewhere: Counter[str]


def _support(found: _Found, tools: tuple[str, ...], tool_id: str, config: MiningConfig) -> Support:
    columns, names, elsewhere = found
    sessions = len({*names, *elsewhere})
    if not sessions:
        return Support(0.0, 0.0, 0)
    if not columns.sessions:
        return Support(1.0, 1.0, sessions)
    instances = find_instances(
        columns,
        tools,
        gapped=config.gapped,
        respect_breaks=config.respect_breaks,
        max_gap_ms=config.max_gap_ms,
    )
    own = columns.tool_ids([tool_id])
    calls = np.flatnonzero(columns.tools == own[0]) if own is not None else np.zeros(0, np.int64)
    showing = {*columns.session_of(instances[:, 0]).tolist(), *columns.session_of(calls).tolist()}
    return Support(
        support=len({*(names[number] for number in showing), *elsewhere}) / sessions,
        confidence=_confidence(columns, tools, len(calls) + elsewhere.total()),
        sessions=sessions,
    )


def _confidence(columns: EventColumns, tools: tuple[str, ...], calls: int) -> float:
    """Return the average transition probability, each call of the learned tool counting once on every link."""
    counts = transition_counts(columns).transitions
    shares: list[float] = []
    for link in pairwise(tools):
        leaving = sum(found.count for (start, _), found in counts.items() if start == link[0]) + calls
        here = counts[link].count if link in counts else 0
        shares.append((here + calls) / leaving if leaving else 0.0)
    return sum(shares) / len(shares)
