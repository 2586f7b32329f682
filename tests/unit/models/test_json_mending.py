"""Mending JSON: what was meant comes back, what is missing is said, and nothing takes long."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.models.damage import KINDS, corpus, hostile_texts, real_answers
from twinraven.foundation.errors import InvalidOutput
from twinraven.models.json_mending import MAX_MENDED_CHARS, mend_json

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def mended(text: str) -> Any:
    """The value, or why there is none."""
    try:
        found = mend_json(text)
    except InvalidOutput:
        return "nothing"
    return "cut" if found.is_cut else found.value


def test_the_corpus_is_mended_or_known_to_be_cut() -> None:
    """Of at least 200 damaged answers of 12 kinds none is taken for something else; all that are whole come back."""
    outcomes: dict[str, Counter[str]] = {}
    damaged = corpus()
    for kind, good, text in damaged:
        found = mended(text)
        how = found if isinstance(found, str) else "same" if _spaced(found) == _spaced(good) else "other"
        outcomes.setdefault(kind, Counter())[how] += 1
    assert len(damaged) >= 200
    assert set(outcomes) == set(KINDS)
    for kind, counts in outcomes.items():
        may_be_cut = kind in ("cut off in the middle", "brackets not closed")
        assert set(counts) <= ({"same", "cut"} if may_be_cut else {"same"}), (kind, counts)


def _spaced(value: Any) -> str:
    """A value as text in which line breaks count as spaces, because damage turns one into the other."""
    return " ".join(json.dumps(value).replace("\\n", " ").split())


@given(JSON_VALUES)
def test_good_json_is_left_alone(value: Any) -> None:
    """What is JSON is read as it is, with nothing mended."""
    found = mend_json(json.dumps(value))
    assert found.value == value
    assert (found.mends, found.is_cut) == ((), False)


@given(st.dictionaries(st.text("abc_", min_size=1), st.text(max_size=30) | st.integers(), min_size=1), st.data())
def test_half_a_value_is_never_taken_for_a_whole_one(value: Any, data: Any) -> None:
    """Wherever an object is cut, every value that comes back is one that stood there whole."""
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    found = mend_json(cut) if "{" in cut else None
    if found is not None and isinstance(found.value, dict):
        for name, each in cast("dict[str, Any]", found.value).items():
            assert value.get(name) == each


@given(st.text(alphabet="{}[]\"':,\\ntruefals 0123456789\n“”#/*", max_size=400))
def test_any_text_is_mended_or_refused(text: str) -> None:
    """Whatever text comes, the outcome is a JSON value or InvalidOutput."""
    found = mended(text)
    json.dumps(found)


def test_no_text_takes_long_or_much() -> None:
    """Hostile texts, and those of a real model, are through within 100 ms of computing and 64 MiB."""
    for text in [*hostile_texts(), *(text for _, text in real_answers())]:
        tracemalloc.start()
        mended(text)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert min(_seconds(text) for _ in range(5)) < 0.1, text[:20]
        assert peak < 64 * 2**20, text[:20]


def _seconds(text: str) -> float:
    begun = time.process_time()
    mended(text)
    return time.process_time() - begun


def test_what_is_too_long_is_refused() -> None:
    """A long answer that is JSON is read; one that is not is refused for its length."""
    assert mend_json(json.dumps(["x" * MAX_MENDED_CHARS])).mends == ()
    with pytest.raises(InvalidOutput, match="more than"):
        mend_json("x" * (MAX_MENDED_CHARS + 1))
