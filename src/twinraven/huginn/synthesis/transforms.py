"""Infers sources that need a transform: a type conversion, surrounding text, a part of a value, two values joined.

Tried only where no plain path and no reading explains the samples. Every change is total and can be written into a
definition, so replay judges it like everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from twinraven.huginn.synthesis.sources import (
    MISSING,
    EachOf,
    FromStep,
    Joined,
    Path,
    Source,
    StepSample,
    Transform,
    elements,
)
from twinraven.huginn.synthesis.text_sources import read_paths
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.traces import RecordedCall

_LEAST_TEXT = 3
_SEPARATORS = ("/", ":", "-", "_", "@", ".", "#", " ", ",")
_CANDIDATES = 400
_MOST_WORDS = 8

FromInput = tuple[str, FromStep]
"""Text that the caller gave, and where it stands."""


def changed(value: str, earlier: Sequence[RecordedCall], index: TraceIndex, *, mapped: bool) -> Sequence[Source]:
    """Return every change of something earlier that would have given this value."""
    if value == MISSING:
        return []
    wanted: Any = orjson.loads(value)
    if isinstance(wanted, bool) or not isinstance(wanted, (str, int, float)):
        return []
    sample = index.sample(earlier[0])
    inputs = _from_inputs(sample)
    found: list[Source] = []
    for number, call in enumerate(earlier):
        for seen, paths in _leaves(call, index):
            for change in _changes(seen, value, wanted):
                for path in paths:
                    found.extend(_applied(change, number, path, inputs, mapped=mapped))
    found.extend(_changed_inputs(value, wanted, sample))
    return found


def _leaves(call: RecordedCall, index: TraceIndex) -> Iterator[tuple[str, tuple[Path, ...]]]:
    yield from list(index.sample(call).output_paths.items())[:_CANDIDATES]
    yield from list(read_paths(call, index).items())[:_CANDIDATES]


def _applied(
    change: Transform, step: int, path: Path, inputs: Sequence[FromInput], *, mapped: bool
) -> Iterator[Source]:
    """Yield the transform at a place of an output: as it is, after an argument of the caller, per element."""
    plain = FromStep(step, "output", path)
    yield replace(plain, transform=change)
    heads = list(_heads(change, inputs))
    for head in heads:
        yield Joined((*head, plain, *((change.after,) if change.after else ())))
    if not mapped:
        return
    for each in elements(step, path):
        if change.kind == "affix":
            around = ((change.before,) if change.before else (), *heads)
            for head in around:
                yield Joined((*head, each, *((change.after,) if change.after else ())))
        else:
            yield replace(each, transform=change)


def _heads(change: Transform, inputs: Sequence[FromInput]) -> Iterator[tuple[str | FromStep | EachOf, ...]]:
    """Return what stands in front of a value, with an argument of the caller (or a word of it) in it."""
    if change.kind != "affix" or not change.before:
        return
    for text, source in inputs:
        if len(text) >= _LEAST_TEXT and text in change.before:
            before, _, rest = change.before.partition(text)
            yield (*((before,) if before else ()), source, *((rest,) if rest else ()))


def _changed_inputs(value: str, wanted: object, sample: StepSample) -> Iterator[Source]:
    """Yield the caller's own argument inside a longer one, or a part of it."""
    for text, path in _input_texts(sample):
        for change in _changes(orjson.dumps(text).decode(), value, wanted):
            yield FromStep(0, "input", path, change)


def _from_inputs(sample: StepSample) -> list[FromInput]:
    """Return the caller's arguments, and the words of those that are commands or sentences."""
    found: list[FromInput] = []
    for text, path in _input_texts(sample):
        found.append((text, FromStep(0, "input", path)))
        words = text.split(" ")
        if 1 < len(words) <= _MOST_WORDS:
            for place, word in enumerate(words):
                index = place - len(words) if place == len(words) - 1 else place
                found.append((word, FromStep(0, "input", path, Transform("part", before=" ", index=index))))
    return found


def _input_texts(sample: StepSample) -> list[tuple[str, Path]]:
    return [
        (orjson.loads(text), path)
        for text, paths in sample.input_paths.items()
        if text.startswith('"') and len(text) > 2
        for path in paths
    ]


def _changes(seen: str, text: str, wanted: object) -> Iterator[Transform]:
    if seen[:1] in "[{":
        return
    given: str = orjson.loads(seen) if seen.startswith('"') else seen
    if isinstance(wanted, int) and seen.startswith('"') and given == text:
        yield Transform("integer")
    if isinstance(wanted, str):
        if given == wanted and not seen.startswith('"'):
            yield Transform("string")
        yield from _text_changes(given, wanted)


def _text_changes(given: str, wanted: str) -> Iterator[Transform]:
    if 0 < len(given) < len(wanted) and given in wanted:
        before, _, after = wanted.partition(given)
        if len(given) >= _LEAST_TEXT or (_is_edge(before[-1:]) and _is_edge(after[:1])):
            yield Transform("affix", before=before, after=after)
    # A text of several lines is taken apart by its readers: where in it a piece stands depends on all that is before.
    if len(wanted) >= _LEAST_TEXT and len(given) > len(wanted) and wanted in given and "\n" not in given:
        for separator in _SEPARATORS:
            parts = given.split(separator)
            if wanted in parts:
                place = parts.index(wanted)
                index = place - len(parts) if place == len(parts) - 1 else place
                yield Transform("part", before=separator, index=index)
                return
        yield from _several_parts(given, wanted)


def _several_parts(given: str, wanted: str) -> Iterator[Transform]:
    """Yield the first or the last pieces of a text, as many as were wanted: `14:30` of `14:30:00`."""
    for separator in _SEPARATORS:
        count = wanted.count(separator) + 1
        if count > 1 and given.startswith(wanted + separator):
            yield Transform("part", before=separator, index=0, count=count)
        if count > 1 and given.endswith(separator + wanted):
            yield Transform("part", before=separator, index=-count, count=count)


def _is_edge(character: str) -> bool:
    return not character.isalnum()
