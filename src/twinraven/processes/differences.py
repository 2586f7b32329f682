"""Compares two versions of a process, field by field; steps are matched by their id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.predicates import json_equal
from twinraven.processes.model import Process


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two versions differ; None where one has nothing there."""

    place: str
    before: Any
    after: Any

    def as_json(self) -> JsonObject:
        return {"place": self.place, "before": self.before, "after": self.after}


def differences(before: Process, after: Process) -> tuple[Difference, ...]:
    """Compare two versions; a changed order of steps is named as such."""
    one, other = before.as_json(), after.as_json()
    order = [[step.id for step in process.steps] for process in (before, after)]
    steps = [{step.id: step.as_json() for step in process.steps} for process in (before, after)]
    found = list(_compare("", {**one, "steps": steps[0]}, {**other, "steps": steps[1]}))
    if order[0] != order[1]:
        found.append(Difference("steps", order[0], order[1]))
    return tuple(found)


def _compare(place: str, one: Any, other: Any) -> Iterator[Difference]:
    if isinstance(one, dict) and isinstance(other, dict):
        members, others = cast("JsonObject", one), cast("JsonObject", other)
        for name in dict.fromkeys((*members, *others)):
            yield from _compare(f"{place}.{name}".removeprefix("."), members.get(name), others.get(name))
    elif not json_equal(one, other):
        yield Difference(place, one, other)
