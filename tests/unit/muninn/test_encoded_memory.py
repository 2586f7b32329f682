"""What an observation holds of a call takes as much memory as its text needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from twinraven.muninn import encode_output, encode_params

_CALLS = 25_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident memory from /proc")
def test_short_texts_do_not_hold_the_buffers_they_were_written_in() -> None:
    """Tens of thousands of held calls with short arguments and outputs take a few megabytes."""
    before = _resident()
    held = [(encode_params({"n": number}), encode_output({"is": number})) for number in range(_CALLS)]
    grown = _resident() - before
    assert len(held) == _CALLS
    assert grown < _CALLS * 2 * 400


def _resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
