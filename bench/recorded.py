"""Recorded agent traces to measure on, where there are any.

They are not part of the project. `make bench` looks in a folder beside it; TWINRAVEN_TRACES names another.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "TWINRAVEN_TRACES"


def recorded_logs() -> list[Path]:
    """Files in the `calls` format, by name."""
    folder = os.environ.get(VARIABLE)
    return sorted(Path(folder).glob("*.jsonl.gz")) if folder else []
