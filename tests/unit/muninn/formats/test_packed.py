"""The same documents one a line, in one array, in an envelope, or with Windows' line ends say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.traces import GOLDEN, read, read_values
from tests.unit.muninn.formats.test_golden import SAMPLES
from twinraven.muninn import Observation


def _documents(name: str) -> list[Any]:
    """The JSON documents of a sample, in order; lines that are none are left out."""
    raw = (GOLDEN / name).read_bytes()
    found: list[Any] = []
    decoder, rest = json.JSONDecoder(), raw.decode().lstrip()
    while rest:
        try:
            value, end = decoder.raw_decode(rest)
        except ValueError:
            end = len(rest.splitlines()[0])
        else:
            found.append(value)
        rest = rest[end:].lstrip()
    return found


def _said(calls: list[Observation]) -> list[tuple[object, ...]]:
    return sorted((call.tool_id, call.params, call.output or b"", call.turn or 0) for call in calls)


@pytest.mark.parametrize("name", SAMPLES)
def test_an_array_an_envelope_and_crlf_say_what_lines_say(name: str) -> None:
    """However a stranger keeps the documents of a sample, the same calls are found in them."""
    documents = _documents(name)
    expected = _said(read_values(*documents)[0])
    assert expected
    assert _said(read_values(documents)[0]) == expected
    assert _said(read_values({"object": "list", "data": documents, "meta": {"page": 1}})[0]) == expected
    windows = b"\xef\xbb\xbf" + b"".join(json.dumps(each).encode() + b"\r\n" for each in documents)
    assert _said(read(windows.splitlines(keepends=True))[0]) == expected


def test_an_array_of_conversations_has_a_session_each() -> None:
    """Arrays of messages inside an array are conversations of their own."""
    talks = [json.loads((GOLDEN / "openai-array.json").read_bytes()), _talk("c9")]
    calls, errors = read_values(talks)
    assert not errors
    assert len({call.session_id for call in calls}) == 2


def test_lists_of_openhands_events_are_runs_of_their_own() -> None:
    """A file with one run a line, as an evaluation writes it, has as many sessions, under their instances' names."""
    events: list[Any] = json.loads((GOLDEN / "openhands.json").read_bytes())
    calls, errors = read_values(*({"instance_id": name, "history": events} for name in ("one", "two")))
    assert not errors
    assert [call.session_id for call in calls].count("one") == len(calls) / 2
    assert {call.session_id for call in calls} == {"one", "two"}


def _talk(call_id: str) -> list[dict[str, Any]]:
    asked = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "user", "content": "look once more"},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": call_id, "content": "seen"},
        {"role": "assistant", "content": "done"},
    ]
