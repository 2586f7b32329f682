"""Summaries of outputs: short, deterministic, and honest about what they leave out."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.muninn import Collector, EncodingRules, SqlEventStore, encode_output
from twinraven.muninn.summary import summarize
from twinraven.storage import Database

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


@given(JSON, st.integers(20, 400))
def test_a_summary_fits_and_repeats(value: Any, limit: int) -> None:
    """Whatever the output, its summary is no longer than allowed and the same every time."""
    encoded = encode_output(value)
    summary = summarize(encoded, limit)
    assert len(summary) <= limit
    assert summary == summarize(encode_output(value), limit)
    if len(encoded) <= limit:
        assert summary == encoded.decode()


def test_a_long_output_keeps_its_shape() -> None:
    """Keys stay, arrays say how many items they have, long texts say how long they are."""
    output = {"orders": [{"id": number} for number in range(30)], "note": "n" * 500, "deep": {"er": {"est": [1]}}}
    summary = summarize(encode_output(output), 280)
    assert '"… 28 more"' in summary
    assert "(500 characters)" in summary
    assert '"deep":{"er":"object of 1"}' in summary


def test_an_enormous_object_is_summed_up_quickly() -> None:
    """A hundred thousand keys, or a number of a thousand digits, need no summary of their own length."""
    assert len(summarize(encode_output({f"key{number}": number for number in range(100_000)}), 280)) == 280
    assert len(summarize(encode_output({"n": 10**1000, "text": "x" * 500}), 280)) == 280


@pytest.fixture
def quiet(sqlite_database: Database) -> Generator[Collector]:
    collector = Collector(sqlite_database, rules=EncodingRules(store_outputs=False, summary_chars=0))
    yield collector
    collector.close()


async def test_compression_can_be_off(quiet: Collector, sqlite_database: Database) -> None:
    """Without summaries and kept outputs an event says only that the call was made."""
    event_id = await quiet.observe("s").record("f", {}, output={"a": 1})
    event = await SqlEventStore(sqlite_database).event("default", event_id)
    assert (event.output_summary, event.output_hash) == (None, None)
