"""From an observation to a row: nothing that must not be stored gets into any column."""

from __future__ import annotations

from typing import Any

import orjson

from twinraven.foundation.ids import new_uuid
from twinraven.muninn.columns import COLUMNS
from twinraven.muninn.model import Observation
from twinraven.muninn.row import EncodingRules, RowEncoder

SECRET = "correct-horse-battery-staple"


class CountingRedaction:
    """Replaces the secret and counts how often it was asked to look."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self, tenant_id: str, text: bytes) -> bytes:
        del tenant_id
        self.looks += 1
        return text.replace(SECRET.encode(), b"[secret:1]") if SECRET.encode() in text else text


def seen(word: str) -> Observation:
    return Observation(
        tenant_id="default",
        event_id=new_uuid(),
        session_id=f"session {word}",
        tool_id="get_order",
        params=orjson.dumps({"a": word}),
        output=orjson.dumps([word]),
        timestamp=1,
        latency_ms=1,
        outcome="partial",
        tags=(f"tag {word}",),
        parent_event_id=None,
        raised=True,
        error_code=f"E {word}",
        turn=1,
        task_id=f"task {word}",
        outside_input=f"said {word}",
        source_key=f"calls:{word}:1",
        time_known=True,
        correlation_id=f"correlation {word}",
    )


def test_no_column_keeps_a_secret() -> None:
    """Ids and codes that callers choose are cleaned like arguments and outputs, and what is around them stays."""
    row, blob = RowEncoder(EncodingRules(), CountingRedaction()).encode(seen(SECRET))
    assert not any(SECRET in str(value) for value in (*row, *(blob or ())))
    stored: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    for name, text in {
        "session_id": "session [secret:1]",
        "task_id": "task [secret:1]",
        "error_code": "E [secret:1]",
        "source_key": "calls:[secret:1]:1",
        "correlation_id": "correlation [secret:1]",
    }.items():
        assert stored[name] == text


def test_names_without_secrets_cost_one_look() -> None:
    """However many names an event has, nothing in them is looked for more than once."""
    redaction = CountingRedaction()
    row, _ = RowEncoder(EncodingRules(), redaction).encode(seen("plain")._replace(tags=(), outside_input=None))
    assert "session plain" in row
    assert redaction.looks == 3
