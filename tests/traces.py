"""Reading traces in tests: what a parser understood of some lines, in a form that can be compared and kept in files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twinraven.muninn import LineError, Observation
from twinraven.muninn.formats import TraceReader

GOLDEN = Path(__file__).parent / "golden"


def read(lines: Iterable[bytes], format: str = "auto") -> tuple[list[Observation], list[LineError]]:
    """All calls and all complaints, in order."""
    calls: list[Observation] = []
    errors: list[LineError] = []
    for heard in TraceReader(lines, "t", format=format):
        (errors if isinstance(heard, LineError) else calls).append(heard)  # pyright: ignore[reportArgumentType]
    return calls, errors


def read_values(*values: Any, format: str = "auto") -> tuple[list[Observation], list[LineError]]:
    """The same for values, each of which becomes a line."""
    return read([json.dumps(value).encode() + b"\n" for value in values], format)


def as_facts(calls: list[Observation], errors: list[LineError]) -> dict[str, Any]:
    """What a trace said, as plain JSON; ids are replaced by places."""
    places = {call.event_id: place for place, call in enumerate(calls)}
    return {
        "calls": [
            {
                "session": call.session_id,
                "tool": call.tool_id,
                "params": json.loads(call.params),
                "output": None if call.output is None else json.loads(call.output),
                "turn": call.turn,
                "outside_input": call.outside_input,
                "timestamp": call.timestamp,
                "latency_ms": call.latency_ms if call.time_known else None,
                "raised": call.raised,
                "error_code": call.error_code,
                "outcome": call.outcome,
                "inside": None if call.parent_event_id is None else places[call.parent_event_id],
            }
            for call in calls
        ],
        "errors": [error.line for error in errors],
    }
