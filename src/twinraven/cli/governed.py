"""Shares code between the commands on governed work: reading plans and envelopes, printing tasks."""

from __future__ import annotations

from typing import Any

from twinraven.cli.output import TableColumn
from twinraven.cli.times import short_time

TASK_COLUMNS = (
    TableColumn("task_id", "TASK"),
    TableColumn("status", "STATE", tinted=True),
    TableColumn("priority", "PRIORITY"),
    TableColumn("task_type", "TYPE", shrinks=True),
    TableColumn("attempts", "ATTEMPTS", spare=2),
    TableColumn("state_version", "VERSION", spare=4),
    TableColumn("created_at", "PLANNED", text=short_time, spare=3),
)


def read_document(file: str) -> Any:
    """Read the YAML or JSON of a file, or of stdin for `-`."""
    from twinraven.catalog import load_document
    from twinraven.cli.definitions import read_text

    return load_document(read_text(file))
