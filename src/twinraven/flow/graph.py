"""Builds the step graph: which step waits for which.

Steps run in their order unless two of them name each other in `parallelizable_with`; then neither waits for the other.
A step with `after` waits for the steps named there and for those whose results it uses, and for no other. A step never
runs beside one whose result it uses, directly or through others: saying so is a contradiction and refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinraven.flow.definition import StepDefinition
from twinraven.flow.fields import invalid


@dataclass(slots=True)
class StepGraph:
    """Per step, by index: which steps have to end right before it starts, and which ones wait for it."""

    before: tuple[tuple[int, ...], ...]
    """Those that these waited for themselves are not among them."""
    blockers: tuple[int, ...]
    """How many stand in `before`."""
    unlocks: tuple[tuple[int, ...], ...]
    """The steps that have this one in `before`."""
    first: tuple[int, ...]
    """The steps that wait for none."""


def build_graph(steps: Sequence[StepDefinition], needs: Sequence[frozenset[int]], ids: Mapping[str, int]) -> StepGraph:
    """Return the order of steps whose direct needs are known and point backwards; `ids` gives their indices."""
    if any(step.parallelizable_with for step in steps):
        _check_parallel(steps, _closed([_bits(each) for each in needs])[1])
    allowed = [_bits(step.parallelizable_with) for step in steps]
    waits = [
        _in_order(number, allowed) if step.after is None else _bits(_named(step, number, ids) | needs[number])
        for number, step in enumerate(steps)
    ]
    before = _closed(waits)[0]
    unlocks: list[list[int]] = [[] for _ in steps]
    for number, direct in enumerate(before):
        for earlier in direct:
            unlocks[earlier].append(number)
    first = tuple(number for number, direct in enumerate(before) if not direct)
    return StepGraph(tuple(before), tuple(map(len, before)), tuple(map(tuple, unlocks)), first)


def _in_order(number: int, allowed: Sequence[int]) -> int:
    """Return all earlier steps but those that this one and they themselves let run beside each other."""
    waits = (1 << number) - 1
    for other in _bit_numbers(allowed[number] & waits):
        if allowed[other] >> number & 1:
            waits ^= 1 << other
    return waits


def _named(step: StepDefinition, number: int, ids: Mapping[str, int]) -> frozenset[int]:
    where = f"steps[{number}].after"
    for name in step.after or ():
        if ids.get(name, number) >= number:
            raise invalid(where, f"{name[:80]!r} is not the id of an earlier step", step_index=number)
    return frozenset(ids[name] for name in step.after or ())


def _closed(waits: Sequence[int]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return each step's direct predecessors, and all that it waits for through others; sets are bits of an integer.

    The latest of the steps that one waits for is direct, because nothing earlier waits for it; what it waits for itself
    is not. So a step is looked at once for each of its direct predecessors, however many steps come before it.
    """
    direct: list[tuple[int, ...]] = []
    reached: list[int] = []
    for waiting in waits:
        found: list[int] = []
        left = all_of = waiting
        while left:
            latest = left.bit_length() - 1
            found.append(latest)
            all_of |= reached[latest]
            left &= ~(reached[latest] | 1 << latest)
        direct.append(tuple(reversed(found)))
        reached.append(all_of)
    return direct, reached


def _bits(members: Iterable[int]) -> int:
    bits = 0
    for member in members:
        bits |= 1 << member
    return bits


def _bit_numbers(bits: int) -> Iterator[int]:
    while bits:
        yield bits.bit_length() - 1
        bits ^= 1 << bits.bit_length() - 1


def _check_parallel(steps: Sequence[StepDefinition], reached: Sequence[int]) -> None:
    for number, step in enumerate(steps):
        where = f"steps[{number}].parallelizable_with"
        for other in step.parallelizable_with:
            if other == number:
                raise invalid(where, "a step cannot run beside itself", step_index=number)
            if not 0 <= other < len(steps):
                raise invalid(where, f"there is no step {other}", step_index=number)
            if (reached[number] >> other | reached[other] >> number) & 1:
                first, second = sorted((number, other))
                problem = f"step {second} uses what step {first} gives, so the two cannot run at once"
                raise invalid(where, problem, step_index=number)
