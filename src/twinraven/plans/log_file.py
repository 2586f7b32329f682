"""Writes the log of a plan to a JSONL file: one whole line per cycle, numbered without gaps, also after a crash.

Each line is written at once. A line that a crash tore is cut off when the file is opened again, and the log goes on
with the entry after the last whole one. A file that has the log of another plan is refused, not gone on with.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput, StorageError
from twinraven.plans.state import LogEntry


class PlanLogFile:
    """A log file that is open for writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._times = self._recover()
            except BaseException:
                os.close(self._file)
                raise
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {error.strerror}", field="log") from error

    def refuse_other_plan(self) -> None:
        """Refuse a file that has entries already, for a plan that has none yet."""
        if self._times:
            raise InvalidInput(
                f"{self._path} has the log of another plan; name another file, or that plan with --id", field="log"
            )

    def write(self, entries: Sequence[LogEntry]) -> None:
        """Append the entries that the file does not have yet."""
        if any(entry.timestamp != time for entry, time in zip(entries, self._times, strict=False)):
            self.refuse_other_plan()
        for entry in entries[len(self._times) :]:
            self._append(canonical_json(entry.as_json()) + b"\n")
            self._times.append(entry.timestamp)

    def _append(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error.strerror}") from error

    def _recover(self) -> list[str]:
        """Cut a torn last line off; gives the times of the entries that are whole."""
        text = self._path.read_bytes()
        whole, times = 0, list[str]()
        for line in text.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            number, time = _read(line)
            if number != len(times) + 1:
                raise InvalidInput(
                    f"{self._path} is no log of a plan from its line {len(times) + 1} on; name another file",
                    field="log",
                )
            whole += len(line)
            times.append(time)
        os.ftruncate(self._file, whole)
        os.lseek(self._file, 0, os.SEEK_END)
        return times

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


def _read(line: bytes) -> tuple[Any, str]:
    """Read the number and the time of an entry; None and nothing where the line is none."""
    try:
        found: Any = parse_json(line, field="log")
    except InvalidInput:
        return None, ""
    members = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return members.get("step_number"), str(members.get("timestamp"))
