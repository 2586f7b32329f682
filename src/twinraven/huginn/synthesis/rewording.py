"""Words a learned tool anew that agents pass over: the goal first, then the tools whose calls it replaces.

The first description says how a tool works. Agents who do its steps by hand know the steps by their names, so the other
one says what comes of it, which tools it stands for, and what to give.
"""

from __future__ import annotations

from collections.abc import Iterable

from twinraven.registry import SynthesizedTool


def goal_first(definition: SynthesizedTool) -> str:
    """Return a description that begins with the goal and names the parts."""
    tools = list(dict.fromkeys(step.tool_id for step in definition.steps))
    last = definition.steps[-1]
    goal = _plain_name(last.tool_id) + (" for every element at once" if last.for_each is not None else " in one call")
    given = _listed(definition.parameters.get("required", []))
    source = f", given {given}" if given else ""
    return (
        f"{goal.capitalize()}{source}. Use it instead of calling {_listed(tools)} yourself: it makes these calls "
        f"for you and gives all their answers.{_caution(definition)}"
    )


def _plain_name(tool_id: str) -> str:
    """Return a tool's own name as words, without the server it is on."""
    return tool_id.rpartition("__")[2].replace("_", " ").replace("-", " ").strip() or tool_id


def _listed(names: Iterable[str]) -> str:
    *others, last = list(names) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _caution(definition: SynthesizedTool) -> str:
    """Return what the first description says of writing stays said."""
    _, mark, rest = definition.description.partition("It may change something:")
    return f" {mark}{rest}" if mark else ""
