"""Which step waits for which.

Steps run in their order unless two of them name each other in `parallelizable_with`; then neither waits for the other.
A step never runs beside one whose result it uses, directly or through others: saying so is a contradiction and refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinraven.flow.definition import StepDefinition
from twinraven.flow.fields import invalid


@dataclass(frozen=True, slots=True)
class StepGraph:
    """Per step, by index: whose results it uses, and who must have ended before it starts."""

    needs: tuple[frozenset[int], ...]
    after: tuple[frozenset[int], ...]
    is_sequential: bool
    """Whether every step waits for all before it."""


def build_graph(steps: Sequence[StepDefinition], needs: Sequence[frozenset[int]]) -> StepGraph:
    """The order of steps whose direct needs are known and point backwards."""
    _check_parallel(steps, _with_indirect(needs))
    allowed = [frozenset(step.parallelizable_with) for step in steps]
    after = tuple(
        frozenset(before for before in range(number) if before not in allowed[number] or number not in allowed[before])
        for number in range(len(steps))
    )
    is_sequential = all(len(before) == number for number, before in enumerate(after))
    return StepGraph(tuple(needs), after, is_sequential)


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
