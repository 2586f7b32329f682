"""Builds the step graph: which step waits for which.

Steps run in their order unless two of them name each other in `parallelizable_with`; then neither waits for the other.
A step with `after` waits for the steps named there and for those whose results it uses, and for no other. A step never
runs beside one whose result it uses, directly or through others: saying so is a contradiction and refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from twinraven.flow.definition import StepDefinition
from twinraven.flow.fields import invalid


class StepGraph(NamedTuple):
    """Per step, by index: whose results it uses, and who must have ended before it starts."""

    needs: tuple[frozenset[int], ...]
    after: tuple[frozenset[int], ...]
    blockers: tuple[int, ...]
    """How many steps have to end right before it; those that these waited for are not counted again."""
    unlocks: tuple[tuple[int, ...], ...]
    """The steps that count this one among their blockers."""


def build_graph(steps: Sequence[StepDefinition], needs: Sequence[frozenset[int]], ids: Mapping[str, int]) -> StepGraph:
    """The order of steps whose direct needs are known and point backwards; `ids` gives their indices."""
    _check_parallel(steps, _with_indirect(needs))
    allowed = [frozenset(step.parallelizable_with) for step in steps]
    after = tuple(
        frozenset(before for before in range(number) if before not in allowed[number] or number not in allowed[before])
        if step.after is None
        else _named(step, number, ids) | needs[number]
        for number, step in enumerate(steps)
    )
    reached = _with_indirect(after)
    direct = [waits.difference(*(reached[number] for number in waits)) for waits in after]
    unlocks: list[list[int]] = [[] for _ in steps]
    for number, waits in enumerate(direct):
        for before in waits:
            unlocks[before].append(number)
    return StepGraph(tuple(needs), after, tuple(map(len, direct)), tuple(map(tuple, unlocks)))


def _named(step: StepDefinition, number: int, ids: Mapping[str, int]) -> frozenset[int]:
    where = f"steps[{number}].after"
    for name in step.after or ():
        if ids.get(name, number) >= number:
            raise invalid(where, f"{name[:80]!r} is not the id of an earlier step", step_index=number)
    return frozenset(ids[name] for name in step.after or ())


def _with_indirect(needs: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Each step's needs and the needs of those."""
    reached: list[frozenset[int]] = []
    for direct in needs:
        reached.append(direct.union(*(reached[number] for number in direct)))
    return reached


def _check_parallel(steps: Sequence[StepDefinition], reached: Sequence[frozenset[int]]) -> None:
    for number, step in enumerate(steps):
        where = f"steps[{number}].parallelizable_with"
        for other in step.parallelizable_with:
            if other == number:
                raise invalid(where, "a step cannot run beside itself", step_index=number)
            if not 0 <= other < len(steps):
                raise invalid(where, f"there is no step {other}", step_index=number)
            if other in reached[number] or number in reached[other]:
                first, second = sorted((number, other))
                problem = f"step {second} uses what step {first} gives, so the two cannot run at once"
                raise invalid(where, problem, step_index=number)
