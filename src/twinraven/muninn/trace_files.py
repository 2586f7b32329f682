"""Finds files of traces: files as they are named, and all files in folders, recognised by their content later on.

A folder of OpenHands keeps one event a file, numbered: such files are one trace and are read one after another.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.exchange import open_lines

STANDARD_INPUT = "-"


class TraceFile(NamedTuple):
    """One trace: a file, standard input where it has no path, or several files that continue each other."""

    name: str
    parts: tuple[Path, ...]
    is_named: bool
    """Whether a person named it, rather than the folder it lies in."""

    @contextmanager
    def opened(self) -> Generator[IO[bytes] | Iterator[bytes]]:
        """Its lines, for as long as it is open."""
        if len(self.parts) > 1:
            yield self._joined()
            return
        with open_lines(self.parts[0] if self.parts else None) as lines:
            yield lines

    def _joined(self) -> Iterator[bytes]:
        for part in self.parts:
            with open_lines(part) as lines:
                yield b"".join(line.strip() for line in lines) + b"\n"


def find_traces(names: Sequence[str]) -> list[TraceFile]:
    """Find the traces behind names of files and folders; InvalidInput where a folder has no files."""
    found: list[TraceFile] = []
    for name in names:
        path = Path(name)
        if name == STANDARD_INPUT:
            found.append(TraceFile("standard input", (), is_named=True))
        elif _is_folder(path):
            inside = list(_inside(path))
            if not inside:
                raise InvalidInput(f"there are no files in {path}", field="file")
            found += inside
        else:
            found.append(TraceFile(name, (path,), is_named=True))
    return found


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        # Such as a folder on the way that this user may not enter.
        raise InvalidInput(f"cannot read {path}: {error.strerror}", field="file") from error


def _inside(folder: Path) -> Iterator[TraceFile]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = [Path(place, name) for name in sorted(files) if not name.startswith(".")]
        kept = [path for path in paths if path.is_file()]
        numbers = [path for path in kept if path.suffix == ".json" and path.stem.split("-")[-1].isdigit()]
        if len(numbers) > 1 and len(numbers) == len(kept) and Path(place).name == "events":
            yield TraceFile(place, tuple(sorted(kept, key=_numbered)), is_named=False)
        else:
            yield from (TraceFile(str(path), (path,), is_named=False) for path in kept)


def _numbered(path: Path) -> tuple[int, str]:
    parts = [part for part in path.stem.split("-") if part.isdigit()]
    return (int(parts[0]) if parts else 0, path.name)
