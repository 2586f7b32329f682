"""Caps a map: by default it reads only the first elements of its list, and a caller may name others or raise the cap.

A map over all elements calls in vain for those that nobody asks for. Agents mostly walk a list from its beginning, so
the first few elements save most of the turns. The cap is the default of a parameter and no part of the wiring: what was
proven for all elements holds for the first ones.
"""

from __future__ import annotations

from typing import Any

from twinraven.foundation.references import parse_reference
from twinraven.huginn.synthesis.mapping_text import reference_text
from twinraven.registry import SynthesizedTool

CAP = "most"


def capped(definition: SynthesizedTool, most: int) -> SynthesizedTool | None:
    """Return the map with a cap; None where it takes no list of wanted elements, and others could not be had."""
    body = definition.as_json()
    only: dict[str, Any] | None = body["evidence"]["steps"][-1].get("only")
    last = body["steps"][-1]
    if only is None or last.get("for_each") is None:
        return None
    _, step, name = parse_reference(last["for_each"]).segments
    parameter = _free_name(f"{CAP}_{name}", body["parameters"]["properties"])
    choice = body["internal_wiring"][str(step)][str(name)]["$where"]
    told = f"How many of the {name} are read, from the first on; those in {only['parameter']} are read in any case."
    schema = {"type": "integer", "minimum": 1, "maximum": last["max_items"], "default": most, "description": told}
    words = f" Reads the first {most} of the {name}; name others in {only['parameter']}, or raise {parameter}."
    return SynthesizedTool.from_json(
        {
            **body,
            "description": body["description"] + words,
            "parameters": {
                **body["parameters"],
                "properties": {**body["parameters"]["properties"], parameter: schema},
            },
            "internal_wiring": {
                **body["internal_wiring"],
                str(step): {
                    **body["internal_wiring"][str(step)],
                    str(name): {"$where": {**choice, CAP: reference_text(("parameters", parameter))}},
                },
            },
            "evidence": {
                **body["evidence"],
                "steps": [
                    *body["evidence"]["steps"][:-1],
                    {**body["evidence"]["steps"][-1], CAP: {"parameter": parameter, "default": most}},
                ],
            },
        }
    )


def without_cap(wiring: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return a wiring without caps: the default number of elements is no part of how a tool is wired."""
    return {step: {name: _uncapped(value) for name, value in fields.items()} for step, fields in wiring.items()}


def _uncapped(value: Any) -> Any:
    match value:
        case {"$where": {"among": _} as choice}:
            return {"$where": {name: member for name, member in choice.items() if name != CAP}}
        case _:
            return value


def _free_name(wanted: str, taken: dict[str, Any]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name
