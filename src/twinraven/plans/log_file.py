"""Writes the log of a plan to a JSONL file: one whole line per cycle, numbered without gaps, also after a crash.

Each line is written at once. A line that a crash tore is cut off when the file is opened again, and the log goes on
with the entry after the last whole one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.plans.state import LogEntry


class PlanLogFile:
    """A log file that is open for writing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._written = self._recover()
            except BaseException:
                os.close(self._file)
                raise
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {error.strerror}", field="log") from error

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Append the entries that the file does not have yet."""
        for entry in entries:
            if entry.step_number == self._written + 1:
                os.write(self._file, canonical_json(entry.as_json()) + b"\n")
                self._written = entry.step_number

    def _recover(self) -> int:
        """Cut a torn last line off; says how many entries are whole."""
        text = self._path.read_bytes()
        whole, count = 0, 0
        for line in text.splitlines(keepends=True):
            if not line.endswith(b"\n") or _number(line) != count + 1:
                if line.endswith(b"\n"):
                    raise InvalidInput(
                        f"{self._path} is no log of a plan from its line {count + 1} on; name another file", field="log"
                    )
                break
            whole += len(line)
            count += 1
        os.ftruncate(self._file, whole)
        os.lseek(self._file, 0, os.SEEK_END)
        return count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


def _number(line: bytes) -> int | None:
    try:
        found: Any = parse_json(line, field="log")
    except InvalidInput:
        return None
    number = cast("dict[str, Any]", found).get("step_number") if isinstance(found, dict) else None
    return number if isinstance(number, int) else None
