"""A definition as an Agent Skill: a folder whose SKILL.md tells an agent when and how, with the code beside it.

The agent can run `scripts/<name>.py` or make the calls itself by the steps in words; `definition.json` is the
registry's own format, which brings the tool back. What the definition says in free text stands in the page as text:
it can neither end the front matter nor add headings, tables or code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from twinraven.flow import StepDefinition, SynthesizedTool, ToolStatus
from twinraven.foundation.canonical import JsonObject
from twinraven.registry.exports.documents import title_of
from twinraven.registry.exports.names import clipped, one_line, shortened
from twinraven.registry.exports.parameters import type_of
from twinraven.registry.exports.python import Writes, python_module, python_name
from twinraven.registry.model import definition_text

NAME_LIMIT: Final = 64
DESCRIPTION_LIMIT: Final = 1_024


def skill_name(definition: SynthesizedTool) -> str:
    """Lower-case letters, digits and single hyphens, and the name of the folder."""
    hyphened = re.sub(r"[^a-z0-9]+", "-", definition.tool_id.lower()).strip("-")
    return shortened(hyphened or "tool", NAME_LIMIT, joint="-")


def skill_files(definition: SynthesizedTool, *, writes: Writes) -> dict[str, str]:
    """The files of the folder, by their paths in it."""
    return {
        "SKILL.md": _page(definition, writes),
        f"scripts/{python_name(definition)}.py": python_module(definition, writes=writes),
        "definition.json": definition_text(definition),
    }


def _page(definition: SynthesizedTool, writes: Writes) -> str:
    about = one_line(definition.description)
    # Skill hosts refuse what looks like markup in the front matter.
    brief = clipped(about.translate({ord("<"): "[", ord(">"): "]"}), DESCRIPTION_LIMIT)
    lines = [
        "---",
        f"name: {skill_name(definition)}",
        f"description: {json.dumps(brief, ensure_ascii=False)}",
        "metadata:",
        f"  tool: {json.dumps(definition.tool_id)}",
        f'  version: "{definition.version}"',
        "---",
        "",
        f"# {title_of(definition)}",
        "",
        _plain(about),
        "",
        *_status_lines(definition),
        "## When to use it",
        "",
        f"Instead of calling {_tools(definition)} one after another for this purpose.",
        "",
        *_parameter_lines(definition.parameters),
        "## Steps",
        "",
        *_step_lines(definition, writes),
        "",
        *_running(definition),
    ]
    return "\n".join(lines) + "\n"


def _status_lines(definition: SynthesizedTool) -> list[str]:
    if definition.status is ToolStatus.PROMOTED:
        return []
    return [f"This is version {definition.version} in the state *{definition.status.value}*: it is not in service.", ""]


def _tools(definition: SynthesizedTool) -> str:
    return ", ".join(dict.fromkeys(_code(step.tool_id) for step in definition.steps))


def _parameter_lines(schema: JsonObject) -> list[str]:
    members = cast("JsonObject", schema.get("properties") or {})
    if not members:
        return []
    required = cast("list[Any]", schema.get("required") or [])
    lines = ["## Parameters", "", "| Name | Type | Needed | Meaning |", "| --- | --- | --- | --- |"]
    for name, member in members.items():
        described = cast("JsonObject", member) if isinstance(member, dict) else {}
        needed = "no" if "default" in described or name not in required else "yes"
        if "default" in described:
            needed = f"no, {_code(json.dumps(described['default'], ensure_ascii=False))} by itself"
        meaning = _plain(one_line(str(described.get("description") or "")))
        cells = (_code(name), _code(type_of(described)), needed, meaning)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return [*lines, ""]


def _step_lines(definition: SynthesizedTool, writes: Writes) -> Iterator[str]:
    for step in definition.steps:
        yield f"{step.step_index + 1}. {_sentence(step, writes)}"
        for name, value in step.input_mapping.items():
            yield f"   - {_code(name)} is {_code(json.dumps(value, ensure_ascii=False))}"
        for name, value in definition.internal_wiring.get(str(step.step_index), {}).items():
            kept = f"$.internal_wiring.{step.step_index}.{name}"
            yield f"   - keep {_code(json.dumps(value, ensure_ascii=False))} as {_code(kept)}"
        strategy = definition.error_strategy
        policy = strategy.retry_policy.get(step.step_index)
        if policy is not None and policy.max_retries:
            yield f"   - if it fails, try again up to {policy.max_retries} times, {policy.backoff_ms} ms later"
        for other in strategy.fallback_steps.get(step.step_index, ()):
            yield f"   - if that does not help, call {_code(other.tool_id)} instead"


def _sentence(step: StepDefinition, writes: Writes) -> str:
    words = f"Call {_code(step.tool_id)}"
    if step.for_each is not None:
        words += f" for each element of {_code(step.for_each)}, {step.max_items} at most"
    if step.condition is not None:
        words += f", if {_code(step.condition)}"
    if step.parallelizable_with:
        beside = ", ".join(str(other + 1) for other in step.parallelizable_with)
        words += f", at the same time as step {beside} if you can"
    return words + (". It can change something." if writes(step.tool_id) else ".")


def _running(definition: SynthesizedTool) -> list[str]:
    name = python_name(definition)
    after = {"skip": "go on without it", "retry": "try once more, then stop", "abort": "stop"}
    failing = f"When one fails for good and nothing else is said: {after[definition.error_strategy.default_behavior]}."
    return [
        f"`$.steps[0].output` is the answer of the first step. {failing}",
        "",
        "## As code",
        "",
        f"`scripts/{name}.py` is the same as an async function that needs nothing but Python.",
        "Give it a `call(tool, arguments)` that reaches your tools.",
        "",
        "```python",
        f"answer = await {name}(call, ...)",
        "```",
    ]


def _code(text: str) -> str:
    """A code span that nothing in the text can end."""
    shown = one_line(text)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    padding = " " if shown.startswith("`") or shown.endswith("`") or not shown else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|!~])", r"\\\1", re.sub(r"^([-+=]|\d+[.)])", r"\\\1", text))
