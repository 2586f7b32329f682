"""Samples of each format, written by us after the formats' documentation, beside what must be understood of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.traces import GOLDEN, as_facts, read

SAMPLES = {
    "openai.jsonl": "openai",
    "openai-array.json": "openai",
    "otlp.jsonl": "otlp",
    "otlp-document.json": "otlp",
    "claude-code.jsonl": "claude-code",
}


def lines_of(name: str) -> list[bytes]:
    return (GOLDEN / name).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_understood_as_written_down_beside_it(name: str) -> None:
    """Every call of a sample is found with all that is known of it, and every broken line is named."""
    expected = json.loads((GOLDEN / f"{Path(name).stem}.expected.json").read_bytes())
    assert as_facts(*read(lines_of(name), SAMPLES[name])) == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_the_format_of_a_sample_is_found_out(name: str) -> None:
    """`auto` reads each sample as its format would."""
    assert as_facts(*read(lines_of(name), "auto")) == as_facts(*read(lines_of(name), SAMPLES[name]))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_read_twice_names_its_calls_alike(name: str) -> None:
    """A call's identity depends on the trace alone, and no two calls of a sample share one."""
    first, second = (read(lines_of(name))[0] for _ in range(2))
    keys = [call.source_key for call in first]
    assert keys == [call.source_key for call in second]
    assert len(set(keys)) == len(keys) > 0
