"""Draws a learned tool on one line, for reviewers.

find_user ─user_id→ get_user ─orders[*]→ get_order ×n
"""

from __future__ import annotations

from collections.abc import Iterator

from twinraven.foundation.references import is_reference, parse_reference
from twinraven.registry import SynthesizedTool


def draw_chain(tool: SynthesizedTool) -> str:
    """Draw the steps in order, with what flows into each."""
    first = tool.steps[0]
    if first.for_each is not None:
        return f"{_last_name(first.for_each)}[*] → {first.tool_id} ×n"
    text = first.tool_id
    for step in tool.steps[1:]:
        if step.for_each is not None:
            text += f" ─{_last_name(step.for_each)}[*]→ {step.tool_id} ×n"
        else:
            flowing = ", ".join(_flowing(step.input_mapping))
            text += f" ─{flowing}→ {step.tool_id}" if flowing else f" → {step.tool_id}"
    return text


def _flowing(mapping: dict[str, object]) -> Iterator[str]:
    for name, source in mapping.items():
        if not isinstance(source, str) or (
            is_reference(source) and parse_reference(source).segments[:1] == ("internal_wiring",)
        ):
            yield name


def _last_name(reference: str) -> str:
    names = [str(segment) for segment in parse_reference(reference).segments if not isinstance(segment, int)]
    return names[-1] if names else "items"
