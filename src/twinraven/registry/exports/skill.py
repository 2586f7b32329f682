"""Exports a definition as an Agent Skill: a folder with SKILL.md and the code beside it.

The agent can run `scripts/<name>.py` or make the calls itself by the steps in words; `definition.json` is the
registry's own format, which brings the tool back. What the definition says in free text stands in the page as text:
it can neither end the front matter nor add headings, tables or code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from twinraven.flow import FlowDefinition, FlowPlan, PlannedStep, compile_flow
from twinraven.registry.exports.documentation import (
    INCOMPLETE_WORDS,
    Phrases,
    all_tools,
    conditions_to_stop,
    earlier_words,
    may_be_incomplete,
    result_words,
    skippable,
    told_of,
    usage,
)
from twinraven.registry.exports.documents import title_of
from twinraven.registry.exports.names import clipped, one_line, shortened
from twinraven.registry.exports.parameters import Parameter
from twinraven.registry.exports.python import Writes, python_module, python_name, python_parameters
from twinraven.registry.model import definition_text
from twinraven.registry.status import ToolStatus
from twinraven.registry.synthesized import SynthesizedTool

NAME_LIMIT: Final = 64
DESCRIPTION_LIMIT: Final = 1_024
_LEGEND: Final = (
    "`$.steps[0].output` is the answer of step 1, `$.parameters` what was passed, and `$.item` the element of a list."
)


def skill_name(definition: FlowDefinition) -> str:
    """Lower-case letters, digits and single hyphens, and the name of the folder."""
    return shortened(_hyphened(definition), NAME_LIMIT, joint="-")


def skill_files(definition: SynthesizedTool, *, writes: Writes) -> dict[str, str]:
    """Return the files of the folder, by their paths in it."""
    return {
        "SKILL.md": "\n".join(_page(definition, writes)) + "\n",
        f"scripts/{python_name(definition)}.py": python_module(definition, writes=writes),
        "definition.json": definition_text(definition),
    }


def skill_notes(definition: SynthesizedTool) -> list[str]:
    """Return notes on what was cut for the skill."""
    notes: list[str] = []
    if len(_hyphened(definition)) > NAME_LIMIT:
        notes.append(f"the name was shortened to {skill_name(definition)}: skills take {NAME_LIMIT} characters")
    if len(one_line(definition.description)) > DESCRIPTION_LIMIT:
        notes.append(f"the description in the front matter was cut: skills take {DESCRIPTION_LIMIT} characters")
    return notes


def _hyphened(definition: FlowDefinition) -> str:
    return re.sub(r"[^a-z0-9]+", "-", definition.tool_id.lower()).strip("-") or "tool"


def _page(definition: SynthesizedTool, writes: Writes) -> Iterator[str]:
    plan = compile_flow(definition)
    about = one_line(definition.description)
    yield from ("---", f"name: {skill_name(definition)}", f"description: {_brief(definition)}", "metadata:")
    yield from (f"  tool: {json.dumps(definition.tool_id)}", f'  version: "{definition.version}"', "---", "")
    yield from (f"# {title_of(definition)}", "", _plain(about), "")
    yield from _when(definition, writes)
    passed = python_parameters(plan)
    phrases = Phrases(definition, _code, {each.name: each.python_name for each in passed})
    yield from _what_to_pass(passed)
    answer, steps = list(_what_comes_back(plan, phrases)), list(_steps(plan, phrases))
    yield from answer
    yield from _running(plan, passed)
    yield from ("## By hand", "", "Where code cannot run, make these calls in this order.", "")
    yield from steps
    if any("$." in line for line in (*answer, *steps)):
        yield from ("", _LEGEND)


def _brief(definition: FlowDefinition) -> str:
    """Return the one line by which a host chooses the skill."""
    about = one_line(definition.description)
    whole = one_line(told_of(definition, usage(definition)))
    fitting = whole if len(whole) <= DESCRIPTION_LIMIT else clipped(about, DESCRIPTION_LIMIT)
    # Skill hosts refuse what looks like markup in the front matter.
    return json.dumps(fitting.translate({ord("<"): "[", ord(">"): "]"}), ensure_ascii=False)


def _when(definition: SynthesizedTool, writes: Writes) -> Iterator[str]:
    writing = [_code(tool_id) for tool_id in all_tools(definition) if writes(tool_id)]
    yield from ("## When to use it", "")
    yield f"{usage(definition, mark=_code)} Call them yourself if you want to look at an answer before the next call."
    if writing:
        yield f"It may change something, with {', '.join(writing)}: do not run it twice for one purpose."
    else:
        yield "It only reads, so running it again does no harm."
    if definition.status is not ToolStatus.PROMOTED:
        yield ""
        yield f"This is version {definition.version} in the state *{definition.status.value}*: it is not in service."
    yield ""


def _what_to_pass(parameters: Sequence[Parameter]) -> Iterator[str]:
    yield from ("## What to pass", "")
    if not parameters:
        yield from ("Nothing.", "")
        return
    yield from ("| Name | Type | Needed | Meaning |", "| --- | --- | --- | --- |")
    for each in parameters:
        needed = "yes" if each.kind == "required" else "no"
        if each.kind == "defaulted":
            needed = f"no; {_code(json.dumps(each.default, ensure_ascii=False))} if left out"
        meaning = _plain(one_line("; ".join(filter(None, [each.description, each.origin]))))
        cells = (_code(each.python_name), _code(each.annotation), needed, meaning)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _what_comes_back(plan: FlowPlan, phrases: Phrases) -> Iterator[str]:
    definition = plan.definition
    yield from ("## What comes back", "")
    if definition.output is None:
        yield "An object:"
        yield ""
        partly = may_be_incomplete(plan)
        yield f"- `result`: {result_words(definition, may_be_incomplete=partly, mark=_code)}"
        listed = ", as a list of `tool_id` and `output`" if len(definition.steps) > 1 else ""
        yield f"- `earlier`: {earlier_words(definition)}{listed}"
        if partly:
            yield f"- `incomplete`: {INCOMPLETE_WORDS}; a list of `tool_id`, `status` and `error`"
    elif len(definition.output) == 1 and next(iter(definition.output)).startswith("$"):
        yield f"One value: {phrases.of(definition.output)}."
    else:
        yield "An object:"
        yield ""
        for name, value in definition.output.items():
            yield f"- {_code(name)}: {phrases.of(value)}"
    yield ""


def _running(plan: FlowPlan, parameters: Sequence[Parameter]) -> Iterator[str]:
    name = python_name(plan.definition)
    given = ", ".join(["call", *(f"{each.python_name}=..." for each in parameters if each.kind == "required")])
    yield from ("## How to run it", "")
    yield f"`scripts/{name}.py` in this folder has it as one async function; it needs Python 3.11 and nothing else."
    yield "Give it a `call` that reaches the tools: it takes a tool's name and its arguments, gives the answer as"
    yield "JSON values, and raises an exception where the call failed. Parameters are not checked."
    yield from ("", "```python", "import asyncio", "import sys", "")
    yield from ('sys.path.insert(0, "scripts")', f"from {name} import {name}", "", "")
    yield from (
        "async def call(tool, arguments):",
        "    return await my_client.call_tool(tool, arguments)  # however you reach the tools",
        "",
        "",
    )
    yield f"answer = asyncio.run({name}({given}))"
    yield from ("```", "")


def _steps(plan: FlowPlan, phrases: Phrases) -> Iterator[str]:
    passed_over = skippable(plan)
    for step in plan.steps:
        number = step.definition.step_index
        yield f"{number + 1}. {_sentence(step, phrases)}"
        for name, value in step.definition.input_mapping.items():
            yield f"   - {_code(name)}: {phrases.of(value)}"
        yield f"   - {_on_failure(step, phrases, skips=number in passed_over)}"
    for text in conditions_to_stop(plan):
        yield f"- Stop if a call has failed and {_code(text)}."


def _sentence(step: PlannedStep, phrases: Phrases) -> str:
    asked = step.definition
    clauses: list[str] = []
    words = f"Call {_code(step.tool_id)}"
    if asked.for_each is not None:
        words += f" for each element of {phrases.of(asked.for_each)} ({asked.max_items} at most)"
    if asked.condition is not None:
        clauses.append(f"if {_code(asked.condition)}")
    if asked.parallelizable_with:
        others = " and ".join(str(other + 1) for other in asked.parallelizable_with)
        clauses.append(f"at the same time as step {others} if you can")
    words = ", ".join([words, *clauses])
    return f"{words}{',' if clauses else ''} with:" if asked.input_mapping else f"{words}."


def _on_failure(step: PlannedStep, phrases: Phrases, *, skips: bool) -> str:
    words = "If it fails"
    if step.retry.max_retries:
        times = "once" if step.retry.max_retries == 1 else f"up to {step.retry.max_retries} times"
        words += f", try again {times}, {step.retry.backoff_ms} ms later; if that does not help"
    if step.fallback:
        others = ", then ".join(_instead(other, phrases) for other in step.fallback)
        return f"{words}, call {others} instead; if that fails too, stop."
    return f"{words}, go on without it and say so." if skips else f"{words}, stop."


def _instead(step: PlannedStep, phrases: Phrases) -> str:
    given = [f"{_code(name)}: {phrases.of(value)}" for name, value in step.definition.input_mapping.items()]
    condition = "" if step.definition.condition is None else f" if {_code(step.definition.condition)}"
    return f"{_code(step.tool_id)}{condition}{' (' + '; '.join(given) + ')' if given else ''}"


def _code(text: str) -> str:
    """Return a code span that nothing in the text can end."""
    shown = one_line(text)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    padding = " " if shown.startswith("`") or shown.endswith("`") or not shown else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|!~])", r"\\\1", re.sub(r"^([-+=]|\d+[.)])", r"\\\1", text))
