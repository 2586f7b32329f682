"""Inferring a chain's wiring from its recorded instances.

Each step after the first must take something from an earlier step, or the steps have no business being one tool. The
last step may run once for each element of a list that an earlier step gave (a map). An argument that nothing earlier
explains becomes a parameter of the tool, if the caller knew it when the chain began; otherwise the chain ends before
that step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinraven.foundation.canonical import canonical_json
from twinraven.huginn.instances import Instance
from twinraven.huginn.synthesis.sources import (
    MISSING,
    EachOf,
    Evidence,
    FromStep,
    best_source,
    explanations,
)
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.synthesis.transforms import transformed
from twinraven.huginn.traces import RecordedCall

LEAST_SHARE = 0.95
LEAST_SAMPLES = 8
LEAST_CONTEXTS = 4
"""Different tasks (where tasks are unknown: different first inputs). One task tried often proves nothing general."""
MAP_RUN = 1.25
"""Calls per run from which a last step is a map, even if a fixed place in the list explains each run's first call."""


@dataclass(frozen=True, slots=True)
class StepWiring:
    """How one step gets its arguments; what has no source is asked of the caller."""

    tool_id: str
    sources: dict[str, Evidence]
    asked: tuple[str, ...] = ()
    each: EachOf | None = None


@dataclass(frozen=True, slots=True)
class ChainWiring:
    """The steps that could be wired, and why the chain ends where it does."""

    steps: tuple[StepWiring, ...]
    instances: tuple[Instance, ...]
    ended: str | None = None

    @property
    def shape(self) -> str:
        return "map" if any(step.each for step in self.steps) else "chain"


def infer_wiring(tools: Sequence[str], instances: Sequence[Instance], index: TraceIndex) -> ChainWiring:
    """Wire as many steps as the record explains, from the first on."""
    usable = [instance for instance in instances if not any(instance.last(k).raised for k in range(len(tools) - 1))]
    first = StepWiring(tools[0], {}, tuple(sorted(_names([instance.last(0) for instance in usable]))))
    steps = [first]
    ended = None
    for number in range(1, len(tools)):
        wired, reason = _wire_step(tools[number], number, usable, index, last=number == len(tools) - 1)
        if wired is None:
            ended = f"step {number} ({tools[number]}): {reason}"
            break
        steps.append(wired)
        if wired.each is not None:
            break
    return ChainWiring(tuple(steps), tuple(usable), ended)


def _wire_step(
    tool_id: str, number: int, instances: Sequence[Instance], index: TraceIndex, *, last: bool
) -> tuple[StepWiring | None, str]:
    if len(instances) < LEAST_SAMPLES:
        return None, f"only {len(instances)} samples, at least {LEAST_SAMPLES} are needed"
    contexts = len({instance.context for instance in instances})
    if contexts < LEAST_CONTEXTS:
        return None, f"all samples come from {contexts} tasks, at least {LEAST_CONTEXTS} are needed"
    samples = [(instance, instance.session.calls[instance.runs[number][0]]) for instance in instances]
    linear = _explain(tool_id, number, samples, index, mapped=False)
    every = [(instance, call) for instance in instances for call in instance.calls(number)]
    complete = not linear.asked and _takes_something(linear)
    if last and (not complete or len(every) >= MAP_RUN * len(samples)):
        mapped = _explain(tool_id, number, every, index, mapped=True)
        if mapped.each is not None and not mapped.asked:
            return mapped, ""
    if complete:
        return linear, ""
    if not _takes_something(linear):
        return None, "takes nothing from an earlier step"
    unknown = [name for name in linear.asked if not _caller_knew(name, samples, index)]
    if unknown:
        return None, f"nothing explains {', '.join(unknown)}, and the caller could not know it at the start"
    return linear, ""


def _explain(
    tool_id: str,
    number: int,
    samples: Sequence[tuple[Instance, RecordedCall]],
    index: TraceIndex,
    *,
    mapped: bool,
) -> StepWiring:
    """The best source for each argument over all samples."""
    sources: dict[str, Evidence] = {}
    asked: list[str] = []
    earlier = [[index.sample(instance.last(step)) for step in range(number)] for instance, _ in samples]
    for name in sorted(_names([call for _, call in samples])):
        values = [_value(call, name) for _, call in samples]
        found = [list(explanations(value, steps, mapped=mapped)) for value, steps in zip(values, earlier, strict=True)]
        evidence = best_source(name, values, found, least_share=LEAST_SHARE, least_samples=LEAST_SAMPLES)
        if evidence is None and not mapped:
            evidence = transformed(values, earlier, least_share=LEAST_SHARE)
        if evidence is None:
            asked.append(name)
        else:
            sources[name] = evidence
    return _one_list(StepWiring(tool_id, sources, tuple(asked)))


def _one_list(step: StepWiring) -> StepWiring:
    """A step can run over one list only; arguments that need another are left unexplained."""
    lists = [evidence.source for evidence in step.sources.values() if isinstance(evidence.source, EachOf)]
    if not lists:
        return step
    chosen = lists[0]
    strangers = [
        name
        for name, evidence in step.sources.items()
        if isinstance(evidence.source, EachOf)
        and (evidence.source.step, evidence.source.list_path) != (chosen.step, chosen.list_path)
    ]
    kept = {name: evidence for name, evidence in step.sources.items() if name not in strangers}
    return replace(step, sources=kept, asked=(*step.asked, *strangers), each=chosen)


def _takes_something(step: StepWiring) -> bool:
    return any(isinstance(evidence.source, (FromStep, EachOf)) for evidence in step.sources.values())


def _names(calls: Sequence[RecordedCall]) -> set[str]:
    return {name for call in calls for name in call.params}


def _value(call: RecordedCall, name: str) -> str:
    return canonical_json(call.params[name]).decode() if name in call.params else MISSING


def _caller_knew(name: str, samples: Sequence[tuple[Instance, RecordedCall]], index: TraceIndex) -> bool:
    """Whether, in nearly every sample, the value was known before the chain began."""
    knew = sum(
        name not in call.params or index.knowledge(instance.session).knows(call.params[name], instance.start)
        for instance, call in samples
    )
    return knew >= LEAST_SHARE * len(samples)
