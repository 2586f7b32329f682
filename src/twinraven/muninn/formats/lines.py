"""Splits a file of traces into numbered lines and JSON documents, within bounds.

A line may have 64 MB, so that a file without line breaks is refused by its length instead of filling the memory. Runs
of empty lines are skipped block by block. A file may also be one JSON document over many lines, or several printed one
after another, as `json.dumps(indent=2)` and OpenTelemetry's console exporter write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError

LONGEST_LINE = 64 << 20
LONGEST_DOCUMENT = 64 << 20
_BLOCK = 1 << 20
_FILLED = re.compile(rb"(?m)^[ \t\r\f\v]*[^\s][^\n]*\n?")
_MARK = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff")
_PACKED = {b"\x28\xb5\x2f\xfd": "zstd -dc", b"\xfd7zX": "xz -dc", b"BZh": "bzip2 -dc"}
_NO_TEXT = {b"PAR1": "Parquet", b"SQLite format 3": "a SQLite database", b"ARROW1": "Arrow", b"%PDF": "PDF"}
_ZIP = b"PK\x03\x04"
_TAR = (257, b"ustar")
"""Where an archive of tar says what it is."""
_ATTEMPTS = 1000

Line = tuple[int, bytes]
"""A line with its number, which counts from 1."""


def numbered(source: Iterable[bytes] | IO[bytes]) -> Iterator[Line]:
    """Yield the lines that are not blank, with their numbers."""
    read: Callable[[int], bytes] | None = getattr(source, "read", None)
    if read is not None:
        yield from _from_blocks(read)
        return
    for number, line in enumerate(cast("Iterable[bytes]", source), start=1):
        if number == 1:
            _refuse_foreign(line)
        if len(line) > LONGEST_LINE:
            raise _too_long(number)
        if not line.isspace():
            yield number, line.removeprefix(_MARK) if number == 1 else line


def _from_blocks(read: Callable[[int], bytes]) -> Iterator[Line]:
    number, parts, size = 1, cast("list[bytes]", []), 0
    is_first = True
    while block := read(_BLOCK):
        if is_first:
            _refuse_foreign(block)
            block, is_first = block.removeprefix(_MARK), False
        if not parts and block.isspace() and block.endswith(b"\n"):
            number += block.count(b"\n")
            continue
        size += len(block)
        cut = block.rfind(b"\n") + 1
        parts.append(block[:cut] if cut else block)
        if cut:
            lines = _split(b"".join(parts), number)
            while True:
                try:
                    yield next(lines)
                except StopIteration as done:
                    number = cast("int", done.value)
                    break
            tail = block[cut:]
            parts, size = [tail] if tail else [], len(tail)
        if size > LONGEST_LINE:
            raise _too_long(number)
    last = b"".join(parts)
    if last and not last.isspace():
        yield number, last


def _split(text: bytes, number: int) -> Any:
    """Yield the filled lines of a text that ends with one; returns the number of the line after it."""
    place = 0
    while end := text.find(b"\n", place) + 1:
        line = text[place:end]
        if not line.isspace():
            yield number, line
            number, place = number + 1, end
            continue
        # There may be a million of them in a row.
        filled = _FILLED.search(text, place)
        place, passed = len(text) if filled is None else filled.start(), place
        number += text.count(b"\n", passed, place)
    return number


def _refuse_foreign(beginning: bytes) -> None:
    if beginning.startswith(_OTHER_ENCODINGS):
        raise InvalidInput("the file is UTF-16; traces are read as UTF-8", field="file", fix="iconv -f UTF-16 -t UTF-8")
    for mark, command in _PACKED.items():
        if beginning.startswith(mark):
            raise InvalidInput(
                "the file is compressed with something else than gzip",
                field="file",
                fix=f"{command} FILE | twinraven import - (or backtest -)",
            )
    _refuse_archives(beginning)


def _refuse_archives(beginning: bytes) -> None:
    for mark, name in _NO_TEXT.items():
        if beginning.startswith(mark):
            raise InvalidInput(f"the file is {name}; traces are JSON", field="file", fix="export it as JSON Lines")
    place, mark = _TAR
    if beginning.startswith(_ZIP) or beginning[place : place + len(mark)] == mark:
        raise InvalidInput(
            "the file is an archive of files", field="file", fix="unpack it, and name the folder with its files"
        )


def _too_long(number: int) -> InvalidInput:
    return InvalidInput(
        f"line {number} is longer than {LONGEST_LINE >> 20} MB; traces are read line by line",
        field="file",
        fix="write one record a line, such as with jq -c '.[]'",
    )


def whole_documents(lines: Iterable[Line]) -> Iterator[Line]:
    """JSON Lines as they are; documents over many lines as one line each, under the number they begin with.

    Which of the two it is shows on the first line. Where that is broken and the whole is no document either, the file
    is a list of lines after all, and the broken ones will be reported by number.
    """
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        return
    if _is_json(first[1]):
        yield first
        yield from rest
    elif first[1].rstrip() == b"{":
        yield from _printed(first, rest)
    else:
        yield from _one(first, rest)


def _one(first: Line, rest: Iterator[Line]) -> Iterator[Line]:
    """Yield a file that is one document, if it is not too long for that."""
    held, size = [first], len(first[1])
    for line in rest:
        held.append(line)
        size += len(line[1])
        if size > LONGEST_DOCUMENT:
            if first[1].lstrip()[:1] == b"[":
                raise InvalidInput(
                    f"the file is one JSON array of more than {LONGEST_DOCUMENT >> 20} MB",
                    field="file",
                    fix="write one record a line, such as with jq -c '.[]'",
                )
            break
    else:
        whole = b"".join(text for _, text in held)
        if len(held) > 1 and _is_json(whole):
            yield first[0], whole
            return
    yield from held
    yield from rest


def _printed(first: Line, rest: Iterator[Line]) -> Iterator[Line]:
    """Objects printed over many lines, one after another; each ends with a brace at the beginning of a line."""
    held, size, attempts = [first], len(first[1]), 0
    for line in rest:
        held.append(line)
        size += len(line[1])
        if line[1][:1] == b"}" and attempts < _ATTEMPTS:
            text = b"".join(part for _, part in held)
            if _is_json(text):
                yield held[0][0], text
                held, size, attempts = [], 0, 0
            else:
                attempts += 1
        if size > LONGEST_DOCUMENT:
            yield from held
            held, size, attempts = [], 0, 0
    whole = b"".join(part for _, part in held)
    if held and _is_json(whole):
        yield held[0][0], whole
    else:
        yield from held


def _is_json(text: bytes) -> bool:
    try:
        parse_json(text)
    except TwinRavenError:
        return False
    return True
