"""Telling formats, and files of one document from files of lines, apart."""

from __future__ import annotations

import io
import json
from typing import IO, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import read, read_values
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats import FORMATS, TraceReader, lines
from twinraven.muninn.formats.lines import numbered, whole_documents


def documents(text: bytes) -> list[tuple[int, bytes]]:
    """What is fed to a parser, read from a file and from lines alike."""
    from_file = list(whole_documents(numbered(io.BytesIO(text))))
    assert from_file == list(whole_documents(numbered(text.splitlines(keepends=True))))
    return from_file


def test_a_document_over_many_lines_is_one() -> None:
    """A file that is one JSON value, however it is laid out, is fed as one line."""
    text = json.dumps({"messages": [{"role": "user"}]}, indent=2).encode()
    assert documents(text) == [(1, text)]
    assert documents(b"\n[\n1]\n") == [(2, b"[\n1]\n")]


def test_documents_printed_one_after_another_are_each_fed() -> None:
    """What is printed over many lines, again and again, is a document each, under the line it begins with."""
    printed = [json.dumps({"a": {"b": number}}, indent=4).encode() + b"\n" for number in range(3)]
    assert documents(b"".join(printed)) == [(1, printed[0]), (6, printed[1]), (11, printed[2])]


def test_lines_stay_lines_also_where_the_first_is_broken() -> None:
    """A broken first line does not swallow the rest of the file."""
    broken = [b'{"a": \n', b'{"b": 1}\n', b'{"c": 2}\n']
    assert documents(b"".join(broken)) == list(enumerate(broken, start=1))


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()) | st.none(), min_size=1))
def test_lines_pass_through_with_their_numbers(values: list[dict[str, int | str] | None]) -> None:
    """JSON Lines are never joined, and blank lines count without being fed."""
    text = [b" \n" if value is None else json.dumps(value).encode() + b"\n" for value in values]
    assert documents(b"".join(text)) == [(n, line) for n, line in enumerate(text, start=1) if not line.isspace()]


@given(text=st.binary(max_size=60), block=st.integers(1, 9))
def test_lines_do_not_depend_on_how_a_file_is_read(text: bytes, block: int) -> None:
    """Every filled line comes once, with its number, wherever the blocks of a file end."""
    text = b"x" + text.replace(b"\r", b"\n")
    blocks = [text[place : place + block] for place in range(0, len(text), block)]

    class Slow:
        def read(self, _: int) -> bytes:
            return blocks.pop(0) if blocks else b""

    expected = [(n, line) for n, line in enumerate(text.split(b"\n"), start=1) if line.strip()]
    found = list(numbered(cast("IO[bytes]", Slow())))
    assert [(number, line.rstrip(b"\n")) for number, line in found] == expected


def test_a_line_without_end_is_refused_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without line breaks is refused before it fills the memory, with the line's number."""
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 20)
    read = 0

    class Endless:
        def read(self, size: int) -> bytes:
            nonlocal read
            read += size
            return b"\n" if read == size else b"x" * size

    with pytest.raises(InvalidInput, match="line 2 is longer than"):
        list(numbered(cast("IO[bytes]", Endless())))
    assert read <= 4 << 20


@pytest.mark.parametrize("beginning", [b"\xff\xfe{\x00", b"\x28\xb5\x2f\xfd\x00", b"\xfd7zXZ\x00", b"PK\x03\x04"])
def test_other_encodings_are_refused_with_what_to_do(beginning: bytes) -> None:
    """UTF-16 and other compressions are named, with the command that helps."""
    with pytest.raises(InvalidInput) as refusal:
        read([beginning])
    assert refusal.value.details["fix"]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    """What some editors write at the beginning of a file does not matter."""
    line = b'{"session_id": "s", "seq": 0, "tool": "t", "params": {}, "output": 1}\n'
    assert len(read([b"\xef\xbb\xbf" + line])[0]) == 1


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    """The refusal names every format."""
    with pytest.raises(InvalidInput) as refusal:
        TraceReader([], "t", format="csv")
    assert all(name in refusal.value.message for name in FORMATS)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ([b"nonsense\n", b'{"a": 1}\n'], "begins with 'n'"),
        ([b'{"a": 1, "b": 2}\n'], "has: a, b"),
        ([b'[{"x": 1}]'], "has: x"),
        ([b"17"], "holds integer where an object is expected"),
        ([b"\n", b"  \n"], "the file is empty"),
    ],
)
def test_a_file_that_shows_no_format_says_what_was_seen(text: list[bytes], seen: str) -> None:
    """What looks like nothing we know is refused as a whole, with what it looks like, and the formats there are."""
    with pytest.raises(InvalidInput) as refusal:
        read(text)
    assert seen in refusal.value.message
    assert "empty" in seen or all(name in refusal.value.details["fix"] for name in FORMATS)


_TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Who is a?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "find", "arguments": {"email": "a"}}]},
    {"id": "c1", "role": "tool", "content": '{"id": 1}', "error": False},
    {"role": "assistant", "content": "Number 1."},
]


def test_requests_of_a_batch_and_their_answers_are_conversations() -> None:
    """OpenAI's batches wrap the body of a request and that of its answer once more."""
    (call,), errors = read_values(
        {
            "id": "batch_req_1",
            "custom_id": "task-1",
            "request": {"method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": _TALK[:3]}},
            "response": {"status_code": 200, "body": {"choices": [{"index": 0, "message": _TALK[3]}]}},
            "error": None,
        }
    )
    assert (call.tool_id, call.params, call.output, errors) == ("find", b'{"email":"a"}', b'{"id":1}', [])


def test_simulations_behind_their_tasks_are_conversations() -> None:
    """A file of tau2-bench holds its tasks first; each simulation is a session, and its reward the outcome."""
    simulations = [
        {"id": f"sim{n}", "task_id": "7", "reward_info": {"reward": 1.0 - n}, "messages": _TALK} for n in (0, 1)
    ]
    calls, errors = read_values(
        {"info": {}, "tasks": [{"id": "7", "user_scenario": [1]}] * 50, "simulations": simulations}
    )
    assert [(call.session_id, call.task_id, call.outcome) for call in calls] == [
        ("sim0", "7", "success"),
        ("sim1", "7", "failure"),
    ]
    assert errors == []
