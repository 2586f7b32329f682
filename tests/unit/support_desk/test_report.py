"""The report says what was counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from examples.support_desk import (
    Canvas,
    Effort,
    Resolution,
    SessionLine,
    count_transitions,
    effort_of,
    render_latencies,
    render_saving,
    render_sessions,
    render_transitions,
)


@given(sessions=st.lists(st.lists(st.sampled_from("abc"), max_size=6), max_size=8))
def test_every_step_is_counted_once(sessions: list[list[str]]) -> None:
    """A session of n calls has n + 1 transitions, the first from the start and the last to the end."""
    counts = count_transitions(sessions)
    assert counts.total() == sum(len(session) + 1 for session in sessions)
    assert sum(count for (source, _), count in counts.items() if source == "(start)") == len(sessions)
    assert sum(count for (_, target), count in counts.items() if target == "(end)") == len(sessions)


def test_transitions_come_with_their_share() -> None:
    """The commonest stands first, with the part of the first tool's calls that led to the second."""
    counts = count_transitions([["find", "get"], ["find", "get"], ["find", "note"], ["find"]])
    lines = render_transitions(counts, canvas=Canvas(), limit=2).split("\n")
    assert lines[1].split()[:4] == ["(start)", "find", "4", "100%"]
    assert lines[2].split()[:4] == ["find", "get", "2", "50%"]
    assert len(lines) == 3


def test_latencies_are_summed_up_per_tool() -> None:
    """Calls, failures, median and 95th percentile, the busiest tool first, and a bar for each."""
    times = {"slow": [float(number) for number in range(1, 101)], "idle": [7.0]}
    lines = render_latencies(times, {"slow": 3}, canvas=Canvas()).split("\n")
    assert lines[1].split() == ["slow", "100", "3", "50.0", "95.0"]
    assert lines[2].split() == ["idle", "1", "0", "7.0", "7.0"]
    assert lines[4].startswith("slow █")
    assert lines[4].endswith("50.0 ms")


def test_sessions_are_listed_as_given() -> None:
    """Each session has its line with calls, turns, failures, time and outcome."""
    line = SessionLine("T-1", "cancel_order", calls=5, turns=7, failures=1, duration_ms=31.26, outcome="success")
    text = render_sessions([line], canvas=Canvas())
    assert text.split("\n")[1].split() == ["T-1", "cancel_order", "5", "7", "1", "31.3", "success"]


def test_a_saving_is_told_as_before_and_after() -> None:
    """Changes are relative to the run without learned tools; what did not change is said to be the same."""
    text = render_saving(Effort(10, 9, 200, 150, 4.0), Effort(10, 9, 150, 165, 3.0), canvas=Canvas())
    rows = {line[:12].strip(): line[12:].split() for line in text.split("\n")[1:]}
    assert rows["model turns"] == ["200", "150", "-25.0%"]
    assert rows["calls"] == ["150", "165", "+10.0%"]
    assert rows["solved"] == ["9", "9", "same"]


def test_effort_adds_up() -> None:
    """Turns and calls are summed, and every ticket that did not fail counts as solved."""
    one = Resolution("T-1", "success", "", None, None, (), turns=5, calls=4, failures=0, learned_calls=0)
    two = Resolution("T-2", "failure", "", None, None, (), turns=3, calls=1, failures=1, learned_calls=0)
    assert effort_of([one, two], 1.5) == Effort(tickets=2, solved=1, turns=8, calls=5, seconds=1.5)
