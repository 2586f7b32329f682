"""Spans: which are calls, what is known of them, and how inner calls find the one around them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import read_values
from twinraven.muninn import Observation
from twinraven.muninn.formats.otlp import OtlpParser

TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_760_000_000_000_000_000


def span(number: int, *, parent: int | None = None, operation: str = "execute_tool") -> dict[str, Any]:
    """A span of a tool call that began as many milliseconds after the start as its number says."""
    stated = {"gen_ai.operation.name": operation, "gen_ai.tool.name": f"tool_{number}"}
    began = START + number * 1_000_000
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": f"execute_tool tool_{number}",
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + 5_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in stated.items()],
    }


def document(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def test_an_inner_call_finds_its_parent_on_either_side() -> None:
    """Spans are written when they end; the parent is found whether it comes later or came before."""
    for order in ((1, 2), (2, 1)):
        spans = {1: span(1), 2: span(2, parent=1)}
        calls, _ = read_values(*(document(spans[number]) for number in order))
        outer, inner = calls
        assert (outer.tool_id, outer.parent_event_id) == ("tool_1", None)
        assert (inner.tool_id, inner.parent_event_id) == ("tool_2", outer.event_id)


def test_a_parent_that_is_no_call_is_none() -> None:
    """An agent's span around a call does not make it an inner call."""
    agent = span(1, operation="invoke_agent")
    calls, _ = read_values(document(agent, span(2, parent=1)))
    assert [(call.tool_id, call.parent_event_id) for call in calls] == [("tool_2", None)]


def test_the_window_is_bounded_and_loses_no_call() -> None:
    """Spans leave in the order of their times while more are read, and each leaves once."""
    parser = OtlpParser("t", window=4)
    seen: list[int] = []
    held: list[Observation] = []
    for number in range(1, 30):
        line = json.dumps(document(span(number, parent=number - 1))).encode()
        held.extend(heard for heard in parser.feed(line, number) if isinstance(heard, Observation))
        seen.append(len(held))
    held.extend(heard for heard in parser.finish() if isinstance(heard, Observation))
    assert [call.tool_id for call in held] == [f"tool_{number}" for number in range(1, 30)]
    assert [call.parent_event_id for call in held] == [None, *(call.event_id for call in held[:-1])]
    assert max(number + 1 - read for number, read in enumerate(seen)) <= 8


def test_one_span_is_one_event_wherever_it_is_read() -> None:
    """The event's id follows from trace and span, so that parents can be named across files."""
    first, second = (read_values(document(span(7)))[0][0] for _ in range(2))
    other = read_values(document(span(8)))[0][0]
    assert first.event_id == second.event_id != other.event_id
    assert first.event_id.version == 4


@pytest.mark.parametrize(
    ("change", "known", "latency"),
    [
        ({"endTimeUnixNano": "0"}, False, 0),
        ({"endTimeUnixNano": None}, False, 0),
        ({"endTimeUnixNano": str(START - 1)}, False, 0),
        ({"endTimeUnixNano": START + 2_500_000}, True, 2),
    ],
)
def test_a_latency_is_known_only_where_both_times_are(change: dict[str, Any], known: bool, latency: int) -> None:
    """A span that has not ended, or ended before it began, keeps its time and has no latency that counts."""
    calls, errors = read_values(document({**span(1), **change}))
    assert (calls[0].time_known, calls[0].latency_ms, calls[0].timestamp) == (known, latency, START // 1000 + 1000)
    assert errors == []


@pytest.mark.parametrize(
    "change",
    [
        {"traceId": "xyz"},
        {"traceId": None},
        {"spanId": "1"},
        {"startTimeUnixNano": None},
        {"startTimeUnixNano": "soon"},
        {"startTimeUnixNano": str(2**80)},
        {"attributes": [{"key": "gen_ai.operation.name", "value": "execute_tool"}]},
        {"attributes": 7},
    ],
)
def test_a_broken_span_costs_itself_alone(change: dict[str, Any]) -> None:
    """The other spans of the line are read, and the line is named."""
    calls, errors = read_values(document(span(1), {**span(2), **change}, "nonsense", span(3)))
    assert [call.tool_id for call in calls] == ["tool_1", "tool_3"]
    assert [error.line for error in errors] == [1, 1]


VALUES = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"stringValue": st.text()}),
        st.fixed_dictionaries({"intValue": st.text() | st.integers() | st.none()}),
        st.fixed_dictionaries({"doubleValue": st.floats() | st.text()}),
        st.just({}),
        st.none(),
        st.integers(),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"arrayValue": st.fixed_dictionaries({"values": st.lists(inner) | st.integers()})}),
        st.fixed_dictionaries(
            {
                "kvlistValue": st.fixed_dictionaries(
                    {"values": st.lists(st.fixed_dictionaries({"key": st.text(), "value": inner}))}
                )
            }
        ),
    ),
    max_leaves=10,
)
NAMES = st.sampled_from(
    [
        "gen_ai.tool.name",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.conversation.id",
        "error.type",
        "twinraven.event.id",
        "twinraven.outcome",
        "twinraven.turn",
        "twinraven.tags",
        "twinraven.result.encoding",
    ]
)


@given(st.lists(st.tuples(NAMES, VALUES)), st.sampled_from([None, {}, {"code": 2, "message": "no"}, 3]))
def test_no_attribute_breaks_the_reader(attributes: list[tuple[str, Any]], status: Any) -> None:
    """Whatever attributes hold, a span is understood or complained of, never both and never neither."""
    made = span(1)
    made["attributes"] += [{"key": key, "value": value} for key, value in attributes]
    calls, errors = read_values(document({**made, "status": status}), format="otlp")
    assert len(calls) + len(errors) == 1
