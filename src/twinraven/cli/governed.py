"""What the commands about governed work share: how plans and envelopes are read, and how tasks are shown."""

from __future__ import annotations

from typing import Any

from twinraven.cli.output import Column
from twinraven.cli.times import short_time

TASK_COLUMNS = (
    Column("task_id", "TASK"),
    Column("status", "STATE", tinted=True),
    Column("priority", "PRIORITY"),
    Column("task_type", "TYPE", shrinks=True),
    Column("attempts", "ATTEMPTS", spare=2),
    Column("state_version", "VERSION", spare=4),
    Column("created_at", "PLANNED", text=short_time, spare=3),
)


def read_document(file: str) -> Any:
    """The YAML or JSON of a file, or of stdin for `-`."""
    from twinraven.catalog import load_document
    from twinraven.cli.definitions import read_text

    return load_document(read_text(file))
