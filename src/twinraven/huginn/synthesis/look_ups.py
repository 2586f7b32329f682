"""Finds arguments that agents look up by name: the caller says "water bottle", an answer holds its id.

Every place where the value stands under a key of an object, or beside a name in an element of a list, is a candidate,
also in what a reader makes of a text: the rows of a table, the fields of a record.
The name becomes a parameter of the tool, if callers mostly could have said it when the chain began; where they could
not, the tool does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from twinraven.foundation.canonical import canonical_json
from twinraven.huginn.knowledge import SessionKnowledge
from twinraven.huginn.synthesis.mapping_text import is_plain
from twinraven.huginn.synthesis.sources import MISSING, LookUp, Path, Source
from twinraven.huginn.synthesis.text_sources import follow, read_paths
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.traces import RecordedCall

MAX_FIELDS = 12
_LEAST_NAME = 3


def look_ups(
    value: str, earlier: Sequence[RecordedCall], index: TraceIndex, knowledge: SessionKnowledge, before: int
) -> dict[Source, bool]:
    """Return every look-up in an earlier output that gives this value, and whether its name was known."""
    found: dict[Source, bool] = {}
    if value == MISSING:
        return found
    for number, call in enumerate(earlier):
        for path in (*index.sample(call).output_paths.get(value, ()), *read_paths(call, index).get(value, ())):
            for source, name in _candidates(number, path, call.output):
                if len(name) >= _LEAST_NAME:
                    found[source] = found.get(source, False) or knowledge.mentions(name, before)
    return found


def looked_up_name(source: LookUp, output: Any, value: Any) -> str | None:
    """Return the name under which an output holds a value."""
    whole, wanted = follow(output, source.path), canonical_json(value)
    if isinstance(whole, dict) and not source.by:
        members = cast("dict[str, Any]", whole)
        return next((name for name, member in members.items() if canonical_json(member) == wanted), None)
    if isinstance(whole, list):
        for item in cast("list[Any]", whole):
            name = follow(item, source.by)
            if isinstance(name, str) and canonical_json(follow(item, source.item_path)) == wanted:
                return name
    return None


def _candidates(step: int, path: Path, output: Any) -> Iterator[tuple[LookUp, str]]:
    last = path[-1] if path else None
    if isinstance(last, str) and not any(isinstance(segment, int) for segment in path):
        yield LookUp(step, path[:-1]), last
    for place, segment in enumerate(path):
        if isinstance(segment, int) and is_plain(path[place + 1 :]):
            item = follow(output, path[: place + 1])
            if isinstance(item, dict):
                for name, member in list(cast("dict[str, Any]", item).items())[:MAX_FIELDS]:
                    if isinstance(member, str) and (name,) != path[place + 1 :]:
                        yield LookUp(step, path[:place], (name,), path[place + 1 :]), member
