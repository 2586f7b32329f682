"""Composes a definition from wiring: names, parameters, schemas, error strategy, and the evidence for each choice.

Everything here is deterministic: the same wiring gives the same tool, to the letter. A model may later improve the
words and propose sources for what stayed open (`advice`); it has no part in this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from twinraven.catalog import ToolEntry
from twinraven.foundation.clock import iso
from twinraven.foundation.json_schema import infer_schema
from twinraven.huginn.instances import Instance
from twinraven.huginn.synthesis.errors_seen import error_strategy
from twinraven.huginn.synthesis.mapping_text import (
    OMITTED,
    among_mapping,
    evidence_json,
    is_plain,
    list_mapping,
    list_name,
    look_up_json,
    look_up_mapping,
    reference_text,
    source_mapping,
)
from twinraven.huginn.synthesis.sources import Constant, Default, EachOf, LookUp, Path
from twinraven.huginn.synthesis.step_wiring import ChainWiring, StepWiring, needed_steps
from twinraven.huginn.tool_facts import ToolFacts
from twinraven.huginn.traces import RecordedCall
from twinraven.registry import SynthesizedTool

MAX_SLUG = 64
"""What the function-calling interfaces of model providers accept."""
MAX_ITEMS = 50

_NOT_SLUG = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class DraftOrigin:
    """The origin of a draft: its chain, time and version."""

    chain_id: str
    created_at: datetime
    version: int = 1


@dataclass(slots=True)
class _Draft:
    """A definition under construction."""

    tools: Sequence[str]
    instances: Sequence[Instance]
    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    required: list[str] = field(default_factory=list[str])
    wiring: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    evidence: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def parameter(self, wanted: str, tool_id: str, schema: dict[str, Any], *, required: bool) -> str:
        """Add a parameter under a free name and say which."""
        name = wanted if wanted not in self.properties else f"{slugify(tool_id)}_{wanted}"
        self.properties[name] = schema
        if required:
            self.required.append(name)
        return name

    def wire(self, step: int, wanted: str, mapping: Any) -> str:
        """Name what is taken out of a step's output, once."""
        fields = self.wiring.setdefault(str(step), {})
        name, number = wanted, 2
        while fields.get(name, mapping) != mapping:
            name, number = f"{wanted}_{number}", number + 1
        fields[name] = mapping
        return reference_text(("internal_wiring", str(step), name))


def compose_chain(wiring: ChainWiring, origin: DraftOrigin, facts: ToolFacts) -> SynthesizedTool:
    """Return a linear chain or a map as a definition."""
    tools = [step.tool_id for step in wiring.steps]
    draft = _Draft(tools, wiring.instances)
    for number, step in enumerate(wiring.steps):
        samples = [call for instance in wiring.instances for call in instance.calls(number)]
        mapping: dict[str, Any] = {}
        for name in step.asked:
            values = [call.params[name] for call in samples if name in call.params]
            schema = _parameter_schema(facts.entry(step.tool_id), name, values)
            # What may be left out of the first call may be left out here: records show it with the tool's own default.
            is_left_out = len(values) < len(samples) or (number == 0 and "default" in schema)
            chosen = draft.parameter(name, step.tool_id, schema, required=not is_left_out)
            mapping[name] = reference_text(("parameters", chosen))
        looked_up: dict[str, Any] = {}
        for name, evidence in step.sources.items():
            source = evidence.source
            if isinstance(source, LookUp):
                parameter = _name_parameter(draft, name, step.tool_id, source)
                mapping[name] = look_up_mapping(source, parameter)
                looked_up[name] = look_up_json(source, parameter)
                continue
            if isinstance(source, Default):
                values = [call.params[name] for call in samples if name in call.params]
                schema = _parameter_schema(facts.entry(step.tool_id), name, values)
                mapping[name] = _default_parameter(draft, step.tool_id, name, source, schema)
                continue
            value = source_mapping(source, name, draft.wire)
            if value is not OMITTED:
                mapping[name] = value
        only = _only_parameter(draft, step, mapping, samples, facts)
        draft.steps.append(_step(number, step.tool_id, mapping, _list_reference(draft, step.each, only)))
        told = _step_evidence(step) | ({"look_ups": looked_up} if looked_up else {})
        draft.evidence.append(told if only is None else told | {"only": only.as_json()})
    _mark_parallel(draft.steps, wiring.steps, facts)
    slug = chain_slug(tools, mapped=wiring.steps[-1].each is not None)
    return _finish(draft, slug, _describe_chain(wiring, facts), origin)


