"""The columns of the log and of the blobs, in the order in which rows are written."""

from __future__ import annotations

from typing import Any

COLUMNS = (
    "tenant_id",
    "event_id",
    "session_id",
    "tool_id",
    "input_hash",
    "input_params",
    "output_summary",
    "timestamp",
    "latency_ms",
    "outcome",
    "tags",
    "parent_event_id",
    "raised",
    "error_code",
    "output_hash",
    "turn",
    "task_id",
    "outside_input",
    "source_key",
    "time_known",
    "correlation_id",
)
BLOB_COLUMNS = ("tenant_id", "hash", "body")

Row = tuple[Any, ...]
