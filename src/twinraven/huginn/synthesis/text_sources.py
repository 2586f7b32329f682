"""Infers sources inside texts: JSON in a content block, lines, fields, tables, links and shapes.

A tool that answers in text answers in data all the same. Every text of an output is read by the readers that apply to
it, and what they give is searched like any other value; short texts inside it are read once more. Which reader is
right is decided by evidence over sessions, like every other source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

from twinraven.foundation.text_readers import read_text, readings
from twinraven.huginn.instances import Instance
from twinraven.huginn.synthesis.sources import (
    MAX_LEAVES,
    AllOf,
    EachOf,
    FirstWhere,
    FromStep,
    Joined,
    LookUp,
    Path,
    Read,
    Source,
    SourceEvidence,
    elements,
    index_values,
)
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.traces import RecordedCall

MAX_TEXTS = 60
MAX_TEXT_CHARS = 200_000
_LEAST_CHARS = 4
_SHORT_CHARS = 400


def read_paths(call: RecordedCall, index: TraceIndex) -> dict[str, tuple[Path, ...]]:
    """Index the paths of each value in what readers parse from a call's output, by its canonical text."""
    found = index.readings.get(call)
    if found is None:
        found = index.readings[call] = _read_all(call.output, index.sample(call).output_paths)
    return found


def read_explanations(
    value: str, earlier: Sequence[RecordedCall], index: TraceIndex, *, mapped: bool
) -> Sequence[Source]:
    """Read every reading of an earlier output that would have given this value."""
    found: list[Source] = []
    for number, call in enumerate(earlier):
        for path in read_paths(call, index).get(value, ()):
            found.append(FromStep(number, "output", path))
            if mapped:
                found.extend(elements(number, path))
    return found


def follow(value: Any, path: Path) -> Any:
    """Return the value at a path, through readers; None where there is none."""
    for segment in path:
        if isinstance(segment, Read):
            value = read_text(segment.kind, value) if isinstance(value, str) else None
        elif isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(str(segment))
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            value = items[segment] if isinstance(segment, int) and 0 <= segment < len(items) else None
        else:
            return None
    return value


def same_origin(evidence: Iterable[SourceEvidence], samples: Sequence[tuple[Instance, RecordedCall]]) -> str | None:
    """Why a step must not be wired: it would open an address on a host that an answer named and the caller did not."""
    if not any(_from_output(item.source) for item in evidence):
        return None
    for instance, call in samples:
        opened = [
            (name, host) for name, value in call.params.items() for text in _texts(value) for host in _hosts(text)
        ]
        if not opened:
            continue
        known = {host for text in _said(instance) for host in _hosts(text)}
        for name, host in opened:
            if host not in known:
                return f"opens {name} at {host}, which an answer named and the caller did not"
    return None


def _from_output(source: Source) -> bool:
    if isinstance(source, FromStep):
        return source.part == "output"
    if isinstance(source, Joined):
        return any(_from_output(part) for part in source.parts if not isinstance(part, str))
    return isinstance(source, (EachOf, FirstWhere, AllOf, LookUp))


def _said(instance: Instance) -> Iterator[str]:
    """Return what the caller gave to the chain's first call, and what was said before it."""
    calls = instance.session.calls
    yield from _texts(calls[instance.start].params)
    for call in calls[: instance.start + 1]:
        if call.outside_input:
            yield call.outside_input


def _hosts(text: str) -> Iterator[str]:
    for scheme in ("http://", "https://"):
        place = text.find(scheme)
        while place >= 0:
            try:
                host = urlsplit(text[place : place + 400].split(maxsplit=1)[0]).hostname
            except ValueError:
                host = None
            if host:
                yield host
            place = text.find(scheme, place + 1)


def _texts(value: Any) -> Iterator[str]:
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list):
            pending.extend(cast("list[Any]", item))


def _read_all(output: Any, values: dict[str, tuple[Path, ...]]) -> dict[str, tuple[Path, ...]]:
    """Readings of the texts of an output, given its indexed values, and of the short texts in those."""
    found: dict[str, list[Path]] = {}
    count = 0
    texts = list(_text_leaves({_quoted(output): ((),)} if isinstance(output, str) else values))
    for text, path in texts[:MAX_TEXTS]:
        for kind, reading in _structures(text):
            inner = index_values(reading, path=(*path, Read(kind)))
            pairs = list(_flat(inner))
            if kind in _NESTED:
                for short, place in list(_text_leaves(inner))[:MAX_TEXTS]:
                    if len(short) <= _SHORT_CHARS:
                        for again, deeper in _structures(short):
                            pairs.extend(_flat(index_values(deeper, path=(*place, Read(again)))))
            for value, place in pairs:
                count += 1
                if count <= MAX_LEAVES * 4:
                    found.setdefault(value, []).append(place)
    return {value: tuple(dict.fromkeys(paths)) for value, paths in found.items()}


def _structures(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the readings of a text that take it apart; another spelling of one value is a cast."""
    for kind, reading in readings(text):
        if isinstance(reading, (dict, list)):
            yield kind, cast("Any", reading)


_NESTED = frozenset({"json", "repr", "yaml", "fields", "records", "table", "tagged", "bullets", "lines", "links"})


def _flat(index: dict[str, tuple[Path, ...]]) -> Iterator[tuple[str, Path]]:
    return ((value, path) for value, paths in index.items() for path in paths)


def _text_leaves(index: dict[str, tuple[Path, ...]]) -> Iterator[tuple[str, Path]]:
    for value, paths in index.items():
        if value.startswith('"') and _LEAST_CHARS + 2 <= len(value) <= MAX_TEXT_CHARS:
            text: str = orjson.loads(value)
            for path in paths:
                yield text, path


def _quoted(text: str) -> str:
    return orjson.dumps(text, option=orjson.OPT_PASSTHROUGH_SUBCLASS).decode()
