"""Reading answers: whatever comes, the result is bounded and clean."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from twinraven.connectors import find_json
from twinraven.foundation.errors import InvalidOutput
from twinraven.huginn.advice.proposals import (
    MAX_DESCRIPTION,
    MAX_ENTRIES,
    MAX_NAME,
    MAX_PARAMETER_DESCRIPTION,
    MAX_REFUSALS,
    MAX_SOURCE,
    Proposals,
    read_proposals,
    tidy,
)
from twinraven.huginn.advice.question import shrunk
from twinraven.registry.model import SLUG

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=600)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5)
)
ENTRY = st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "description", "step", "argument", "source"), VALUES))
ANSWERS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "slug": SCALARS,
        "description": SCALARS,
        "parameters": st.lists(ENTRY | VALUES, max_size=MAX_ENTRIES + 3) | VALUES,
        "sources": st.lists(ENTRY | VALUES, max_size=MAX_ENTRIES + 3) | VALUES,
    },
)


def assert_sound(found: Proposals) -> None:
    assert found.slug is None or (SLUG.fullmatch(found.slug) and len(found.slug) <= 64)
    words = [(found.description, MAX_DESCRIPTION)]
    words += [(text, MAX_PARAMETER_DESCRIPTION) for text in found.parameters.values()]
    for text, most in words:
        assert text is None or (0 < len(text) <= most and text.isprintable())
    assert len(found.parameters) <= MAX_ENTRIES
    assert len(found.sources) <= MAX_ENTRIES
    assert all(len(source.source) <= MAX_SOURCE and len(source.argument) <= MAX_NAME for source in found.sources)
    assert len(found.refused) <= MAX_REFUSALS
    assert all(len(refusal.value) <= MAX_NAME and refusal.value.isprintable() for refusal in found.refused)


@given(ANSWERS)
def test_any_json_is_read_or_refused(value: Any) -> None:
    """No JSON value makes the reader fail, and all that it takes is bounded and printable."""
    assert_sound(read_proposals(value))


def fenced(value: Any) -> str:
    return f"so: ```\n{json.dumps(value)}\n```"


@given(st.text(max_size=300) | ANSWERS.map(fenced))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes reading fail otherwise than by saying that it is not JSON."""
    try:
        value = find_json(text)
    except InvalidOutput:
        return
    assert_sound(read_proposals(value))


@given(st.text(), st.integers(2, 50))
def test_tidy_text_is_one_printable_line(text: str, most: int) -> None:
    """Control, format and line-breaking characters never get through, and tidying twice changes nothing."""
    line = tidy(text, most)
    assert len(line) <= most
    assert line.isprintable()
    assert not re.search(r"\s\s", line)
    assert tidy(line, most) == line


@given(VALUES)
def test_shrinking_bounds_every_part(value: Any) -> None:
    """Nothing in a sample is longer, wider or deeper than its bound, and what is small stays as it is."""
    assert depth_of(shrunk([value] * 100)) <= 8
    assert len(shrunk([value] * 100)) == 4
    assert len(shrunk({str(number): value for number in range(100)})) == 25
    assert len(shrunk("x" * 1_000)) == 201
    assert shrunk({"a": [1, "b"]}) == {"a": [1, "b"]}


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, cast("dict[str, Any]", value).values()), default=0)
    return 1 + max(map(depth_of, cast("list[Any]", value)), default=0) if isinstance(value, list) else 0
