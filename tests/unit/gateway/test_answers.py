"""What came of a call, as each revision of the protocol can say it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from twinraven.calls import CallAudit, SkillInvocationResponse
from twinraven.foundation.errors import ApprovalPending, ToolUnavailable
from twinraven.gateway import answers

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


@pytest.mark.parametrize(
    ("form", "output", "text", "structured"),
    [
        ("plain", {"a": 1}, '{"a":1}', None),
        ("plain", "x", "x", None),
        ("structured", {"a": 1}, '{"a":1}', {"a": 1}),
        ("structured", {"result": "x"}, '{"result":"x"}', {"result": "x"}),
        ("wrapped", {"result": "x"}, "x", {"result": "x"}),
        ("wrapped", {"result": 7}, "7", {"result": 7}),
        ("wrapped", {"a": 1}, '{"a":1}', {"a": 1}),
    ],
)
def test_an_answer_made_of_its_output_has_the_form_of_its_tool(
    form: answers.Form, output: Any, text: str, structured: Any
) -> None:
    """An object is structured content where the tool has such; an answer that was kept whole is left whole."""
    made = answers.success(responded(output), form=form)
    assert made["content"] == [{"type": "text", "text": text}]
    assert made.get("structuredContent") == structured
    whole = {"content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}], "structuredContent": {"a": 1}}
    assert answers.success(responded(whole), form=form) == whole
    assert answers.success(replace(responded(output), raw=whole), form=form) == whole


def responded(output: Any) -> SkillInvocationResponse:
    return SkillInvocationResponse("r1", "success", output, None, CallAudit(0, 1))


def test_a_pending_call_says_how_to_ask_again() -> None:
    """The model reads that nothing ran and what to do; programs read the approval, its end and the key."""
    error = ApprovalPending(
        "pay needs a person", approval_id="a1", expires_at="2026-01-02T00:00:00Z", idempotency_key="k1"
    )
    answer = answers.pending(error.as_json(), tool="pay", event_id="e1")
    assert "Nothing was changed. Call pay again with the same arguments" in answer["content"][0]["text"]
    assert answer["isError"] is True
    assert answer["_meta"] == {
        answers.PENDING: {
            "status": "pending",
            "tool": "pay",
            "reason": "pay needs a person",
            "approval_id": "a1",
            "expires_at": "2026-01-02T00:00:00Z",
        },
        answers.KEY: "k1",
        answers.EVENT: "e1",
    }
