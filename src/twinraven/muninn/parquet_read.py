"""Reads exported Parquet files as arrays, a part at a time, for mining without the database.

A part is a range of rows of one file that begins and ends where sessions do, so parts can be counted on their own, by
other processes and on other machines that see the same files. The exporter writes a session in one piece; a session
that lies in two places, because a file was given twice or two exports overlap, would be counted twice and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.parquet import library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PART_ROWS = 500_000
_READ = (
    "session_id",
    "tool_id",
    "outside_input",
    "outcome",
    "latency_ms",
    "timestamp",
    "time_known",
    "parent_event_id",
    "event_id",
)


class ParquetPart(NamedTuple):
    """Rows of a file that hold whole sessions."""

    file: str
    first: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class CallArrays:
    """The agents' own calls of a part, in session order; `offsets` says where sessions begin, and where they end."""

    names: tuple[str, ...]
    tools: NDArray[np.int32]
    offsets: NDArray[np.int64]
    outside: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    latency_ms: NDArray[np.int64]
    start_us: NDArray[np.int64]
    time_known: NDArray[np.bool_]
    event_ids: Any
    """An Arrow array: ids become text lazily."""


def plan_parts(files: Sequence[Path], *, rows: int = PART_ROWS) -> list[ParquetPart]:
    """Cut files into parts of about so many rows; refuses what is no export of ours, and sessions in two places."""
    parts: list[ParquetPart] = []
    seen: dict[str, str] = {}
    tenants: set[str] = set()
    for path in files:
        heads, total = _session_heads(path, seen, tenants)
        if len(tenants) > 1:
            raise InvalidInput(
                f"{path} holds calls of another tenant than the files before: mine one tenant at a time", field="files"
            )
        begin = 0
        for head in [*heads[1:], total]:
            if head - begin >= rows or head == total:
                parts.append(ParquetPart(str(path), begin, head - begin))
                begin = head
    return [part for part in parts if part.rows]


def read_part(part: ParquetPart) -> CallArrays:
    """Read the calls of a part as arrays."""
    import numpy as np

    table = _rows_of(part)
    own = _uncorrected(table.filter(table["parent_event_id"].is_null())).combine_chunks()
    ids, numbers = _numbered(own["tool_id"])
    names = tuple(sorted(ids))
    place = {name: number for number, name in enumerate(names)}
    order = np.array([place[name] for name in ids], np.int32)
    _, sessions = _numbered(own["session_id"])
    heads = np.flatnonzero(np.diff(sessions, prepend=-1))
    known = _array(own["time_known"]).astype(np.bool_)
    return CallArrays(
        names=names,
        tools=order[numbers] if len(order) else np.empty(0, np.int32),
        offsets=np.append(heads, len(sessions)).astype(np.int64),
        outside=_array(own["outside_input"].is_valid()).astype(np.bool_),
        failed=_array(library("pyarrow.compute").equal(own["outcome"], "failure")).astype(np.bool_),
        latency_ms=np.where(known, _array(own["latency_ms"]), -1).astype(np.int64),
        start_us=_array(own["timestamp"].cast(library("pyarrow").int64())),
        time_known=known,
        event_ids=own["event_id"],
    )


def _uncorrected(table: Any) -> Any:
    """Leave out what a correction in the same session states anew; exports of older releases have none."""
    if "corrects" not in table.column_names:
        return table
    compute = library("pyarrow.compute")
    return table.filter(compute.invert(compute.is_in(table["event_id"], table["corrects"].drop_null())))


def _session_heads(path: Path, seen: dict[str, str], tenants: set[str]) -> tuple[list[int], int]:
    """Return where sessions begin in a file, and how many rows it has."""
    import numpy as np

    file = _open(path)
    heads: list[int] = []
    last: str | None = None
    at = 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=["session_id", "tenant_id"])
        tenants.update(table["tenant_id"].unique().to_pylist())
        ids, numbers = _numbered(table["session_id"])
        places: list[int] = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        for place in places:
            session: str = ids[int(numbers[place])]
            if place == 0 and session == last:
                continue
            if session in seen:
                raise InvalidInput(
                    f"session {session!r} of {path} also lies elsewhere in {seen[session]}: give each export once",
                    field="files",
                )
            seen[session] = str(path)
            heads.append(at + place)
        last = ids[int(numbers[-1])] if len(numbers) else last
        at += table.num_rows
    return heads, at


def _rows_of(part: ParquetPart) -> Any:
    file = _open(Path(part.file))
    groups: list[int] = []
    skipped = at = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if at + rows <= part.first:
            skipped += rows
        elif at < part.first + part.rows:
            groups.append(group)
        at += rows
    names = [*_READ, *(name for name in ("corrects",) if name in file.schema_arrow.names)]
    return file.read_row_groups(groups, columns=names).slice(part.first - skipped, part.rows)


def _open(path: Path) -> Any:
    parquet, arrow = library("pyarrow.parquet"), library("pyarrow")
    try:
        file = parquet.ParquetFile(path)
    except (OSError, arrow.ArrowInvalid) as error:
        raise InvalidInput(f"cannot read {path} as Parquet: {error}", field="files") from error
    missing = sorted({*_READ, "tenant_id"} - set(file.schema_arrow.names))
    if missing:
        raise InvalidInput(
            f"{path} lacks the column {missing[0]}; it is no file that `twinraven export parquet` wrote", field="files"
        )
    return file


def _numbered(column: Any) -> tuple[list[str], Any]:
    """Return a column of text as its different values and a number for each row."""
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), _array(encoded.indices)


def _array(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False)
