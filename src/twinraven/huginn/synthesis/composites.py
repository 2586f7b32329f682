"""Wires arguments that are chosen out of lists or made of them: the first element that fulfils a condition, every
element, or members one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import orjson

from twinraven.foundation.canonical import canonical_json
from twinraven.huginn.synthesis.sources import (
    MISSING,
    AllOf,
    Assembled,
    Constant,
    Default,
    EachOf,
    ElementFilter,
    FirstWhere,
    FromStep,
    Joined,
    Path,
    Read,
    Samples,
    Source,
    SourceEvidence,
    elements,
)
from twinraven.huginn.synthesis.text_sources import follow, read_paths
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.synthesis.transforms import changed
from twinraven.huginn.traces import RecordedCall

MAX_MEMBERS = 12


def listed(value: str, earlier: Sequence[RecordedCall], index: TraceIndex, *, mapped: bool) -> Sequence[Source]:
    """Lists in earlier outputs whose elements, all or those of one kind, make up this list."""
    del mapped
    wanted: Any = None if value == MISSING else orjson.loads(value)
    if not isinstance(wanted, list) or not wanted:
        return []
    items = cast("list[Any]", wanted)
    if not all(isinstance(item, (str, int)) for item in items):
        return []
    texts = {canonical_json(item).decode() for item in items}
    found: dict[Source, None] = {}
    for each in _candidates(canonical_json(items[0]).decode(), earlier, index):
        for source in _whole_lists(each, texts, earlier):
            found[source] = None
    return list(found)


def first_where(value: str, earlier: Sequence[RecordedCall], index: TraceIndex, *, mapped: bool) -> Sequence[Source]:
    """Conditions on lists in earlier outputs, each such that the first element that fulfils it holds this value."""
    del mapped
    found: dict[Source, None] = {}
    for number, call in enumerate(earlier):
        paths = (*index.sample(call).output_paths.get(value, ()), *read_paths(call, index).get(value, ()))
        for each in (each for path in paths for each in elements(number, path)):
            if any(isinstance(segment, Read) for segment in each.item_path):
                continue
            items = follow(call.output, each.list_path)
            for where in _conditions_of_first(cast("list[Any]", items) if isinstance(items, list) else [], each, value):
                found[FirstWhere(number, each.list_path, each.item_path, where)] = None
    return list(found)


def _conditions_of_first(items: Sequence[Any], each: EachOf, value: str) -> Iterator[ElementFilter]:
    place = next((place for place, item in enumerate(items) if _text_at(item, each.item_path) == value), None)
    if place is None:
        return
    for path, text in _conditions(items[place]):
        if path != each.item_path and not any(_text_at(item, path) == text for item in items[:place]):
            yield ElementFilter(path, text)


def assembled(argument: Samples, explain: Callable[[Samples], SourceEvidence | None]) -> SourceEvidence | None:
    """Return the members of a list or an object, each with its own source; at least one is no constant."""
    values: list[Any] = [None if value == MISSING else orjson.loads(value) for value in argument.values]
    keys = _shared_keys(values)
    if keys is None:
        return None
    members: list[tuple[str | int, Source]] = []
    found: list[SourceEvidence] = []
    for key in keys:
        inner = [canonical_json(value[key]).decode() for value in values]
        evidence = explain(replace(argument, name=str(key), values=inner))
        if evidence is None:
            return None
        fixed = isinstance(evidence.source, Default)
        members.append(
            (key, Constant(evidence.source.text) if isinstance(evidence.source, Default) else evidence.source)
        )
        if not fixed:
            found.append(evidence)
    if not found:
        return None
    weakest = min(found, key=lambda evidence: evidence.explained)
    source = Assembled(tuple(members), isinstance(values[0], list))
    return replace(weakest, source=source, rivals=(), distinct=len(set(argument.values)))


def _shared_keys(values: Sequence[Any]) -> list[str] | list[int] | None:
    if all(isinstance(value, list) for value in values):
        lengths = {len(value) for value in values}
        return list(range(lengths.pop())) if len(lengths) == 1 and max(lengths | {0}, default=0) + 1 > 0 else None
    if all(isinstance(value, dict) for value in values):
        names = {tuple(sorted(cast("dict[str, Any]", value))) for value in values}
        return list(names.pop()) if len(names) == 1 else None
    return None


def _candidates(first: str, earlier: Sequence[RecordedCall], index: TraceIndex) -> Iterator[EachOf | Joined]:
    """Lists that hold the first wanted element, as it is or with something in front."""
    for number, call in enumerate(earlier):
        paths: tuple[Path, ...] = (
            *index.sample(call).output_paths.get(first, ()),
            *read_paths(call, index).get(first, ()),
        )
        for path in paths:
            yield from elements(number, path)
    if first.startswith('"'):
        for source in changed(first, earlier, index, mapped=True):
            if isinstance(source, Joined) and isinstance(source.parts[-1], EachOf):
                yield source


def _whole_lists(candidate: EachOf | Joined, texts: set[str], earlier: Sequence[RecordedCall]) -> Iterator[AllOf]:
    each, before = _taken_apart(candidate)
    if each is None or each.transform is not None:
        return
    items = follow(earlier[each.step].output, each.list_path)
    if not isinstance(items, list):
        return
    prefix = "".join(part if isinstance(part, str) else _input_text(part, earlier) for part in before)
    made = [
        (item, _made(follow(item, each.item_path), prefix, joined=bool(before))) for item in cast("list[Any]", items)
    ]
    whole = AllOf(each.step, each.list_path, each.item_path, before)
    if {text for _, text in made} == texts:
        yield whole
    for path, value in _conditions(next((item for item, text in made if text in texts), None)):
        if {text for item, text in made if _text_at(item, path) == value} == texts:
            yield replace(whole, where=ElementFilter(path, value))


def _taken_apart(candidate: EachOf | Joined) -> tuple[EachOf | None, tuple[str | FromStep, ...]]:
    if isinstance(candidate, EachOf):
        return candidate, ()
    last = candidate.parts[-1]
    before = tuple(part for part in candidate.parts[:-1] if not isinstance(part, EachOf))
    return (last if isinstance(last, EachOf) else None), before


def _input_text(source: FromStep, earlier: Sequence[RecordedCall]) -> str:
    value = follow(earlier[0].params, source.path)
    return value if isinstance(value, str) else ""


def _made(value: Any, prefix: str, *, joined: bool) -> str:
    if not joined:
        return canonical_json(value).decode()
    return canonical_json(prefix + value).decode() if isinstance(value, str) else ""


def _conditions(item: Any) -> Iterator[tuple[Path, str]]:
    """Yield the plain fields of an element, as conditions on its list."""
    if isinstance(item, dict):
        members = list(cast("dict[str, Any]", item).items())[:MAX_MEMBERS]
        for name, value in members:
            if isinstance(value, (str, bool)):
                yield (name,), canonical_json(value).decode()


def _text_at(item: Any, path: Path) -> str:
    return canonical_json(follow(item, path)).decode()
