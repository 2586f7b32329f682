"""Gathers everything a reviewer needs to approve or reject a version.

The chain it was learned from, where each argument comes from and how often the record agreed and did not, what the
steps can do to the world, the verdict of validation, what is different from the version before, and what it would have
saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any, cast

from twinraven.catalog import ToolEntry
from twinraven.flow import StepDefinition, ToolLookup, compile_value, entry_of, is_operator
from twinraven.foundation.canonical import JsonObject, to_json_value
from twinraven.registry.exports.documentation import Phrases
from twinraven.registry.model import RegisteredTool, ToolVersion
from twinraven.registry.registration import tools_of
from twinraven.registry.synthesized import SynthesizedTool


@dataclass(frozen=True, slots=True)
class ArgumentSource:
    """The source of one argument of a step, with the evidence for and against it."""

    name: str
    source: str
    agreed: int | None
    disagreed: int | None
    rivals: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """The caller's parameters that it is made from; none for a constant and for what comes from earlier steps alone."""
    sessions: int | None = None
    """The sessions whose calls agree; None for what the caller is asked for."""
    principals: int | None = None
    """Whose sessions these are; None where the record names nobody."""

    def as_json(self) -> JsonObject:
        return {
            "name": self.name,
            "source": self.source,
            "for": self.agreed,
            "against": self.disagreed,
            "also": list(self.rivals),
            "parameters": list(self.parameters),
            "sessions": self.sessions,
            "principals": self.principals,
        }


@dataclass(frozen=True, slots=True)
class StepReview:
    """One step: what it calls, what that can do, and how it is wired."""

    tool_id: str
    effect: str
    effect_origin: str
    sensitivity: str
    for_each: str | None
    arguments: tuple[ArgumentSource, ...]

    def as_json(self) -> JsonObject:
        return {
            "tool_id": self.tool_id,
            "effect": self.effect,
            "effect_origin": self.effect_origin,
            "sensitivity": self.sensitivity,
            "for_each": self.for_each,
            "arguments": [argument.as_json() for argument in self.arguments],
        }


@dataclass(frozen=True, slots=True)
class Review:
    """One version, ready for a decision."""

    version: ToolVersion
    definition: SynthesizedTool
    chain: JsonObject | None
    entry: ToolEntry
    steps: tuple[StepReview, ...]
    missing: tuple[str, ...]
    """Tools it calls that this home does not have; until they are there it cannot serve."""
    compared_with: int | None
    diff: tuple[str, ...]

    @property
    def backing(self) -> str | None:
        """How many sessions and principals stand behind the verdict, and behind the weakest choice, in words."""
        verdict = self.version.validation
        judged = _count(verdict.get("sessions_replayed"))
        if judged is None:
            return None
        words = _backing_words(judged, _count(verdict.get("principals")))
        told = [(each.sessions, each) for step in self.steps for each in step.arguments if each.sessions is not None]
        if not told:
            return words
        fewest, weakest = min(told, key=_first)
        whose = f"{fewest}" if weakest.principals is None else _backing_words(fewest, weakest.principals)
        return f"{words}; behind {weakest.name}, the least of its choices: {whose}"

    def as_json(self) -> JsonObject:
        return {
            "tool_id": self.version.tool_id,
            "version": self.version.version,
            "status": self.version.status.value,
            "description": self.definition.description,
            "parameters": self.definition.parameters,
            "replaces": self.definition.replaces,
            "chain": to_json_value(self.chain),
            "effect": self.entry.effect.value,
            "effect_origin": self.entry.effect_origin,
            "sensitivity": self.entry.sensitivity.value,
            "steps": [step.as_json() for step in self.steps],
            "missing": list(self.missing),
            "validation": self.version.validation,
            "backing": self.backing,
            "savings": self.version.savings,
            "advice": self.definition.evidence.get("advice"),
            "compared_with": self.compared_with,
            "diff": list(self.diff),
        }


def review_version(tool: RegisteredTool, number: int, chain: JsonObject | None, find: ToolLookup) -> Review:
    """Gather what there is to know about a version of a tool."""
    version = next(each for each in tool.versions if each.version == number)
    definition = version.definition
    before = _version_before(tool, number)
    return Review(
        version=version,
        definition=definition,
        chain=chain,
        entry=entry_of(definition, find),
        steps=tuple(_step_reviews(definition, find)),
        missing=tuple(name for name in dict.fromkeys(tools_of(definition)) if find(name) is None),
        compared_with=None if before is None else before.version,
        diff=() if before is None else tuple(_difference(before, version)),
    )


