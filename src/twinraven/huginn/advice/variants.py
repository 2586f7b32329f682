"""Turns a proposed source into a variant of the draft, if it parses and the training record agrees with it.

The parameter leaves the schema and the argument takes the proposed mapping. Before replay, the proposal must parse in
our own grammar, point only at earlier steps or at parameters that remain, and give the recorded value in nearly every
instance that synthesis saw: the same share that a source found without a model must reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from twinraven.flow import PlannedStep, StepDefinition, compile_flow
from twinraven.foundation.canonical import JsonObject, canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.huginn.advice.question import OpenArgument
from twinraven.huginn.instances import Instance
from twinraven.huginn.rehearsal import ToolCandidate, bind_parameters
from twinraven.huginn.synthesis.sources import SECRET_TOKEN
from twinraven.huginn.synthesis.trace_index import TraceIndex
from twinraven.huginn.synthesis.wiring import LEAST_SESSIONS, LEAST_SHARE
from twinraven.registry import SynthesizedTool


@dataclass(frozen=True, slots=True)
class Variant:
    """A draft with one argument taken from a proposed source, and how the studied instances agree with it."""

    tool: ToolCandidate
    explained: int
    samples: int


def propose_variant(
    tool: ToolCandidate, wanted: OpenArgument, source: str, instances: Sequence[Instance], index: TraceIndex, *, by: str
) -> Variant | str:
    """Return the variant, or why there is none."""
    if SECRET_TOKEN in source:
        return "holds what stands in place of a secret"
    try:
        mapping = _mapping(source)
        probe = _probe(tool.definition, wanted, mapping)
    except InvalidInput as error:
        return f"is not a source: {error.message[:200]}"
    strange = _strange_reference(probe, tool.definition, wanted)
    if strange is not None:
        return strange
    explained, values = _agreement(tool, wanted, probe, instances, index)
    if len(values) < LEAST_SESSIONS:
        return f"only {len(values)} samples, at least {LEAST_SESSIONS} are needed"
    if explained < LEAST_SHARE * len(values):
        return f"explains {explained} of {len(values)} recorded values"
    evidence: JsonObject = {
        "source": source,
        "for": explained,
        "against": len(values) - explained,
        "distinct_values": len(set(values)),
        "also": [],
        "proposed_by": by,
    }
    definition = _rewired(tool.definition, wanted, mapping, probe.needs, evidence)
    return Variant(ToolCandidate(definition, tool.chain), explained, len(values))


def _mapping(source: str) -> Any:
    """Return the proposal as an input mapping.

    Text that is neither a reference nor JSON would be a literal, and no source.
    """
    if source.startswith("$"):
        return source
    if source.startswith(("{", "[")):
        return parse_json(source, field="source")
    raise InvalidInput("it is neither a reference nor a mapping", field="source")


def _probe(definition: SynthesizedTool, wanted: OpenArgument, mapping: Any) -> PlannedStep:
    """Return the step with this argument alone, so that every reference found in it is the proposal's own."""
    step = replace(definition.steps[wanted.step], input_mapping={wanted.argument: mapping}, parallelizable_with=())
    alone = [replace(each, parallelizable_with=()) for each in definition.steps]
    alone[wanted.step] = step
    return compile_flow(replace(definition, steps=tuple(alone))).steps[wanted.step]


def _strange_reference(probe: PlannedStep, definition: SynthesizedTool, wanted: OpenArgument) -> str | None:
    """Return what is wrong with where a proposal points."""
    if not probe.inputs.references:
        return "points at nothing; a fixed value is not a source"
    remaining = set(definition.parameters.get("properties", {})) - {wanted.parameter}
    for reference in probe.inputs.references:
        match reference.segments:
            case ("parameters", name, *_) if name in remaining:
                continue
            case ("steps", int(index), "output", *_) if 0 <= index < wanted.step:
                continue
            case _:
                return f"{reference.text[:80]} is neither the output of an earlier step nor a parameter that remains"
    return None


def _agreement(
    tool: ToolCandidate, wanted: OpenArgument, probe: PlannedStep, instances: Sequence[Instance], index: TraceIndex
) -> tuple[int, list[bytes]]:
    """In how many instances the proposal gives what the agent gave, and what that was."""
    explained = 0
    values: list[bytes] = []
    for instance in instances:
        if any(instance.last(number).raised for number in range(wanted.step)):
            continue
        params = instance.session.calls[instance.runs[wanted.step][0]].params
        given = canonical_json(params.get(wanted.argument)) if wanted.argument in params else b""
        scope = {
            "parameters": bind_parameters(tool, instance.session, instance.start, index) or {},
            "steps": [{"output": instance.last(number).output} for number in range(wanted.step)],
        }
        made = probe.inputs.resolve(scope)
        values.append(given)
        explained += wanted.argument in made and canonical_json(made[wanted.argument]) == given
    return explained, values


def _rewired(
    definition: SynthesizedTool,
    wanted: OpenArgument,
    mapping: Any,
    needs: frozenset[int],
    evidence: JsonObject,
) -> SynthesizedTool:
    """Return the definition without the parameter; steps that now need each other no longer run at once."""
    body = definition.as_json()
    body["parameters"]["properties"].pop(wanted.parameter, None)
    required = cast("list[str]", body["parameters"].get("required", []))
    body["parameters"]["required"] = [name for name in required if name != wanted.parameter]
    steps = [_apart(step, wanted.step, needs) for step in definition.steps]
    own = steps[wanted.step]
    steps[wanted.step] = replace(own, input_mapping={**own.input_mapping, wanted.argument: mapping})
    told = body.get("evidence", {}).get("steps", [])
    if wanted.step < len(told):
        here = told[wanted.step]
        here["asked"] = [name for name in here.get("asked", []) if name != wanted.argument]
        here["arguments"] = {**here.get("arguments", {}), wanted.argument: evidence}
    return replace(definition, parameters=body["parameters"], steps=tuple(steps), evidence=body.get("evidence", {}))


def _apart(step: StepDefinition, rewired: int, needs: frozenset[int]) -> StepDefinition:
    if step.step_index == rewired:
        kept = tuple(other for other in step.parallelizable_with if other not in needs)
    elif step.step_index in needs:
        kept = tuple(other for other in step.parallelizable_with if other != rewired)
    else:
        return step
    return replace(step, parallelizable_with=kept)
