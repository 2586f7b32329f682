"""Models the wiring of a chain: the source of each argument, as inference found it and composition writes it."""

from __future__ import annotations

from dataclasses import dataclass

from twinraven.huginn.instances import Instance
from twinraven.huginn.synthesis.sources import (
    AllOf,
    Assembled,
    Constant,
    Default,
    EachOf,
    FirstWhere,
    FromStep,
    Joined,
    LookUp,
    Source,
    SourceEvidence,
)


@dataclass(frozen=True, slots=True)
class StepWiring:
    """The sources of one step's arguments; one without a source becomes a parameter."""

    tool_id: str
    sources: dict[str, SourceEvidence]
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


def takes_something(step: StepWiring) -> bool:
    """Return whether a step depends on what an earlier one got or gave."""
    return any(not isinstance(evidence.source, (Constant, Default)) for evidence in step.sources.values())


def needed_steps(step: StepWiring) -> set[int]:
    """Return the steps whose outputs this one takes."""
    needed = {number for evidence in step.sources.values() for number in _outputs_of(evidence.source)}
    return needed | ({step.each.step} if step.each else set())


def _outputs_of(source: Source) -> set[int]:
    if isinstance(source, FromStep):
        return {source.step} if source.part == "output" else set()
    if isinstance(source, (EachOf, FirstWhere, LookUp)):
        return {source.step}
    if isinstance(source, AllOf):
        inner = [_outputs_of(part) for part in source.before if not isinstance(part, str)]
        return {source.step}.union(*inner)
    if isinstance(source, Joined):
        return set[int]().union(*(_outputs_of(part) for part in source.parts if not isinstance(part, str)))
    if isinstance(source, Assembled):
        return set[int]().union(*(_outputs_of(member) for _, member in source.members))
    return set()


def list_of(source: Source) -> EachOf | None:
    """List the list that a source takes one element of."""
    if isinstance(source, EachOf):
        return source
    if isinstance(source, Joined):
        return next((part for part in source.parts if isinstance(part, EachOf)), None)
    return None
