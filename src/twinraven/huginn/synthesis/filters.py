"""Infers filters on the elements of a map: agents read only the files of a folder, or only the open orders.

A condition is one field with one value. It is kept only where elements were left out often enough to tell, and where
it says of nearly every element, taken or not, what the agents did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

from twinraven.foundation.canonical import canonical_json
from twinraven.huginn.instances import Instance
from twinraven.huginn.synthesis.sources import EachOf, ElementFilter, Joined, Path, Source
from twinraven.huginn.synthesis.step_wiring import StepWiring
from twinraven.huginn.synthesis.text_sources import follow
from twinraven.huginn.voting import Votes

LEAST_AGREEMENT = 0.88
"""Share of the instances of whose every element a condition must be right: a record has mistakes."""
LEAST_TELLING = 3
"""Sessions in which some elements were taken and others were not."""
MAX_FIELDS = 12


def filtered(step: StepWiring, number: int, instances: Sequence[Instance], votes: Votes) -> ElementFilter | None:
    """Return the condition that tells the elements agents took from those they left, if there is one."""
    if step.each is None:
        return None
    name, path = _key_of(step)
    if name is None:
        return None
    right: Counter[ElementFilter] = Counter()
    telling: dict[ElementFilter, set[Any]] = {}
    sessions = 0
    for instance in instances:
        items = follow(instance.last(step.each.step).output, step.each.list_path)
        if not isinstance(items, list) or not items:
            continue
        wanted = {canonical_json(call.params.get(name)).decode() for call in instance.calls(number)}
        taken = [(item, _is_taken(item, path, wanted)) for item in cast("list[Any]", items)]
        if sum(was for _, was in taken) < len(wanted):
            # What was asked for and is none of the elements may stand for any of them.
            continue
        sessions += 1
        mixed = not all(was for _, was in taken)
        for where in _conditions(taken):
            agrees = all(_holds(item, where) == was for item, was in taken)
            right[where] += agrees
            if mixed and agrees:
                telling.setdefault(where, set()).add(instance.session)
    good = [
        where
        for where, owners in telling.items()
        if len(owners) >= LEAST_TELLING and right[where] >= LEAST_AGREEMENT * sessions and votes.carries(owners)
    ]
    return min(good, key=lambda where: (len(where.path), repr(where))) if good else None


def _key_of(step: StepWiring) -> tuple[str | None, Path]:
    """Return the argument that tells which element a call was made for."""
    for name, evidence in step.sources.items():
        each = _each(evidence.source)
        if each is not None:
            return name, each.item_path
    return None, ()


def _each(source: Source) -> EachOf | None:
    if isinstance(source, EachOf):
        return source if source.transform is None else None
    if isinstance(source, Joined) and isinstance(source.parts[-1], EachOf):
        return source.parts[-1]
    return None


def _is_taken(item: Any, path: Path, wanted: set[str]) -> bool:
    value = follow(item, path)
    text = canonical_json(value).decode()
    return text in wanted or (isinstance(value, str) and any(other.endswith(f'/{value}"') for other in wanted))


def _conditions(taken: Sequence[tuple[Any, bool]]) -> Iterator[ElementFilter]:
    for item, was in taken:
        if was and isinstance(item, dict):
            for name, value in list(cast("dict[str, Any]", item).items())[:MAX_FIELDS]:
                if isinstance(value, (str, bool)):
                    yield ElementFilter((name,), canonical_json(value).decode())
            return


def _holds(item: Any, where: ElementFilter) -> bool:
    return canonical_json(follow(item, where.path)).decode() == where.text
