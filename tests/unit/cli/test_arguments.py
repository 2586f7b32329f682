"""How arguments are read."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.cli.arguments import count, moment
from twinraven.cli.call import read_params
from twinraven.cli.times import short_span, short_time
from twinraven.foundation.errors import InvalidInput


@given(text=st.text(max_size=25))
def test_a_count_is_a_number_from_one_or_refused(text: str) -> None:
    """Every text is either such a number or a bad argument, never another error."""
    try:
        assert 1 <= count(text) < 2**63
    except ArgumentTypeError as error:
        assert repr(text) in str(error)


@given(text=st.text(max_size=40) | st.from_regex(r"[0-9]{1,9}[smhdw]", fullmatch=True))
def test_a_moment_has_a_zone_or_is_refused(text: str) -> None:
    """Every text is either a moment in UTC or a bad argument with the forms that would do."""
    try:
        assert moment(text).tzinfo is UTC
    except ArgumentTypeError as error:
        assert "2026-03-01T12:00:00Z" in str(error)


def test_moments_are_points_or_spans_back_from_now() -> None:
    """Both forms are understood."""
    assert moment("2026-03-01T13:00:00+01:00") == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert moment("2026-03-01") == datetime(2026, 3, 1, tzinfo=UTC)
    assert moment("today") - moment("yesterday") == timedelta(days=1)
    assert abs(datetime.now(UTC) - timedelta(hours=36) - moment("36h")) < timedelta(minutes=1)


SCHEMA: dict[str, Any] = {"properties": {"name": {"type": "string"}, "count": {"type": "integer"}, "any": {}}}
values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=4)


@given(text=st.text())
def test_a_text_parameter_stays_what_was_typed(text: str) -> None:
    """Where the tool wants text, nothing is interpreted, not even what looks like JSON."""
    assert read_params(None, [f"name={text}"], SCHEMA) == {"name": text}


@given(value=values)
def test_other_parameters_are_json_where_they_can_be(value: Any) -> None:
    """Numbers, flags and structures keep their type; what is no JSON is text."""
    assert read_params(None, [f"any={json.dumps(value)}"], SCHEMA) == {"any": value}
    assert read_params(None, ["any=plain words", "unknown=x=y"], SCHEMA) == {"any": "plain words", "unknown": "x=y"}


def test_single_parameters_win_over_the_object(tmp_path: Path) -> None:
    """--param sets what --params had otherwise."""
    file = tmp_path / "params.json"
    file.write_text('{"count": 1, "name": "a"}')
    assert read_params(f"@{file}", ["count=2"], SCHEMA) == {"count": 2, "name": "a"}


@pytest.mark.parametrize(
    ("whole", "single"), [("[]", []), ("{", []), ("1", []), ("@/nowhere", []), (None, ["x"]), (None, ["=1"])]
)
def test_what_is_not_a_parameter_is_refused(whole: str | None, single: list[str]) -> None:
    """Bad parameters are bad input, whatever is wrong with them."""
    with pytest.raises(InvalidInput):
        read_params(whole, single, SCHEMA)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.25, "250 ms"), (59.4, "59.4 s"), (61, "1 min 01 s"), (7260, "2 h 01 min"), (200_000, "2 d 07 h")],
)
def test_spans_are_told_in_the_unit_that_fits(seconds: float, text: str) -> None:
    """A span reads well from milliseconds to days."""
    assert short_span(seconds) == text


def test_times_are_told_in_utc() -> None:
    """A stored text and a moment give the same words; an absent time is a dash."""
    told = "2026-03-01 12:00:00Z"
    assert short_time("2026-03-01T12:00:00.000000Z") == told
    assert short_time(datetime(2026, 3, 1, 12, tzinfo=UTC)) == told
    assert short_time(None) == "-"
