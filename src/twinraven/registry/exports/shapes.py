"""Which definitions read as plain lines, and what a failure means in each of their steps.

Nearly every definition does, and all that are learned from history: calls one after another or side by side, a list
gone through at the end, failures that end it or are passed over. What is left needs to watch itself while it runs:
fallbacks, branches beside other steps, writes beside other steps, conditions to stop at that ask for more than whether
an answer is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from twinraven.flow import FlowPlan, PlannedStep
from twinraven.foundation.references import Reference, parse_reference

Writes = Callable[[str], bool]
Rounds = tuple[tuple[int, ...], ...]

_ANSWER_MISSING: Final = re.compile(r"\s*\$\.steps\[(\d+)\]\.output\s*==\s*null\s*")


@dataclass(frozen=True, slots=True)
class PlainShape:
    """How a definition reads as lines."""

    rounds: Rounds
    """The steps in their order; those of one round run side by side."""
    skippable: dict[int, tuple[int, ...]]
    """The steps whose failure is passed over, unless one of these earlier steps gave no answer."""
    beside: dict[int, tuple[int, ...]]
    """The same, by the steps that run beside it, which are asked when all of them have ended."""


def plain_shape(plan: FlowPlan, writes: Writes) -> PlainShape | None:
    """The shape of a definition, or None if lines cannot say what it does."""
    rounds = tuple(_rounds(plan))
    missing = [_ANSWER_MISSING.fullmatch(abort.predicate.text) for abort in plan.aborts]
    needed = {int(found[1]) for found in missing if found}
    skippable = [number for number, step in enumerate(plan.steps) if step.skips and not _must_answer(step, needed)]
    if skippable and (not all(missing) or any(plan.steps[number].for_each for number in needed)):
        return None
    if any(step.fallback for step in plan.steps) or _asks_more_than_outputs(plan):
        return None
    if not all(len(each) == 1 or _can_overlap(plan, each, writes) for each in rounds):
        return None
    before = {number: _watched(plan, number, needed, rounds) for number in skippable}
    beside = {number: _beside(number, needed, rounds) for number in skippable}
    # Beside other steps, only one failure can be told from the others.
    has_one = len(skippable) == 1 or all(len(each) == 1 or not set(each) & set(skippable) for each in rounds)
    return (
        PlainShape(rounds, before, {number: others for number, others in beside.items() if others}) if has_one else None
    )


def references(plan: FlowPlan) -> Iterator[Reference]:
    """Everything that a definition refers to."""
    for step in plan.steps:
        for each in (step, *step.fallback):
            yield from each.inputs.references
            yield from each.condition.references if each.condition else ()
            if each.for_each is not None:
                yield each.for_each
    for wired in plan.wiring:
        yield from wired.value.references
    for abort in plan.aborts:
        # Where any failure ends the function, a reason to abort adds nothing but words.
        yield from (each for each in abort.predicate.references if each.segments[0] == "parameters")
    if plan.output is not None:
        yield from plan.output.references


def _rounds(plan: FlowPlan) -> Iterator[tuple[int, ...]]:
    """A step joins those just before it, if it waits for none of them."""
    current: list[int] = []
    for number, after in enumerate(plan.graph.after):
        if current and not after.isdisjoint(current):
            yield tuple(current)
            current = []
        current.append(number)
    yield tuple(current)


def _must_answer(step: PlannedStep, needed: set[int]) -> bool:
    """Whether going on without it is ended at once by a condition that asks for its answer."""
    return step.for_each is None and step.definition.step_index in needed


def _asks_more_than_outputs(plan: FlowPlan) -> bool:
    return any(each.segments[0] == "steps" and each.segments[2] != "output" for each in references(plan))


def _can_overlap(plan: FlowPlan, numbers: tuple[int, ...], writes: Writes) -> bool:
    """Reads without conditions can: whatever stops the function, they may be cancelled."""
    return not any(plan.steps[number].condition or writes(plan.steps[number].tool_id) for number in numbers)


def _watched(plan: FlowPlan, number: int, needed: set[int], rounds: Rounds) -> tuple[int, ...]:
    before = {each for members in rounds if members[-1] < number and number not in members for each in members}
    # A list inside an answer that is not there has no elements, so nothing of it can fail.
    return tuple(sorted((needed & before) - {_list_source(plan, plan.steps[number])}))


def _beside(number: int, needed: set[int], rounds: Rounds) -> tuple[int, ...]:
    """What a step that runs at the same moment has given is a matter of chance, until both have ended."""
    return next(tuple(sorted((needed & {*members}) - {number})) for members in rounds if number in members)


def _list_source(plan: FlowPlan, step: PlannedStep) -> int | None:
    """The step whose answer has the list that a step goes through."""
    segments: list[str | int] = [] if step.for_each is None else [*step.for_each.segments]
    if segments[:1] == ["internal_wiring"] and len(segments) > 2:
        value = plan.definition.internal_wiring[str(segments[1])][str(segments[2])]
        is_reference = isinstance(value, str) and value.startswith(("$.", "$["))
        segments = [*parse_reference(value).segments] if is_reference else []
    source = segments[1] if segments[:1] == ["steps"] else None
    return source if isinstance(source, int) else None