def _version_before(tool: RegisteredTool, number: int) -> ToolVersion | None:
    """Return the one in service, else the newest of those before."""
    serving = next((each for each in tool.versions if each.is_in_service and each.version != number), None)
    return serving or max((each for each in tool.versions if each.version < number), key=_number, default=None)


def _number(version: ToolVersion) -> int:
    return version.version


def _difference(before: ToolVersion, after: ToolVersion) -> Iterator[str]:
    old, new = before.text.splitlines(), after.text.splitlines()
    names = (f"v{before.version}.json", f"v{after.version}.json")
    yield from unified_diff(old, new, *names, n=1, lineterm="")


def _step_reviews(definition: SynthesizedTool, find: ToolLookup) -> Iterator[StepReview]:
    told = definition.evidence.get("steps")
    listed = cast("list[Any]", told) if isinstance(told, list) else []
    for number, step in enumerate(definition.steps):
        entry = find(step.tool_id)
        evidence = _members(listed[number]) if number < len(listed) else {}
        yield StepReview(
            tool_id=step.tool_id,
            effect="not there" if entry is None else entry.effect.value,
            effect_origin="none" if entry is None else entry.effect_origin,
            sensitivity="unknown" if entry is None else entry.sensitivity.value,
            for_each=step.for_each,
            arguments=tuple(_arguments(step, definition, _members(evidence.get("arguments")))),
        )


def _arguments(step: StepDefinition, definition: SynthesizedTool, evidence: JsonObject) -> Iterator[ArgumentSource]:
    for name, value in step.input_mapping.items():
        said = _members(evidence.get(name))
        source = said.get("source")
        rivals = said.get("also")
        yield ArgumentSource(
            name=name,
            source=source if isinstance(source, str) else _words(value, step, definition),
            agreed=_count(said.get("for")),
            disagreed=_count(said.get("against")),
            rivals=tuple(
                f"{_members(rival).get('source')} ({_members(rival).get('for')})"
                for rival in (cast("list[Any]", rivals) if isinstance(rivals, list) else [])
            ),
            parameters=tuple(dict.fromkeys(_parameters(value, step, definition))),
            sessions=_count(said.get("sessions")),
            principals=_count(said.get("principals")),
        )


def _parameters(value: Any, step: StepDefinition, definition: SynthesizedTool) -> Iterator[str]:
    """Yield the names of the caller's parameters that a mapping refers to, also by way of the wiring and the list."""
    for root, *path in (reference.segments for reference in compile_value(value, "input_mapping").references):
        if root == "parameters" and path:
            yield str(path[0])
        elif root == "item" and step.for_each is not None:
            yield from _parameters(step.for_each, replace(step, for_each=None), definition)
        elif root == "internal_wiring" and len(path) > 1:
            wired = definition.internal_wiring.get(str(path[0]), {}).get(str(path[1]))
            yield from _parameters(wired, step, definition)


def _words(value: Any, step: StepDefinition, definition: SynthesizedTool) -> str:
    """Return a mapping in words; a name in the wiring is replaced by what it names."""
    if is_operator(value):
        return Phrases(definition, str).of(value)
    if not isinstance(value, str):
        return f"always {value!r}"
    if value == "$.item" or value.startswith("$.item."):
        part = value.removeprefix("$.item").removeprefix(".")
        return f"each of {step.for_each}" + (f", its {part}" if part else "")
    if value.startswith("$.parameters."):
        return "asked of the caller"
    number, _, name = value.removeprefix("$.internal_wiring.").partition(".")
    wired = definition.internal_wiring.get(number, {}).get(name, value)
    return Phrases(definition, str).of(wired) if is_operator(wired) else str(wired)


def _backing_words(sessions: int, principals: int | None) -> str:
    counted = f"{sessions} session{'' if sessions == 1 else 's'}"
    if principals is None:
        return f"{counted} that name nobody, so they may all be one person's"
    return f"{counted} of {principals} principal{'' if principals == 1 else 's'}"


def _first(pair: tuple[int, ArgumentSource]) -> int:
    return pair[0]


def _members(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
