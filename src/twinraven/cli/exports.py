"""`twinraven export`: the log as a file for other programs.

A file appears whole or not at all: it is written beside its place, made durable and renamed. It can hold whatever tools
were asked and answered, so only its owner may read it.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from twinraven.cli.output import Progress
from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.storage import Database


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven export json events.jsonl")
    json = _with_file(parser.command("json", "every event as one line of JSON"))
    json.runs(export_json_lines, example="twinraven export json - | jq -r .tool_id | sort | uniq -c")
    otlp = _with_file(parser.command("otlp", "every event as a span, OTLP in JSON Lines"))
    otlp.runs(export_spans, example="twinraven export otlp spans.jsonl")
    parquet = _with_file(parser.command("parquet", "every event and its output as a row of a Parquet file"))
    parquet.runs(export_rows, example="twinraven export parquet events.parquet")


def _with_file(parser: CommandParser) -> CommandParser:
    parser.add_argument("file", metavar="FILE", help="where to; - writes to standard output")
    return parser


def export_json_lines(options: Namespace) -> None:
    from twinraven.cli.home import ask
    from twinraven.muninn import export_json

    with _destination(options.file) as out, Progress("events") as progress:
        counted = cast("IO[bytes]", _CountedLines(out, progress))
        written = ask(options, lambda store: export_json(store, options.tenant, counted))
    _say(written, options.file)


def export_spans(options: Namespace) -> None:
    from twinraven.muninn import export_otlp

    _export_full(options, export_otlp)


def export_rows(options: Namespace) -> None:
    from twinraven.muninn import export_parquet

    _export_full(options, export_parquet)


def _export_full(options: Namespace, export: Callable[[Database, str, IO[bytes]], Coroutine[Any, Any, int]]) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven, _destination(options.file) as out:
        written = asyncio.run(export(raven.database, options.tenant, out))
    _say(written, options.file)


def _say(written: int, file: str) -> None:
    if file != "-":
        print(f"{written} events written to {file}")


class _CountedLines:
    """Passes lines on and tells how many there were."""

    def __init__(self, out: IO[bytes], progress: Progress) -> None:
        self._out = out
        self._progress = progress
        self._lines = 0

    def writelines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._out.write(line)
            self._lines += 1
        self._progress(self._lines)


@contextmanager
def _destination(name: str) -> Generator[IO[bytes]]:
    path = Path(name)
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced by a file, and must not be.
        with _named(path):
            out = path.open("wb")
        with out:
            yield out
    else:
        with replaced(path) as out:
            yield out


@contextmanager
def replaced(path: Path, *, new: bool = False) -> Generator[IO[bytes]]:
    """Provide a new file that takes this place once it is complete and durable.

    Where it must be `new`, it takes nobody's place: FileExistsError says that another one is there by then.
    """
    from tempfile import mkstemp

    with _named(path):
        descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            os.fsync(descriptor)
        if new:
            _put_new(Path(name), path)
        else:
            Path(name).replace(path)
    finally:
        # Once it has replaced another one it has that name no more.
        Path(name).unlink(missing_ok=True)


def _put_new(finished: Path, path: Path) -> None:
    try:
        path.hardlink_to(finished)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        # Not every file system has links: an empty file holds the place for a moment.
        path.touch(mode=0o600, exist_ok=False)
        try:
            finished.replace(path)
        except OSError:
            path.unlink()
            raise


@contextmanager
def _named(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}", field="file") from error
