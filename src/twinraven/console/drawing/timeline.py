"""Lays a session out as a waterfall: rows, and a time scale on which long pauses are cut.

An agent waits for people. On a true scale one pause of two minutes makes every call a dot, so a pause that is longer
than what the model usually takes is drawn short and marked; what lies between two cuts is to scale. All places are
percents of the axis.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any, Final

from markupsafe import Markup

Event = Mapping[str, Any]
_SHORTEST_CUT_MS: Final = 1_500.0
_CUT_SHARE: Final = 0.055
_MOST_TICKS: Final = 2_000
_CALLS_APART: Final = 11.0


@dataclass(slots=True)
class FallRow:
    """One call in the waterfall."""

    event: Event
    start: float
    end: float
    level: int = 0
    inner: list[FallRow] = field(default_factory=list["FallRow"])
    waited: float = 0.0
    """How long a person was waited for before it, in milliseconds."""
    lead: float | None = None
    """Where the line begins that shows what the model took before it, in percent."""
    first_of_turn: bool = True
    last_of_turn: bool = True
    x: float = 0.0
    width: float = 0.0

    @property
    def kind(self) -> str:
        if self.event["raised"]:
            return "failed"
        return "learned" if self.inner else "inner" if self.level else "plain"

    @property
    def lane(self) -> Markup:
        """Draw the bar of the call, and before it the line of what the model took."""
        x, place = round(self.x, 3), 'y="34%" height="32%"' if self.level else 'y="26%" height="48%"'
        line = (
            f'<line class="lead" x1="{round(self.lead, 3)}%" x2="{x}%" y1="50%" y2="50%"/>'
            if self.lead is not None
            else ""
        )
        return Markup(  # noqa: S704 - numbers and names of ours
            f'<svg class="lane" aria-hidden="true">{line}'
            f'<rect class="bar {self.kind}" x="{x}%" width="{round(self.width, 3)}%" {place} rx="2.5"/></svg>'
        )

    @property
    def has_failed_inside(self) -> bool:
        return any(each.event["raised"] for each in self.inner)


@dataclass(frozen=True, slots=True)
class TimeSegment:
    """A stretch of real time, and where it lies on the axis."""

    begin: float
    end: float
    at: float
    length: float
    is_cut: bool


class Scale:
    """Maps real milliseconds to percents of the axis."""

    def __init__(
        self, spans: Sequence[tuple[float, float]], *, cut: bool, waited: frozenset[float] = frozenset()
    ) -> None:
        """Lay spans out; `waited` are the moments at which a user's words ended a pause."""
        busy = _merged(spans)
        gaps = [after[0] - before[1] for before, after in pairwise(busy)]
        # What people take says nothing of what is usual between two calls, and a session may hold more of it than not.
        usual = [gap for gap, after in zip(gaps, busy[1:], strict=True) if after[0] not in waited]
        cap = max(_SHORTEST_CUT_MS, 3 * median(usual) if usual else 0.0) if cut else float("inf")
        shown = sum(end - begin for begin, end in busy) + sum(gap for gap in gaps if gap <= cap)
        cuts = sum(gap > cap for gap in gaps)
        short = max(_CUT_SHARE * shown / max(1 - _CUT_SHARE * cuts, 0.4), 1.0)
        self.pieces: list[TimeSegment] = []
        at = 0.0
        for number, (begin, end) in enumerate(busy):
            self.pieces.append(TimeSegment(begin, end, at, end - begin, is_cut=False))
            at += end - begin
            if number < len(gaps):
                length = gaps[number] if gaps[number] <= cap else short
                self.pieces.append(TimeSegment(end, busy[number + 1][0], at, length, is_cut=gaps[number] > cap))
                at += length
        self._ends = [piece.end for piece in self.pieces]
        self.total = max(at, 1.0)
        self.busy_ms = sum(end - begin for begin, end in busy)

    def percent(self, moment: float) -> float:
        piece = self._piece(moment)
        if piece is None:
            return 100.0
        real = piece.end - piece.begin
        inside = 0.0 if real <= 0 else (max(moment, piece.begin) - piece.begin) / real * piece.length
        return 100 * (piece.at + inside) / self.total

    def _piece(self, moment: float) -> TimeSegment | None:
        """Return the stretch that a moment lies in, or the first one; None behind the last."""
        found = bisect_left(self._ends, moment)
        return self.pieces[found] if found < len(self.pieces) else None

    @property
    def cuts(self) -> list[tuple[float, float, float]]:
        """Return the position and width of each cut, and the length of its pause."""
        return [
            (100 * piece.at / self.total, 100 * piece.length / self.total, piece.end - piece.begin)
            for piece in self.pieces
            if piece.is_cut
        ]

    def ticks(self, wanted: int = 7) -> list[tuple[float, float]]:
        """Percent and real milliseconds of the marks below the axis, only where the scale is true."""
        step = _round_step(self.total / wanted)
        end = self.pieces[-1].end if self.pieces else 0.0
        found: list[tuple[float, float]] = [(0.0, 0.0)]
        moment = step
        for _ in range(_MOST_TICKS):
            if moment > end:
                break
            piece = self._piece(moment)
            if piece is not None and piece.is_cut:
                moment = step * (int(piece.end / step) + 1)
                continue
            at = self.percent(moment)
            if at - found[-1][0] >= _CALLS_APART and at < 96:
                found.append((at, moment))
            moment += step
        return found


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A session as it is drawn."""

    rows: list[FallRow]
    ticks: list[tuple[float, float]]
    cuts: list[tuple[float, float, float]]
    tool_ms: float
    think_ms: float
    wait_ms: float
    lasted_ms: float
    calls: int
    inner_calls: int
    failed: int
    turns: int
    has_times: bool
    """Whether the calls have times of their own; imported logs often do not."""

    @property
    def tool_share(self) -> float:
        return self.tool_ms / max(self.tool_ms + self.think_ms, 1.0)


def lay_out(events: Sequence[Event], *, cut: bool = True) -> Waterfall:
    """Return the waterfall of a session's calls, in order."""
    moments = [_ms(event) for event in events]
    began = min(moments, default=0.0)
    rows = {
        event["event_id"]: FallRow(event, moment - began, moment - began + event["latency_ms"])
        for event, moment in zip(events, moments, strict=True)
    }
    top = _nested(events, rows)
    waited = _connect(top)
    said = frozenset(row.start for row in top if row.waited)
    scale = Scale([(row.start, row.end) for row in top], cut=cut, waited=said)
    for row in rows.values():
        row.x = scale.percent(row.start)
        row.width = max(scale.percent(row.end) - row.x, 0.05)
        row.lead = None if row.lead is None else scale.percent(row.lead)
    lasted = max((row.end for row in top), default=0.0)
    return Waterfall(
        rows=top,
        ticks=scale.ticks(),
        cuts=scale.cuts,
        tool_ms=scale.busy_ms,
        think_ms=max(lasted - scale.busy_ms - waited, 0.0),
        wait_ms=waited,
        lasted_ms=lasted,
        calls=len(top),
        inner_calls=len(rows) - len(top),
        failed=sum(bool(row.event["raised"]) for row in top),
        turns=len({row.event["turn"] for row in top if row.event["turn"] is not None}),
        has_times=len(top) < 2 or lasted > 0,
    )


def _nested(events: Sequence[Event], rows: Mapping[str, FallRow]) -> list[FallRow]:
    top: list[FallRow] = []
    for event in events:
        row = rows[event["event_id"]]
        around = rows.get(event["parent_event_id"] or "")
        if around is None:
            top.append(row)
        else:
            row.level = 1
            around.inner.append(row)
    return top


def _connect(top: Sequence[FallRow]) -> float:
    """Say of each row what came before it: a person's words after a wait, or the model; gives the time waited."""
    before = waited = 0.0
    for number, row in enumerate(top):
        gap = row.start - before
        if number and gap > 0:
            if row.event["outside_input"]:
                row.waited = gap
                waited += gap
            else:
                row.lead = before
        turn = row.event["turn"]
        row.first_of_turn = turn is None or number == 0 or top[number - 1].event["turn"] != turn
        row.last_of_turn = turn is None or number + 1 == len(top) or top[number + 1].event["turn"] != turn
        before = max(before, row.end)
    return waited


def _merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def _ms(event: Event) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp() * 1000


def _round_step(step: float) -> float:
    for unit in (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000):
        for factor in (1, 2, 5):
            if unit * factor >= step:
                return float(unit * factor)
    return 3_600_000.0