def compose_batch(
    tool_id: str, names: Sequence[str], instances: Sequence[Instance], origin: DraftOrigin, facts: ToolFacts
) -> SynthesizedTool:
    """Return one tool over a list that the caller gives; of its arguments, those that are named."""
    calls = [call for instance in instances for call in instance.calls(0)]
    varying = [name for name in names if any(_differs(instance, name) for instance in instances)]
    entry = facts.entry(tool_id)
    schemas = {
        name: _parameter_schema(entry, name, [call.params[name] for call in calls if name in call.params])
        for name in names
    }
    draft = _Draft([tool_id, tool_id], instances)
    mapping: dict[str, Any] = {}
    for name in names:
        if name not in varying:
            always = all(name in call.params for call in calls)
            draft.parameter(name, tool_id, schemas[name], required=always)
            mapping[name] = reference_text(("parameters", name))
    listed = _plural(varying[0]) if len(varying) == 1 else "items"
    mapping.update(
        {varying[0]: "$.item"} if len(varying) == 1 else {name: reference_text(("item", name)) for name in varying}
    )
    draft.parameter(listed, tool_id, _list_schema(varying, schemas), required=True)
    draft.steps.append(_step(0, tool_id, mapping, reference_text(("parameters", listed))))
    draft.evidence.append({"tool_id": tool_id, "batch_over": varying, "runs": len(instances)})
    words = f"Calls {tool_id} once for each of {listed}, in parallel, and gives all answers in that order."
    return _finish(draft, _shorten(f"{slugify(tool_id)}_batch"), words, origin)


def slugify(text: str) -> str:
    return _NOT_SLUG.sub("_", text.lower()).strip("_") or "tool"


def chain_slug(tools: Sequence[str], *, mapped: bool) -> str:
    """`search_read_summarize`; where that grows too long, from the first tool to the last."""
    tail = "_each" if mapped else ""
    whole = "_".join(slugify(tool) for tool in tools) + tail
    return whole if len(whole) <= MAX_SLUG else _shorten(f"{slugify(tools[0])}_to_{slugify(tools[-1])}{tail}")


def bounded_slug(text: str) -> str:
    """Return a slug from any text, of a length that every model provider accepts."""
    return _shorten(slugify(text))


def _shorten(slug: str) -> str:
    slug = slug if slug[:1].isalpha() else f"t_{slug}"
    return slug[:MAX_SLUG].rstrip("_")


def _default_parameter(draft: _Draft, tool_id: str, name: str, source: Default, schema: dict[str, Any]) -> str:
    """Return a habitual argument as a parameter that may be left out."""
    schema = {**schema, "default": orjson.loads(source.text)}
    return reference_text(("parameters", draft.parameter(name, tool_id, schema, required=False)))


def _name_parameter(draft: _Draft, name: str, tool_id: str, source: LookUp) -> str:
    """Return the name by which the caller has something looked up, as a parameter."""
    by = str(source.by[-1]) if source.by else "name"
    wanted = f"{name.removesuffix('_id')}_{by}"
    schema = {"type": "string", "description": f"Which of the {list_name(source.path)} is meant: its {by}."}
    return draft.parameter(wanted, tool_id, schema, required=True)


@dataclass(frozen=True, slots=True)
class _Only:
    """A parameter that narrows a map to elements with some values of one argument."""

    parameter: str
    argument: str
    item_path: Path

    def as_json(self) -> dict[str, str]:
        return {"parameter": self.parameter, "argument": self.argument}


def _only_parameter(
    draft: _Draft, step: StepWiring, mapping: dict[str, Any], samples: Sequence[RecordedCall], facts: ToolFacts
) -> _Only | None:
    """Lets a caller that knows what it wants say so: which elements of a map's list, by the argument they give."""
    for name, evidence in step.sources.items():
        source = evidence.source
        if name in mapping and isinstance(source, EachOf) and source.transform is None and is_plain(source.item_path):
            values = [call.params[name] for call in samples if name in call.params]
            schema = _list_schema([name], {name: _parameter_schema(facts.entry(step.tool_id), name, values)})
            words = f"Only these of the {list_name(source.list_path)}; all of them if left out."
            wanted = f"only_{_plural(name)}"
            parameter = draft.parameter(wanted, step.tool_id, {**schema, "description": words}, required=False)
            return _Only(parameter, name, source.item_path)
    return None


