"""From JSON to the client's values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from twinraven.foundation.errors import NotFound, StorageBusy, TwinRavenError
from twinraven.sdk import LearnedTool, RemoteError, SecretInfo
from twinraven.sdk.errors import error_of
from twinraven.sdk.model import ObservedCall
from twinraven.sdk.reading import read
from twinraven.tenancy import NotAuthenticated

LEARNED: dict[str, Any] = {
    "tool_id": "t",
    "status": "promoted",
    "current_version": 1,
    "revision": 4,
    "registered_at": "2026-01-15T10:30:00Z",
    "last_used_at": None,
    "something_new": {"that": "nobody knows yet"},
    "versions": [
        {
            "version": 1,
            "status": "promoted",
            "sha256": "ab",
            "validation": {"passed": True},
            "created_at": "2026-01-15T10:30:00Z",
        }
    ],
}


def test_fields_are_read_by_their_types() -> None:
    """Times, parts and lists become values; what this version does not know is left alone."""
    found = read(LearnedTool, LEARNED)
    assert found.registered_at == datetime(2026, 1, 15, 10, 30, tzinfo=UTC)
    assert (found.last_used_at, found.versions[0].validation, found.is_in_service) == (None, {"passed": True}, True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "no LearnedTool but list"),
        ({**LEARNED, "registered_at": "yesterday"}, "registered_at cannot be read"),
        ({**LEARNED, "versions": 7}, "versions cannot be read"),
        ({name: value for name, value in LEARNED.items() if name != "revision"}, "without revision"),
    ],
)
def test_what_does_not_fit_is_named(body: object, words: str) -> None:
    """A server that sends something else is told apart by the field that is wrong."""
    with pytest.raises(RemoteError, match=words):
        read(LearnedTool, body)


def test_a_field_may_have_another_name_on_the_wire() -> None:
    """What the wire calls `id` has a name of its own here."""
    moments = {"created_at": "2026-01-15T10:30:00Z", "updated_at": "2026-01-15T10:30:00Z"}
    body = {"id": "s1", "name": "shop", "type": "api_key", "owner": "ada", "version": 1, **moments}
    assert read(SecretInfo, body).secret_id == "s1"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("NOT_FOUND", NotFound),
        ("STORAGE_BUSY", StorageBusy),
        ("NOT_AUTHENTICATED", NotAuthenticated),
        ("INVENTED_LATER", RemoteError),
        ("INTERNAL", TwinRavenError),
    ],
)
def test_a_code_names_a_class(code: str, kind: type[TwinRavenError]) -> None:
    """An error keeps its code, its words, its details and whether it may be sent again."""
    error = error_of({"code": code, "detail": "so it is", "retryable": True, "details": {"message": "odd", "n": 1}})
    assert type(error) is kind
    assert error.as_json() == {
        "code": code,
        "message": "so it is",
        "retryable": True,
        "details": {"message": "odd", "n": 1},
    }


def test_an_observed_call_says_only_what_is_known() -> None:
    """What was left out is left out on the wire, too."""
    assert ObservedCall("s", "t", {"a": 1}).as_json() == {
        "session_id": "s",
        "tool_id": "t",
        "input_params": {"a": 1},
        "latency_ms": 0,
    }
    whole = ObservedCall(
        "s",
        "t",
        {},
        error="no",
        event_id=UUID(int=1),
        timestamp=datetime(2026, 1, 15, tzinfo=UTC),
        tags=("a",),
        turn=0,
    ).as_json()
    assert (whole["error"], whole["event_id"], whole["tags"], whole["turn"]) == ("no", str(UUID(int=1)), ["a"], 0)
    assert whole["timestamp"].startswith("2026-01-15T00:00:00")
