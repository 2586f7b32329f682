"""`twinraven import`: recorded calls of other systems become events of the log."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from twinraven.cli.exits import BAD_INPUT, DONE, report
from twinraven.cli.interrupts import ends_at_once
from twinraven.cli.output import Progress, clean, show_fields, show_json
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.foundation.errors import InvalidInput
    from twinraven.muninn import ImportReport, TraceFile

# Spelled out, because the formats take long to load; a test sees that they are those of muninn.
_FORMATS = (
    "auto",
    "calls",
    "openai",
    "anthropic",
    "responses",
    "gemini",
    "langchain",
    "pydantic-ai",
    "chat",
    "otlp",
    "langfuse",
    "langsmith",
    "mlflow",
    "claude-code",
    "openhands",
    "swe-agent",
    "events",
)
_SHOWN_REASONS = 20
_SHOWN_LEFT_OUT = 60
_RARELY = 400_000

Read = list[tuple[str, "ImportReport"]]
Refused = list[tuple[str, "InvalidInput"]]


def register(parser: CommandParser) -> None:
    parser.add_argument(
        "file",
        nargs="+",
        metavar="FILE",
        help="JSON or JSON Lines, plain or gzip, or a folder of such files; - reads standard input",
    )
    parser.add_argument("--format", choices=_FORMATS, default="auto", help="what the lines are (default: found out)")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven import tau_retail.jsonl.gz --format calls --output json")


def run(options: Namespace) -> int:
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.muninn import find_traces

    files = find_traces(options.file)
    way = _Way(files)
    with (
        ends_at_once("what was read so far is kept; run it again to go on, nothing is stored twice"),
        opened(options) as raven,
        Progress("lines", share=way.share) as progress,
        _rare_collection(),
    ):
        read, refused = asyncio.run(_import_all(raven, options, way, progress))
    if not read:
        return report(_nothing_read(refused), as_json=options.output == "json")
    if options.output == "json":
        show_json(_as_json(read, refused))
    else:
        show_fields("table", _counts(read))
    for name, each in read:
        _warn(name if len(files) > 1 else "", each, verbose=options.output == "table")
    for name, error in refused[:_SHOWN_LEFT_OUT]:
        print(f"twinraven: warning: {clean(name)} was left out: {clean(error.message[:300])}", file=sys.stderr)
    if len(refused) > _SHOWN_LEFT_OUT:
        more = len(refused) - _SHOWN_LEFT_OUT
        print(f"twinraven: warning: {more:,} more files were left out; --output json lists them", file=sys.stderr)
    if any(each.is_understood for _, each in read):
        return DONE
    print(f"twinraven: error: no call was understood: {'; '.join(_seen(read))}", file=sys.stderr)
    return BAD_INPUT


@contextmanager
def _rare_collection() -> Generator[None]:
    """Calls are freed as they are stored and hold no cycles: looking for some costs a seventh of the import."""
    import gc

    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def _import_all(raven: TwinRaven, options: Namespace, way: _Way, progress: Progress) -> tuple[Read, Refused]:
    """Import each file; one that cannot be read is an error if it was named alone, else it is left out."""
    from twinraven.foundation.errors import InvalidInput

    read: Read = []
    refused: Refused = []
    for file in way.files:
        try:
            with way.entered(file) as lines:
                found = await raven.importer.import_trace(
                    options.tenant, lines, format=options.format, progress=progress
                )
        except InvalidInput as error:
            if file.is_named:
                raise
            # A traceback would keep what was read of each of very many files.
            refused.append((file.name, error.with_traceback(None)))
        else:
            read.append((file.name, found))
    return read, refused


def _nothing_read(refused: Refused) -> InvalidInput:
    """Return the error of a folder none of whose files is a trace: what was seen in the first of them."""
    from twinraven.foundation.errors import InvalidInput

    name, first = refused[0]
    if len(refused) == 1:
        return InvalidInput(f"{name}: {first.message}", **first.details)
    return InvalidInput(
        f"none of {len(refused):,} files is a trace; in the first, {name}: {first.message}", **first.details
    )


class _Way:
    """How far an import has come, by the bytes of its files."""

    def __init__(self, files: list[TraceFile]) -> None:
        self.files = files
        sizes = {file: sum(part.stat().st_size for part in file.parts if part.is_file()) for file in files}
        self._total = sum(sizes.values()) if all(sizes.values()) else 0
        self._sizes = sizes
        self._passed = 0
        self._open: Any = None

    @contextmanager
    def entered(self, file: TraceFile) -> Generator[IO[bytes] | Iterator[bytes]]:
        """Open one of the files and count it as passed afterwards."""
        with file.opened() as lines:
            self._open = lines
            try:
                yield lines
            finally:
                self._open = None
                self._passed += self._sizes[file]

    def share(self) -> float | None:
        """Return the share that is read; None for standard input and pipes, whose length is unknown."""
        if not self._total:
            return None
        place = os.lseek(self._open.fileno(), 0, os.SEEK_CUR) if hasattr(self._open, "fileno") else 0
        return (self._passed + place) / self._total


def _counts(read: Read) -> dict[str, Any]:
    reports = [each for _, each in read]
    formats = list(dict.fromkeys(each.format for each in reports))
    return {
        "format": ", ".join(formats),
        "sessions": len(set[int]().union(*(each.session_hashes for each in reports))),
        "events": sum(each.events for each in reports),
        "duplicates": sum(each.duplicates for each in reports),
        "not understood": sum(each.not_understood for each in reports),
    }


def _as_json(read: Read, refused: Refused) -> dict[str, Any]:
    """Return the report of an only file as it is; of several, the sums and each file's own."""
    if len(read) == 1 and not refused:
        return read[0][1].as_json()
    counts = {name.replace(" ", "_"): value for name, value in _counts(read).items()}
    files = [{"file": name, **each.as_json()} for name, each in read]
    left_out = [{"file": name, "reason": error.message} for name, error in refused]
    return {**counts, "files": files, "left_out": left_out}


def _seen(read: Read) -> Iterable[str]:
    for name, each in read:
        yield f"{clean(name)} was read as {each.format}, {clean(each.seen)}"


def _warn(name: str, each: ImportReport, *, verbose: bool) -> None:
    if not each.not_understood:
        return
    where = f" in {clean(name)}" if name else ""
    print(f"twinraven: warning: {each.not_understood:,} lines or parts{where} were not understood", file=sys.stderr)
    reasons = list(each.reasons.values())
    for reason in reasons[:_SHOWN_REASONS] if verbose else ():
        times = f" ({reason.count:,} times)" if reason.count > 1 else ""
        print(f"  line {reason.first_line}: {clean(reason.example)}{times}", file=sys.stderr)
    if verbose and len(reasons) > _SHOWN_REASONS:
        print(f"  and {len(reasons) - _SHOWN_REASONS} more reasons; --output json lists them", file=sys.stderr)