def _list_reference(draft: _Draft, each: EachOf | None, only: _Only | None) -> str | None:
    if each is None:
        return None
    whole = list_mapping(each)
    if only is not None:
        whole = among_mapping(whole, only.item_path, only.parameter)
    return draft.wire(each.step, list_name(each.list_path), whole)


def _step(number: int, tool_id: str, mapping: dict[str, Any], each: str | None) -> dict[str, Any]:
    step: dict[str, Any] = {
        "step_index": number,
        "tool_id": tool_id,
        "input_mapping": mapping,
        "condition": None,
        "parallelizable_with": [],
        "timeout_ms": None,
    }
    return step if each is None else {**step, "for_each": each, "max_items": MAX_ITEMS}


def _mark_parallel(steps: list[dict[str, Any]], wired: Sequence[StepWiring], facts: ToolFacts) -> None:
    """Steps that need nothing of each other and only read may run at once."""
    needs = [needed_steps(step) for step in wired]
    for later in range(len(steps)):
        for earlier in range(1, later):
            if earlier in needs[later] or not all(not facts.writes(wired[k].tool_id) for k in (earlier, later)):
                continue
            if needs[later] <= set(range(earlier)):
                steps[earlier]["parallelizable_with"].append(later)
                steps[later]["parallelizable_with"].append(earlier)


def _parameter_schema(entry: ToolEntry | None, name: str, values: Sequence[Any]) -> dict[str, Any]:
    declared = None if entry is None else entry.input_schema.get("properties", {}).get(name)
    if isinstance(declared, dict) and "$ref" not in orjson.dumps(declared).decode():
        return dict(declared)  # pyright: ignore[reportUnknownArgumentType]
    return infer_schema(values)


def _list_schema(varying: Sequence[str], schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    items = (
        schemas[varying[0]]
        if len(varying) == 1
        else {"type": "object", "properties": {name: schemas[name] for name in varying}, "required": list(varying)}
    )
    return {"type": "array", "items": items, "minItems": 1, "maxItems": MAX_ITEMS}


def _differs(instance: Instance, name: str) -> bool:
    return len({orjson.dumps(call.params.get(name)) for call in instance.calls(0)}) > 1


def _plural(name: str) -> str:
    if name.endswith("s"):
        return f"{name}_list"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("ch", "sh", "x", "z")) else f"{name}s"


def _describe_chain(wiring: ChainWiring, facts: ToolFacts) -> str:
    parts = [f"Calls {wiring.steps[0].tool_id}"]
    for step in wiring.steps[1:]:
        taken = [name for name, found in step.sources.items() if not isinstance(found.source, (Constant, Default))]
        if step.each is not None:
            parts.append(f"then {step.tool_id} for each of the {list_name(step.each.list_path)} it gave")
        else:
            parts.append(
                f"then {step.tool_id}" + (f" with {', '.join(taken)} taken from what came before" if taken else "")
            )
    writing = [step.tool_id for step in wiring.steps if facts.writes(step.tool_id)]
    caution = f" It may change something: {', '.join(writing)} can write." if writing else ""
    return ", ".join(parts) + f". Gives the answers of all steps.{caution}"


def _step_evidence(step: StepWiring) -> dict[str, Any]:
    return {
        "tool_id": step.tool_id,
        "asked": list(step.asked),
        "arguments": {name: evidence_json(evidence) for name, evidence in sorted(step.sources.items())},
    }


def _finish(draft: _Draft, slug: str, description: str, origin: DraftOrigin) -> SynthesizedTool:
    return SynthesizedTool.from_json(
        {
            "tool_id": slug,
            "description": description,
            "parameters": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": draft.properties,
                "required": sorted(draft.required),
                "additionalProperties": False,
            },
            "internal_wiring": draft.wiring,
            "steps": draft.steps,
            "error_strategy": error_strategy(draft.steps, draft.instances),
            "source_chain_id": origin.chain_id,
            "version": origin.version,
            "status": "draft",
            "created_at": iso(origin.created_at),
            "promoted_at": None,
            "retired_at": None,
            "evidence": {
                "chain": list(draft.tools),
                "instances": len(draft.instances),
                "steps": draft.evidence,
            },
        }
    )
