"""Reads the fields that exported runs, observations and traces have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.clock import parse_iso, to_micros
from twinraven.foundation.errors import InvalidInput

Record = dict[str, Any]


def records_in(line: bytes, *names: str) -> Iterator[Record]:
    """Yield the records of a line: the object itself, the items of an array, or those of one of the lists it has."""
    yield from records_of(parse_json(line, field="the line"), *names)


def records_of(found: Any, *names: str) -> Iterator[Record]:
    """Yield the same of a line that is parsed already."""
    if isinstance(found, dict):
        members = cast("Record", found)
        inner = next((members[name] for name in names if isinstance(members.get(name), list)), None)
        found = [members] if inner is None else inner
    if not isinstance(found, list):
        raise InvalidInput("the line is neither an object nor an array", field="line")
    for item in cast("list[Any]", found):
        if not isinstance(item, dict):
            raise InvalidInput("an item of the line is not an object", field="line")
        yield cast("Record", item)


def first_record(value: Any, *names: str) -> Record | None:
    """Return the first record of a value, by which its format is recognised."""
    if isinstance(value, dict):
        members = cast("Record", value)
        inner = next((members[name] for name in names if isinstance(members.get(name), list)), None)
        if inner is None:
            return members
        value = inner
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return cast("Record", value[0])
    return None


def micros_of(record: Record, *names: str) -> int | None:
    """Return a time under one of its names, as ISO text; None where it is not stated."""
    for name in names:
        stated = record.get(name)
        if isinstance(stated, str) and stated:
            text = stated if stated[-1] == "Z" or "+" in stated[10:] or "-" in stated[10:] else f"{stated}Z"
            return to_micros(parse_iso(text.replace(" ", "T", 1)))
    return None


def text_of(record: Record, *names: str) -> str | None:
    """Return a text or number under one of its names."""
    for name in names:
        stated = record.get(name)
        if isinstance(stated, (str, int)) and not isinstance(stated, bool) and stated != "":
            return str(stated)
    return None
