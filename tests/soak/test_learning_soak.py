"""Learning from a million sessions: within 16 GB, and at most sixty times what parsing the same lines takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.learning_scale import measure

pytestmark = pytest.mark.soak

MILLION = 1_000_000
MOST_BYTES = 16 * 2**30
MOST_RATIO = 60


def test_a_round_over_a_million_sessions(tmp_path: Path) -> None:
    """The round proposes what agents repeat, in bounded memory and time."""
    figures = measure(MILLION, tmp_path)
    assert figures["sessions"] == MILLION
    assert figures["proposals"]
    assert figures["peak_bytes"] < MOST_BYTES, figures
    assert figures["ratio"] < MOST_RATIO, figures
