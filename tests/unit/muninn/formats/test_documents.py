"""Telling formats, and files of one document from files of lines, apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import read
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats import FORMATS, open_trace
from twinraven.muninn.formats.trace import whole_documents


def test_a_document_over_many_lines_is_one() -> None:
    """A file that is one JSON value, however it is laid out, is fed as one line."""
    text = json.dumps({"messages": [{"role": "user"}]}, indent=2).encode()
    assert list(whole_documents(text.splitlines(keepends=True))) == [text]
    assert list(whole_documents([b"\n", b"[\n", b"1]\n"])) == [b"\n[\n1]\n"]


def test_lines_stay_lines_also_where_the_first_is_broken() -> None:
    """A broken first line does not swallow the rest of the file."""
    broken = [b'{"a": \n', b'{"b": 1}\n', b'{"c": 2}\n']
    assert list(whole_documents(broken)) == broken


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), min_size=1))
def test_whole_lines_pass_through_unchanged(values: list[dict[str, int | str]]) -> None:
    """JSON Lines are never joined."""
    lines = [json.dumps(value).encode() + b"\n" for value in values]
    assert list(whole_documents(lines)) == lines


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    """The refusal names every format."""
    with pytest.raises(InvalidInput) as refusal:
        open_trace([], "csv", "t")
    assert all(name in refusal.value.message for name in FORMATS)


def test_a_file_that_shows_no_format_names_its_lines() -> None:
    """What looks like nothing we know is reported line by line, not silently skipped."""
    calls, errors = read([b"nonsense\n", b'{"a": 1}\n'])
    assert (calls, [error.line for error in errors]) == ([], [1, 2])
