"""The waterfall's geometry: true where it claims to be, cut only where nothing happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from twinraven.console.drawing.timeline import lay_out

BEGAN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def call(number: int, at_ms: int, latency_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "event_id": f"e{number}",
        "parent_event_id": None,
        "timestamp": (BEGAN + timedelta(milliseconds=at_ms)).isoformat(),
        "latency_ms": latency_ms,
        "raised": False,
        "turn": number,
        "outside_input": None,
        **more,
    }


GAPS = st.lists(st.tuples(st.integers(0, 400_000), st.integers(0, 5_000)), min_size=1, max_size=30)


def made(gaps: list[tuple[int, int]]) -> list[dict[str, Any]]:
    at, found = 0, list[dict[str, Any]]()
    for number, (gap, latency) in enumerate(gaps):
        at += gap
        found.append(call(number, at, latency))
    return found


@given(GAPS, st.booleans())
def test_bars_lie_in_order_inside_the_axis(gaps: list[tuple[int, int]], cut: bool) -> None:
    """Bars begin in the order of the calls, inside 0 to 100 %, and what overlaps in time overlaps in the picture."""
    fall = lay_out(made(gaps), cut=cut)
    places = [(row.x, row.x + row.width) for row in fall.rows]
    assert all(-1e-6 <= x <= end <= 100.06 for x, end in places)
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    for one, other in zip(fall.rows, fall.rows[1:], strict=False):
        if other.start < one.end:
            assert other.x < one.x + one.width + 1e-6


@given(GAPS)
def test_cuts_lie_where_nothing_ran(gaps: list[tuple[int, int]]) -> None:
    """A cut covers a pause: no call runs in it, and it says how long the pause was."""
    fall = lay_out(made(gaps))
    for at, wide, real in fall.cuts:
        assert real >= 1_500
        assert not any(row.x + 1e-6 < at + wide and row.x + row.width > at + 1e-6 + 0.06 for row in fall.rows)


@given(GAPS)
def test_times_add_up(gaps: list[tuple[int, int]]) -> None:
    """In tools, between calls and waiting for people is the whole time."""
    fall = lay_out(made(gaps))
    assert abs(fall.tool_ms + fall.think_ms + fall.wait_ms - fall.lasted_ms) < 1e-3


def test_turns_people_and_inner_calls() -> None:
    """Calls of one turn share a bracket, a person's words count as waiting, inner calls hang under their tool."""
    events = [
        call(1, 0, 100, turn=1),
        call(2, 10, 100, turn=1),
        call(3, 60_000, 500, turn=2, outside_input="Yes"),
        call(4, 60_010, 80, turn=2, parent_event_id="e3", raised=True),
    ]
    fall = lay_out(events)
    assert [(row.first_of_turn, row.last_of_turn) for row in fall.rows] == [(True, False), (False, True), (True, True)]
    assert fall.rows[2].waited == 60_000 - 110
    assert [inner.kind for inner in fall.rows[2].inner] == ["failed"]
    assert (fall.calls, fall.inner_calls, fall.turns) == (3, 1, 2)


def test_calls_without_times() -> None:
    """A log whose calls share one moment says so instead of drawing a time."""
    assert not lay_out([call(1, 0, 0), call(2, 0, 0)]).has_times


def test_pauses_of_people_are_cut_however_many_there_are() -> None:
    """Where half of all pauses are a person's, each is cut, and the calls between them can be told apart."""
    at, events = 0, list[dict[str, Any]]()
    for number in range(8):
        at += 60_000 + number if number % 2 else 900
        events.append(call(number, at, 200, outside_input="yes" if number % 2 else None))
        at += 200
    fall = lay_out(events)
    assert len(fall.cuts) == 4
    assert min(row.width for row in fall.rows) > 1.5


def test_one_pause_in_a_short_session_is_cut() -> None:
    """A session of two calls with somebody's minutes between them is drawn as two calls, not as two dots."""
    fall = lay_out([call(1, 0, 500), call(2, 100_000, 700, outside_input="again")])
    assert len(fall.cuts) == 1
    assert min(row.width for row in fall.rows) > 20
