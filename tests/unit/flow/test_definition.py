"""Definitions as data: what is read is what is written, and what cannot be read says where."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.flow.fakes import define, definition_json, seed_json, step
from twinraven.flow import ErrorStrategy, RetryPolicy, StepDefinition
from twinraven.foundation.errors import InvalidDefinition
from twinraven.registry import SynthesizedTool, ToolStatus

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.req("RG-02")
def test_the_formats_own_example_reads_and_writes_back_unchanged() -> None:
    """The registry format's example survives reading and writing to the letter, the order of its fields included."""
    body = seed_json()
    tool = SynthesizedTool.from_json(body)
    assert tool.as_json() == body
    assert list(tool.as_json()) == list(body)
    assert tool.status is ToolStatus.PROMOTED
    assert tool.source_chain_id == "a1b2c3d4-..."
    assert tool.created_at == datetime(2026, 1, 15, 10, 30, tzinfo=UTC)
    assert tool.error_strategy.retry_policy == {1: RetryPolicy(2, "exponential", 1000)}
    assert [part.tool_id for part in tool.steps] == ["search", "read", "summarize"]


def test_every_field_survives_the_round_trip() -> None:
    """A definition that uses everything, additions included, is equal to itself after writing and reading."""
    tool = define(
        step("a", {"x": "$.parameters.x", "y": {"deep": [1, "$.parameters.z"]}}, timeout_ms=5),
        step("b", {"v": "$.item"}, for_each="$.steps[0].output", max_items=7, condition="$.parameters.x == 1"),
        internal_wiring={"0": {"w": "$.steps[0].output.w"}},
        error_strategy={
            "retry_policy": {"1": {"max_retries": 3, "backoff_strategy": "fixed", "backoff_ms": 9}},
            "fallback_steps": {"0": [{"step_index": 0, "tool_id": "c", "input_mapping": {}}]},
            "abort_conditions": ["$.steps[0].output == null"],
            "default_behavior": "skip",
        },
        output={"answer": "$.steps[1].output"},
        timeout_ms=1234,
        evidence={"samples": [1, 2, 3]},
        replaces="older",
        version=4,
        status="testing",
        promoted_at="2026-02-01T00:00:00.250000Z",
    )
    assert SynthesizedTool.from_json(tool.as_json()) == tool


def test_a_definition_is_detached_from_the_json_it_came_from() -> None:
    """Changing the JSON afterwards, on either side, does not change the definition."""
    body = seed_json()
    tool = SynthesizedTool.from_json(body)
    body["parameters"]["properties"].clear()
    tool.as_json()["steps"].clear()
    assert tool.as_json() == seed_json()


def test_status_and_dates_may_live_elsewhere() -> None:
    """A version file without status and dates reads as a draft."""
    body = seed_json()
    for name in ("status", "promoted_at", "retired_at", "version", "internal_wiring", "error_strategy"):
        del body[name]
    tool = SynthesizedTool.from_json(body)
    assert tool.status is ToolStatus.DRAFT
    assert tool.version == 1
    assert tool.error_strategy == ErrorStrategy()


_GONE = object()


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (["tool_id"], _GONE, "tool_id"),
        (["tool_id"], 7, "tool_id"),
        (["surprise"], 1, "surprise"),
        (["status"], "new", "status"),
        (["created_at"], "yesterday", "created_at"),
        (["created_at"], "0001-01-01T00:00:00+23:59", "created_at"),
        (["version"], True, "version"),
        (["steps"], {}, "steps"),
        (["steps"], [None], "steps[0]"),
        (["internal_wiring"], {"0": "url"}, "internal_wiring.0"),
        (["steps", 1, "timeout_ms"], "5000", "steps[1].timeout_ms"),
        (["steps", 1, "condition"], False, "steps[1].condition"),
        (["steps", 1, "parallelizable_with"], ["0"], "steps[1].parallelizable_with"),
        (["steps", 1, "input_mapping"], [], "steps[1].input_mapping"),
        (["steps", 1, "when"], "never", "steps[1].when"),
        (["error_strategy", "default_behavior"], "panic", "error_strategy.default_behavior"),
        (["error_strategy", "abort_conditions"], "x", "error_strategy.abort_conditions"),
        (["error_strategy", "retry_policy"], {"01": {}}, "error_strategy.retry_policy"),
        (["error_strategy", "retry_policy"], {"1": {}}, "error_strategy.retry_policy.1.max_retries"),
        (["error_strategy", "fallback_steps"], {"1": {}}, "error_strategy.fallback_steps.1"),
        (["output"], [], "output"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_place(path: list[Any], value: Any, place: str) -> None:
    """A field of the wrong kind, a missing one and an unknown one are refused with the place they stand at."""
    body: Any = seed_json()
    target = body
    for part in path[:-1]:
        target = target[part]
    target.pop(path[-1], None)
    if value is not _GONE:
        target[path[-1]] = value
    with pytest.raises(InvalidDefinition) as caught:
        SynthesizedTool.from_json(body)
    assert caught.value.details["field"] == place


def _nested(depth: int) -> Any:
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        "text",
        {1: "a key that is no text"},
        {"evidence": _nested(100_000)},
        {"evidence": list(range(200_000))},
        {"evidence": "x" * 5_000_000},
        {"evidence": {"not json": object()}},
        {"evidence": {"infinite": float("inf")}},
        {"evidence": {"huge": 10**6000}},
    ],
)
def test_hostile_json_is_refused_with_a_named_error(hostile: Any) -> None:
    """Depth, size and foreign objects end in InvalidDefinition, never in a traceback or a hang."""
    body: Any = hostile
    if isinstance(hostile, dict):
        body = {**definition_json(step()), **cast("dict[str, Any]", hostile)}
    with pytest.raises(InvalidDefinition):
        SynthesizedTool.from_json(body)


@given(st.data())
def test_any_value_in_any_field_is_read_or_refused(data: st.DataObject) -> None:
    """Whatever JSON stands in whatever field, the answer is a definition or InvalidDefinition."""
    body = copy.deepcopy(seed_json())
    target: dict[str, Any] = data.draw(
        st.sampled_from([body, body["steps"][1], body["error_strategy"], body["error_strategy"]["retry_policy"]["1"]])
    )
    target[data.draw(st.sampled_from(sorted(target)) | st.text(max_size=5))] = data.draw(_JSON)
    try:
        tool = SynthesizedTool.from_json(body)
    except InvalidDefinition:
        return
    assert SynthesizedTool.from_json(tool.as_json()) == tool


@given(st.integers(1, 60), st.integers(0, 600_000))
def test_backoff_grows_as_it_says_and_stays_bounded(retry: int, backoff_ms: int) -> None:
    """Fixed waits stay the same, exponential ones double, and none is longer than ten minutes."""
    assert RetryPolicy(9, "fixed", backoff_ms).delay_ms(retry) == backoff_ms
    assert RetryPolicy(9, "exponential", backoff_ms).delay_ms(retry) == min(backoff_ms * 2 ** (retry - 1), 600_000)


def test_steps_can_be_written_in_python() -> None:
    """A step built by hand has the same JSON as one that was read."""
    built = StepDefinition(0, "search", {"query": "$.parameters.query"}, timeout_ms=5000)
    assert built.as_json() == seed_json()["steps"][0]
