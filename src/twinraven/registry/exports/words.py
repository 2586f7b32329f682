"""What an export says about itself: when to use it, what comes back, and references as people say them.

A model picks a tool by these sentences, and a person reads them in code and in a skill, so they are the same in all
forms. Names in them are marked as code by whoever writes for a page that has marks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

from twinraven.flow import FlowPlan, SynthesizedTool
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.references import Segments, parse_reference
from twinraven.registry.exports.shapes import Writes, plain_shape

Mark = Callable[[str], str]

_OPERATORS: Final = frozenset({"$literal", "$string", "$integer", "$part", "$affix"})
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def _bare(text: str) -> str:
    return text


def all_tools(definition: SynthesizedTool) -> list[str]:
    """The tools that it may call, each once, those that stand in for others at the end."""
    spare = [step for sequence in definition.error_strategy.fallback_steps.values() for step in sequence]
    return list(dict.fromkeys(step.tool_id for step in (*definition.steps, *spare)))


def usage(definition: SynthesizedTool, *, mark: Mark = _bare) -> str:
    """When to use it, in a sentence."""
    tools = [mark(tool_id) for tool_id in dict.fromkeys(step.tool_id for step in definition.steps)]
    if len(definition.steps) == 1:
        ending = " once for each item" if definition.steps[0].for_each is not None else " yourself"
        return f"Use it instead of calling {tools[0]}{ending}."
    named = tools[0] if len(tools) == 1 else f"{', '.join(tools[:-1])} and {tools[-1]}"
    return f"Use it instead of calling {named} one after another."


def told_of(definition: SynthesizedTool, *more: str) -> str:
    """What was written about it, and more sentences after that."""
    written = definition.description.strip()
    ended = written if written.endswith((".", "!", "?", "…")) else f"{written}."
    return " ".join(filter(None, [ended, *more]))


def result_words(definition: SynthesizedTool, *, may_be_incomplete: bool, mark: Mark = _bare) -> str:
    """What `result` holds, where the definition does not say itself what it answers."""
    last = definition.steps[-1]
    gaps = ", null where its call failed" if may_be_incomplete else ""
    each = f", a list with one answer for each item{gaps}" if last.for_each is not None else ""
    return f"what {mark(last.tool_id)} answered{each}"


def earlier_words(definition: SynthesizedTool) -> str:
    """What `earlier` holds."""
    return "the answers of the steps before it" if len(definition.steps) > 1 else "an empty list"


INCOMPLETE_WORDS: Final = "only there if a call failed or was left out and the rest went on without it"


def returned(definition: SynthesizedTool, *, may_be_incomplete: bool) -> str:
    """What comes back, in a sentence; nothing, where the definition says it itself."""
    if definition.output is not None:
        return ""
    parts = [
        f"`result` ({result_words(definition, may_be_incomplete=may_be_incomplete)})",
        f"`earlier` ({earlier_words(definition)})",
    ]
    parts += [f"`incomplete` ({INCOMPLETE_WORDS})"] if may_be_incomplete else []
    return f"Returns {', '.join(parts[:-1])} and {parts[-1]}."


def may_be_incomplete(plan: FlowPlan, writes: Writes) -> bool:
    """Whether there can be an answer although a step failed or was left out."""
    shape = plain_shape(plan, writes)
    skips = any(step.skips for step in plan.steps) if shape is None else bool(shape.skippable)
    return skips or any(step.condition for step in plan.steps)


def value_words(value: Any, definition: SynthesizedTool, mark: Mark) -> str:
    """A mapped value as people say it; what is not a reference stays as it is written."""
    if isinstance(value, str) and value.startswith(("$.", "$[")):
        return _reference_words(parse_reference(value).segments, definition, mark)
    members = cast("JsonObject", value) if isinstance(value, dict) else {}
    if len(members) == 1 and (operator := next(iter(members))) in _OPERATORS:
        return _operator_words(operator, members[operator], definition, mark)
    return mark(json.dumps(value, ensure_ascii=False))


def _operator_words(operator: str, body: Any, definition: SynthesizedTool, mark: Mark) -> str:
    if operator == "$literal":
        return mark(json.dumps(body, ensure_ascii=False))
    if operator in {"$string", "$integer"}:
        kind = "text" if operator == "$string" else "an integer"
        return f"{value_words(body, definition, mark)}, as {kind}"
    whole = value_words(body["of"], definition, mark)
    if operator == "$part":
        cut = mark(json.dumps(body["separator"], ensure_ascii=False))
        return f"piece {mark(str(body.get('index', 0)))} (counted from 0) of {whole}, split at {cut}"
    around = [mark(json.dumps(body[end], ensure_ascii=False)) if body.get(end) else "" for end in ("before", "after")]
    return " followed by ".join(filter(None, [around[0], whole, around[1]]))


def _reference_words(segments: Segments, definition: SynthesizedTool, mark: Mark) -> str:
    root, *rest = segments
    if root == "parameters" and rest:
        return _inside(f"the parameter {mark(str(rest[0]))}", rest[1:], mark)
    if root == "item":
        return _inside("the element", rest, mark)
    if root == "internal_wiring" and len(rest) > 1:
        wired = definition.internal_wiring[str(rest[0])][str(rest[1])]
        return _inside(value_words(wired, definition, mark), rest[2:], mark)
    if root == "steps" and isinstance(rest[0], int):
        what = {"output": "answer", "input": "arguments"}.get(str(rest[1]), str(rest[1]))
        return _inside(f"the {what} of step {rest[0] + 1}", rest[2:], mark)
    return mark(".".join(map(str, segments)))


def _inside(whole: str, path: list[str | int], mark: Mark) -> str:
    if not path:
        return whole
    if len(path) == 1 and isinstance(path[0], int) and path[0] < len(_ORDINALS):
        return f"the {_ORDINALS[path[0]]} element of {whole}"
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
    return f"{mark(text)} in {whole}"
