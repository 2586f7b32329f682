"""A mining configuration says no to nonsense, and its snapshot gives it back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.mining import MiningConfig
from twinraven.huginn.mining.config import fewest_sessions


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("algorithm", {"algorithm": "apriori"}),
        ("min_support", {"min_support": 0}),
        ("min_support", {"min_support": 1.5}),
        ("min_support", {"min_support": float("nan")}),
        ("min_support", {"min_support": "0.5"}),
        ("min_support", {"min_support": True}),
        ("min_sessions", {"min_sessions": 0}),
        ("min_length", {"min_length": 1}),
        ("min_length", {"min_length": 5, "max_length": 4}),
        ("max_length", {"max_length": 10_000}),
        ("max_length", {"max_length": 3.0}),
        ("max_gap_ms", {"algorithm": "gsp"}),
        ("max_gap_ms", {"algorithm": "gsp", "max_gap_ms": -1}),
        ("max_gap_ms", {"algorithm": "contiguous", "max_gap_ms": 100}),
        ("collapse_repeats", {"collapse_repeats": "yes"}),
        ("respect_breaks", {"respect_breaks": None}),
        ("max_patterns", {"max_patterns": 0}),
        ("max_paterns", {"max_paterns": 10}),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(field: str, options: dict[str, Any]) -> None:
    """The error names the field at fault and is the caller's to fix."""
    with pytest.raises(InvalidInput) as refused:
        MiningConfig.from_dict(options)
    assert refused.value.details["field"] == field
    assert field in refused.value.message


@pytest.mark.req("TR-12")
def test_a_snapshot_survives_json() -> None:
    """What is stored with a chain makes the same configuration again, every field of it."""
    config = MiningConfig(
        algorithm="gsp",
        min_support=0.125,
        min_sessions=3,
        min_length=3,
        max_length=9,
        max_gap_ms=2_500,
        collapse_repeats=True,
        respect_breaks=False,
        max_patterns=77,
    )
    assert MiningConfig.from_dict(parse_json(canonical_json(config.as_dict()))) == config


@given(support=st.floats(1e-12, 1.0), sessions=st.integers(1, 10**9))
def test_the_threshold_is_the_smallest_count_that_reaches_the_support(support: float, sessions: int) -> None:
    """One session fewer would print a support below the bound; the count itself does not."""
    least = fewest_sessions(support, sessions)
    assert least / sessions >= support
    assert least == 1 or (least - 1) / sessions < support
