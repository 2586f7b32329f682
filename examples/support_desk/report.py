"""What was seen of the desk at work, for people: sessions, transitions, latencies, and what learned tools changed.

The functions take plain counts and times, so they serve whatever recorded them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from examples.support_desk.agent import Resolution
from examples.support_desk.charts import Canvas, Cell, bar_chart, draw_bar, table

START = "(start)"
END = "(end)"


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One session in the list."""

    session_id: str
    about: str
    calls: int
    turns: int
    failures: int
    duration_ms: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Effort:
    """What a batch of tickets took."""

    tickets: int
    solved: int
    turns: int
    calls: int
    seconds: float


def count_transitions(sessions: Iterable[Sequence[str]]) -> Counter[tuple[str, str]]:
    """How often each tool followed each other one, the start and the end of a session counted too."""
    counts: Counter[tuple[str, str]] = Counter()
    for tools in sessions:
        counts.update(zip((START, *tools), (*tools, END), strict=True))
    return counts


def effort_of(resolutions: Sequence[Resolution], seconds: float) -> Effort:
    return Effort(
        tickets=len(resolutions),
        solved=sum(resolution.outcome != "failure" for resolution in resolutions),
        turns=sum(resolution.turns for resolution in resolutions),
        calls=sum(resolution.calls for resolution in resolutions),
        seconds=seconds,
    )


def render_sessions(lines: Sequence[SessionLine], *, canvas: Canvas) -> str:
    headers = ("session", "about", "calls", "turns", "failed", "ms", "outcome")
    rows = [
        (line.session_id, line.about, line.calls, line.turns, line.failures, line.duration_ms, line.outcome)
        for line in lines
    ]
    return table(headers, rows, canvas=canvas)


def render_transitions(counts: Mapping[tuple[str, str], int], *, canvas: Canvas, limit: int = 12) -> str:
    """The commonest steps from tool to tool, and how often the first led to the second."""
    leaving: Counter[str] = Counter()
    for (source, _), count in counts.items():
        leaving[source] += count
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
    rows: list[tuple[Cell, ...]] = []
    for (source, target), count in ranked:
        share = count / leaving[source]
        rows.append((source, target, count, f"{share:4.0%}", draw_bar(share, 1.0, 20, canvas=canvas)))
    return table(("after", "comes", "times", "share", ""), rows, canvas=canvas)


def render_latencies(
    latencies_ms: Mapping[str, Sequence[float]], failures: Mapping[str, int], *, canvas: Canvas
) -> str:
    """Per tool: how often it was called and failed, and how long it took."""
    rows: list[tuple[Cell, ...]] = []
    medians: list[tuple[str, float]] = []
    for tool_id, times in sorted(latencies_ms.items(), key=lambda item: (-len(item[1]), item[0])):
        ordered = sorted(times)
        middle, high = _quantile(ordered, 0.5), _quantile(ordered, 0.95)
        rows.append((tool_id, len(ordered), failures.get(tool_id, 0), middle, high))
        medians.append((tool_id, middle))
    figures = table(("tool", "calls", "failed", "median ms", "p95 ms"), rows, canvas=canvas)
    return f"{figures}\n\n{bar_chart(medians, canvas=canvas, unit=' ms')}"


def render_saving(before: Effort, after: Effort, *, canvas: Canvas) -> str:
    """The same tickets with and without learned tools."""
    measures: list[tuple[str, float, float]] = [
        ("tickets", before.tickets, after.tickets),
        ("solved", before.solved, after.solved),
        ("model turns", before.turns, after.turns),
        ("calls", before.calls, after.calls),
        ("seconds", before.seconds, after.seconds),
    ]
    rows = [(name, old, new, _change(old, new)) for name, old, new in measures]
    return table(("", "without", "with", "change"), rows, canvas=canvas)


def _change(old: float, new: float) -> str:
    return f"{(new - old) / old:+.1%}" if old and new != old else "same" if old == new else "-"


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else 0.0
