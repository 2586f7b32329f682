"""Exports the event log as a Parquet file, for analytics, mining or training without the database.

Rows come in session order, so that a session lies together, and are written a row group at a time. Arguments and
outputs stay JSON text: their shape differs from tool to tool.
"""

from __future__ import annotations

from importlib import import_module
from typing import IO, Any

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.clock import to_micros
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.full_log import FullEvent, scan_full
from twinraven.muninn.model import EVENT_FIELDS
from twinraven.storage import Database

GROUP_ROWS = 50_000
GROUP_BYTES = 64 << 20
"""A row group is closed at whichever comes first."""

_TYPES = {
    "UUID": "string",
    "str": "string",
    "Outcome": "string",
    "ActorType": "string",
    "int": "int64",
    "bool": "bool_",
    "datetime": "timestamp",
    "list[str]": "strings",
    "dict[str, Any]": "large_string",
}


async def export_parquet(database: Database, tenant_id: str, out: IO[bytes], *, group_rows: int = GROUP_ROWS) -> int:
    """Write every event with its output; says how many."""
    arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    schema = _schema(arrow)
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        group = _Group(arrow, schema, writer, group_rows)
        await scan_full(database, tenant_id, group.add)
        group.close()
    return group.written


class _Group:
    """Gathers rows and writes them as one row group when there are enough."""

    def __init__(self, arrow: Any, schema: Any, writer: Any, rows: int) -> None:
        self._arrow = arrow
        self._schema = schema
        self._writer = writer
        self._limit = rows
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self.written = 0

    def add(self, batch: list[FullEvent]) -> None:
        for full in batch:
            row = _row(full)
            self._rows.append(row)
            self._bytes += len(row["input_params"]) + len(row["output"] or "")
            if len(self._rows) >= self._limit or self._bytes >= GROUP_BYTES:
                self.close()

    def close(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
            self.written += len(self._rows)
            self._rows.clear()
            self._bytes = 0


def _row(full: FullEvent) -> dict[str, Any]:
    event = full.event
    return {
        **event.as_json(),
        "timestamp": to_micros(event.timestamp),
        "input_params": canonical_json(event.input_params).decode(),
        "output": None if full.output is None else full.output.decode(),
    }


def _schema(arrow: Any) -> Any:
    special = {"timestamp": arrow.timestamp("us", tz="UTC"), "strings": arrow.list_(arrow.string())}
    stated = [(each.name, _TYPES[each.kind], each.is_optional) for each in EVENT_FIELDS]
    return arrow.schema(
        [
            arrow.field(name, special.get(kind) or getattr(arrow, kind)(), nullable=nullable)
            for name, kind, nullable in (*stated, ("output", "large_string", True))
        ]
    )


def library(name: str) -> Any:
    """Import a part of pyarrow, or say how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InvalidInput(
            "Parquet needs pyarrow, which is not installed", fix="pip install 'twinraven[parquet]'"
        ) from error
