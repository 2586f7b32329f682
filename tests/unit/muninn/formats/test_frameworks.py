"""What agent frameworks and coding agents keep of a run, in forms of their own, is understood whole.

`tests/golden/frameworks.json` holds one run in each of these forms: a customer is looked up, then her order. Those of
AutoGen 0.7, LlamaIndex 0.14, smolagents 1.26 and Haystack 3.4 were compared with what the libraries write, the others
follow their documentation.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.traces import GOLDEN, as_facts, read, read_values
from twinraven.foundation.errors import InvalidInput

RUNS: dict[str, list[Any]] = json.loads((GOLDEN / "frameworks.json").read_text())
WITHOUT_WORDS = (
    "AI SDK steps, v4",
    "AI SDK steps, v5",
    "Assistants run steps",
    "CrewAI events",
    "DSPy trajectory",
    "Tempo",
    "Tempo v2",
)
"""Forms that do not keep what the user said."""
WITHOUT_TURNS = ("Tempo", "Tempo v2")


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_read_whole(name: str) -> None:
    """Both calls with their arguments and answers, each of a turn of its own, in one session."""
    facts = as_facts(*read_values(*RUNS[name]))
    first, second, *others = facts["calls"]
    assert [call["tool"] for call in others] in ([], ["final_answer"])
    assert (first["tool"], first["params"]) == ("find_customer", {"email": "ada@mail.test"})
    assert (second["tool"], second["params"]) == ("get_order", {"order_id": "o1"})
    answers = ({"id": "c7", "name": "Ada", "orders": ["o1", "o2"]}, {"id": "o1", "total": 12})
    for call, answer in zip((first, second), answers, strict=True):
        # The Gemini CLI puts the text of a result into an object.
        output = call["output"]
        assert (json.loads(output["output"]) if name == "Gemini CLI" else output) == answer
        assert not call["raised"]
    assert first["session"] == second["session"]
    assert [first["turn"], second["turn"]] == ([None, None] if name in WITHOUT_TURNS else [1, 2])
    assert first["outside_input"] == (None if name in WITHOUT_WORDS else "find ada@mail.test")
    assert facts["errors"] == ([1] if name == "Goose" else []), "Goose's first line describes the session"


def test_failures_are_told_apart() -> None:
    """Frameworks that say that a call failed are believed."""
    failed: list[list[dict[str, Any]]] = [
        [{"type": "tool_usage_error", "tool_name": "f", "tool_args": {}, "error": "no"}],
        [
            {"message_type": "tool_call_message", "tool_call": {"name": "f", "arguments": "{}", "tool_call_id": "a"}},
            {"message_type": "tool_return_message", "tool_return": "no", "status": "error", "tool_call_id": "a"},
        ],
        [
            {
                "type": "tool_call",
                "subtype": "started",
                "call_id": "a",
                "tool_call": {"fToolCall": {}},
                "session_id": "s",
            },
            {
                "type": "tool_call",
                "subtype": "completed",
                "call_id": "a",
                "tool_call": {"fToolCall": {"result": {"error": "no"}}},
                "session_id": "s",
            },
        ],
        [
            {
                "step_number": 1,
                "tool_calls": [{"id": "a", "function": {"name": "f"}}],
                "observations": None,
                "error": "no",
            }
        ],
    ]
    for lines in failed:
        stated = "claude-code" if "session_id" in lines[0] else "auto"
        (call,) = as_facts(*read_values(*lines, format=stated))["calls"]
        assert (call["tool"], call["output"], call["raised"]) == ("f", "no", True)


@pytest.mark.parametrize(
    ("beginning", "told"),
    [
        (b"PAR1\x15\x04", "Parquet"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"PK\x03\x04\x14", "archive"),
        (b"a/b.json".ljust(257, b"\0") + b"ustar  ", "archive"),
        (b"session_id,seq,tool\n", "begins with 's'"),
    ],
)
def test_what_is_no_json_is_said_with_a_way_on(beginning: bytes, told: str) -> None:
    """A fix that helps: stating a format would not make JSON of it."""
    with pytest.raises(InvalidInput, match=told) as refused:
        read([beginning])
    assert "--format" not in refused.value.details["fix"]
