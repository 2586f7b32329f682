"""Claude Code's transcripts: turns, subagents, results out of order, and what is no person's word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import read_values


def said(content: Any, second: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "sessionId": "s",
        "timestamp": f"2026-03-01T10:00:{second:02d}.000Z",
        "message": {"role": "user", "content": content},
        **more,
    }


def asked(call_id: str, second: int = 0, *, message: str = "m", tool: str = "Bash", **more: Any) -> dict[str, Any]:
    content = [{"type": "tool_use", "id": call_id, "name": tool, "input": {"command": call_id}}]
    line = said(content, second, **more)
    return {**line, "type": "assistant", "message": {"id": message, "role": "assistant", "content": content}}


def result(call_id: str, second: int = 1, content: Any = "ok", **more: Any) -> dict[str, Any]:
    return said([{"type": "tool_result", "tool_use_id": call_id, "content": content}], second, **more)


def test_lines_of_one_message_are_one_turn() -> None:
    """Blocks of an answer come on lines of their own; calls of one answer share its turn."""
    first = (asked("a", message="m1"), asked("b", message="m1"), result("b"), result("a"))
    calls, _ = read_values(*first, asked("c", message="m2"), result("c"))
    assert [(json.loads(call.params)["command"], call.turn) for call in calls] == [("a", 1), ("b", 1), ("c", 2)]


def test_a_subagents_calls_are_a_session_of_their_own() -> None:
    """Calls of two agents at work at once are kept apart, also where an old transcript gives subagents no id."""
    with_id: dict[str, Any] = {"isSidechain": True, "agentId": "helper"}
    chain: dict[str, Any] = {"isSidechain": True}
    calls, errors = read_values(
        asked("main"),
        said("Look there.", **with_id),
        asked("x", **with_id),
        said("Look here.", uuid="r1", parentUuid=None, **chain),
        asked("y", uuid="r2", parentUuid="r1", **chain),
        result("y", uuid="r3", parentUuid="r2", **chain),
        result("x", **with_id),
        result("main"),
    )
    assert errors == []
    assert [(json.loads(call.params)["command"], call.session_id, call.outside_input) for call in calls] == [
        ("y", "s/r1", "Look here."),
        ("x", "s/helper", "Look there."),
        ("main", "s", None),
    ]


@pytest.mark.parametrize("mark", [{"isMeta": True}, {"isCompactSummary": True}])
def test_what_the_program_said_for_a_person_is_no_outside_input(mark: dict[str, Any]) -> None:
    """Notices of the program and summaries after compaction are not what a person said."""
    calls, _ = read_values(said("Caveat", **mark), asked("a"), result("a"))
    assert calls[0].outside_input is None


def test_a_call_was_given_up_if_the_model_went_on() -> None:
    """Without a result, an earlier call is kept without output and latency, and the last one is left for later."""
    calls, _ = read_values(asked("a", message="m1"), said("stop"), asked("b", message="m2"))
    assert [(call.tool_id, call.output, call.time_known) for call in calls] == [("Bash", None, False)]


def test_a_grown_transcript_adds_what_is_new() -> None:
    """What was read before keeps its identity, also under the new session id of a resumed session."""
    lines = [asked("a", message="m1"), result("a"), asked("b", 2, message="m2"), result("b", 3)]
    before, after = read_values(*lines[:3])[0], read_values(*lines)[0]
    assert [call.source_key for call in after][:1] == [call.source_key for call in before]
    resumed = read_values(*({**line, "sessionId": "other"} for line in lines))[0]
    assert [call.source_key for call in resumed] == [call.source_key for call in after]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({**asked("a"), "sessionId": None}, "sessionId"),
        ({**asked("a"), "timestamp": None}, "timestamp"),
        ({**asked("a"), "timestamp": "yesterday"}, "timestamp"),
        ({**asked("a"), "message": {"content": [{"type": "tool_use"}]}}, "id and a name"),
        ({**asked("a"), "message": {"content": 7}}, "not a list"),
        (result("nobody"), "answers no call"),
        ([1], "not a JSON object"),
    ],
)
def test_a_broken_line_is_reported_with_its_reason(line: Any, reason: str) -> None:
    """Each way in which a line can be broken has its words."""
    calls, errors = read_values(line, format="claude-code")
    assert calls == []
    assert [error.line for error in errors] == [1]
    assert reason in errors[0].reason


BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image", "server_tool_use"])},
    optional={
        "id": st.sampled_from("abc"),
        "tool_use_id": st.sampled_from("abc"),
        "name": st.text(max_size=3) | st.integers(),
        "input": st.none() | st.text(max_size=3) | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        "text": st.text(max_size=3),
        "content": st.none() | st.text(max_size=3) | st.lists(st.integers() | st.just({"type": "text", "text": "x"})),
    },
)
QUEUED: dict[str, Any] = {"type": "queued_command", "prompt": "x", "origin": {}}
LINES = st.fixed_dictionaries(
    {"type": st.sampled_from(["assistant", "user", "attachment", "summary", "progress"]), "sessionId": st.just("s")},
    optional={
        "timestamp": st.sampled_from(["2026-03-01T10:00:00Z", "2026-03-01T10:00:01.5+02:00", "", 7]),
        "message": st.none()
        | st.fixed_dictionaries({"content": st.text(max_size=3) | st.lists(BLOCKS | st.integers(), max_size=3)}),
        "isSidechain": st.booleans(),
        "attachment": st.none() | st.integers() | st.just(QUEUED),
    },
)


@given(st.lists(LINES))
def test_no_transcript_breaks_the_reader(lines: list[dict[str, Any]]) -> None:
    """Whatever lines hold, each is understood, passed over or complained of."""
    read_values(*lines, format="claude-code")
