"""What came of a call, as each revision of the protocol can say it."""

from __future__ import annotations

from typing import Any

import pytest

from twinraven.foundation.errors import ToolUnavailable
from twinraven.gateway import answers
from twinraven.gateway.answers import PendingCalls

OLDER, NEWER = "2025-06-18", "2026-07-28"


def test_a_failure_keeps_the_tools_own_words() -> None:
    """Where a tool said what went wrong, its words are the answer, and the stable code stands beside them."""
    own = {"content": [{"type": "text", "text": "no luck"}, {"type": "image", "data": "x", "mimeType": "image/png"}]}
    error = {
        "code": "TOOL_FAILED",
        "message": "no luck",
        "retryable": False,
        "details": {"result": own, "tool_id": "t"},
    }
    answer = answers.failure(error, event_id="e1")
    assert (answer["content"], answer["isError"]) == (own["content"], True)
    assert answer["_meta"][answers.ERROR] == {**error, "details": {"tool_id": "t"}}
    assert answer["_meta"][answers.EVENT] == "e1"


def test_a_failure_of_ours_says_its_code_and_the_fix() -> None:
    """Where there are no words of the tool, the model reads the code, the message and what to do."""
    answer = answers.refusal(ToolUnavailable("git is down", fix="start it"))
    assert answer["content"] == [{"type": "text", "text": "TOOL_UNAVAILABLE: git is down (fix: start it)"}]
    assert answer["isError"] is True


@pytest.mark.parametrize("structured", [[1, 2], "text", 7])
def test_older_clients_get_structured_objects_only(structured: Any) -> None:
    """What an older revision cannot say is left out there, and only there; the text beside it says the same."""
    result: dict[str, Any] = {"content": [], "structuredContent": structured}
    assert "structuredContent" not in answers.fitted(result, OLDER)
    assert answers.fitted(result, NEWER)["structuredContent"] == structured
    kept = answers.fitted({"content": [], "structuredContent": {"a": 1}}, OLDER)
    assert kept["structuredContent"] == {"a": 1}


def test_the_same_call_is_pending_under_one_key() -> None:
    """The key is found by what is asked for in which session, and forgotten when the call was run."""
    pending = PendingCalls()
    pending.hold("k1", "acme", "s1", "pay", {"amount": 5})
    assert pending.key_of("acme", "s1", "pay", {"amount": 5}) == "k1"
    others: list[tuple[str, str, str, dict[str, Any]]] = [
        ("other", "s1", "pay", {"amount": 5}),
        ("acme", "s2", "pay", {"amount": 5}),
        ("acme", "s1", "pay", {}),
    ]
    assert [pending.key_of(*other) for other in others] == [None, None, None]
    pending.release("acme", "s1", "pay", {"amount": 5})
    assert pending.key_of("acme", "s1", "pay", {"amount": 5}) is None
