"""Writes the documentation of an export: when to use it, what it returns, and references in plain words.

A model picks a tool by these sentences, and a person reads them in code and in a skill, so they are the same in all
forms. Names in them are marked as code by whoever writes for a page that has marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from twinraven.flow import FlowDefinition, FlowPlan
from twinraven.foundation.canonical import JsonObject
from twinraven.foundation.references import Segments, parse_reference

Mark = Callable[[str], str]

_READ_AS: Final = {
    "json": "JSON",
    "repr": "a Python literal",
    "yaml": "YAML",
    "records": "blocks of `Key: value` lines",
    "fields": "`Key: value` lines",
    "table": "a table",
    "tagged": "lines of a tag and a text",
    "bullets": "a bulleted list",
    "list": "values between commas",
    "lines": "lines",
}
_ANSWER_MISSING: Final = re.compile(r"\s*\$\.steps\[(\d+)\]\.output\s*==\s*null\s*")
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def _bare(text: str) -> str:
    return text


def all_tools(definition: FlowDefinition) -> list[str]:
    """Return the tools that it may call, each once, those that stand in for others at the end."""
    spare = [step for sequence in definition.error_strategy.fallback_steps.values() for step in sequence]
    return list(dict.fromkeys(step.tool_id for step in (*definition.steps, *spare)))


def usage(definition: FlowDefinition, *, mark: Mark = _bare) -> str:
    """Say in a sentence when to use the tool."""
    tools = [mark(tool_id) for tool_id in dict.fromkeys(step.tool_id for step in definition.steps)]
    if len(definition.steps) == 1:
        ending = " once for each item" if definition.steps[0].for_each is not None else " yourself"
        return f"Use it instead of calling {tools[0]}{ending}."
    named = tools[0] if len(tools) == 1 else f"{', '.join(tools[:-1])} and {tools[-1]}"
    return f"Use it instead of calling {named} one after another."


def told_of(definition: FlowDefinition, *more: str) -> str:
    """Return the tool's description, with further sentences."""
    written = definition.description.strip()
    ended = written if written.endswith((".", "!", "?", "…")) else f"{written}."
    return " ".join(filter(None, [ended, *more]))


def result_words(definition: FlowDefinition, *, may_be_incomplete: bool, mark: Mark = _bare) -> str:
    """Describe `result`, where the definition does not describe its output."""
    last = definition.steps[-1]
    gaps = ", null where its call failed" if may_be_incomplete else ""
    each = f", a list with one answer for each item{gaps}" if last.for_each is not None else ""
    return f"what {mark(last.tool_id)} answered{each}"


def earlier_words(definition: FlowDefinition) -> str:
    """Describe `earlier`."""
    return "the answers of the steps before it" if len(definition.steps) > 1 else "an empty list"


INCOMPLETE_WORDS: Final = "only there if a call failed or was left out and the rest went on without it"


def returned(definition: FlowDefinition, *, may_be_incomplete: bool) -> str:
    """Say in a sentence what is returned; nothing, where the definition says it itself."""
    if definition.output is not None:
        return ""
    parts = [
        f"`result` ({result_words(definition, may_be_incomplete=may_be_incomplete)})",
        f"`earlier` ({earlier_words(definition)})",
    ]
    parts += [f"`incomplete` ({INCOMPLETE_WORDS})"] if may_be_incomplete else []
    return f"Returns {', '.join(parts[:-1])} and {parts[-1]}."


def skippable(plan: FlowPlan) -> set[int]:
    """Return the steps whose failure is passed over; one whose missing answer is a condition to abort at is not."""
    missing = [_ANSWER_MISSING.fullmatch(abort.predicate.text) for abort in plan.aborts]
    needed = {int(found[1]) for found in missing if found}
    steps = enumerate(plan.steps)
    return {number for number, step in steps if step.skips and (step.for_each is not None or number not in needed)}


def conditions_to_stop(plan: FlowPlan) -> list[str]:
    """Return the abort conditions that check more than whether a step gave an answer."""
    texts = [abort.predicate.text for abort in plan.aborts]
    return [text for text in texts if not _ANSWER_MISSING.fullmatch(text)] if skippable(plan) else []


def may_be_incomplete(plan: FlowPlan) -> bool:
    """Return whether there can be an answer although a step failed or was left out."""
    return bool(skippable(plan)) or any(step.condition for step in plan.steps)


@dataclass(frozen=True, slots=True)
class Phrases:
    """Mapped values as people say them."""

    definition: FlowDefinition
    mark: Mark
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names under which parameters are passed, where these are not their own."""

    def of(self, value: Any) -> str:
        """Return a value in words; what is not a reference stays as it is written."""
        if isinstance(value, str) and value.startswith(("$.", "$[")):
            return self._reference(parse_reference(value).segments)
        members = cast("JsonObject", value) if isinstance(value, dict) else {}
        if len(members) == 1 and (operator := next(iter(members))) in _OPERATORS:
            return _OPERATORS[operator](self, members[operator])
        return self._json(value)

    def _part(self, body: Any) -> str:
        number, cut = self.mark(str(body.get("index", 0))), self._json(body["separator"])
        count = int(body.get("count", 1))
        if count > 1:
            return f"{count} pieces from piece {number} on (counted from 0) of {self.of(body['of'])}, split at {cut}"
        return f"piece {number} (counted from 0) of {self.of(body['of'])}, split at {cut}"

    def _affix(self, body: Any) -> str:
        around = [self._json(body[end]) if body.get(end) else "" for end in ("before", "after")]
        return " followed by ".join(filter(None, [around[0], self.of(body["of"]), around[1]]))

    def _read(self, body: Any) -> str:
        kind, whole = str(body["as"]), self.of(body["of"])
        if kind in _READ_AS:
            return self._inside(f"{whole}, read as {_READ_AS[kind]}", _steps_of(body.get("at", "$")))
        return self._inside(f"the {kind} in {whole}", _steps_of(body.get("at", "$")))

    def _map(self, body: Any) -> str:
        over, change = self.of(body["over"]), body.get("to", "$.item")
        if change == "$.item":
            return over
        path = parse_reference(change).segments if isinstance(change, str) and change.startswith("$.item") else ()
        each = f"each of {over}" if over.startswith("the elements ") else f"each element of {over}"
        return f"{self.mark(_written(path[1:]))} of {each}" if path else f"{self.of(change)}, for {each}"

    def _where(self, body: Any) -> str:
        path = _steps_of(body.get("at", "$"))
        if "among" in body:
            what = f"whose {self.mark(_written(path))} is" if path else "that are"
            unnamed = f"the first, so many as {self.of(body['most'])} says" if "most" in body else "all"
            among = f"one of {self.of(body['among'])} ({unnamed}, if that is not given)"
            return f"the elements {what} {among} in {self.of(body['of'])}"
        which = "the first element" if body.get("first") else "the elements"
        what = f"whose {self.mark(_written(path))} is" if path else "equal to"
        return f"{which} {what} {self.of(body['equals'])} in {self.of(body['of'])}"

    def _reference(self, segments: Segments) -> str:
        root, *rest = segments
        if root == "parameters" and rest:
            name = str(rest[0])
            return self._inside(f"the parameter {self.mark(self.parameters.get(name, name))}", rest[1:])
        if root == "item":
            return self._inside("the element", rest)
        if root == "internal_wiring" and len(rest) > 1:
            wired = self.definition.internal_wiring[str(rest[0])][str(rest[1])]
            return self._inside(self.of(wired), rest[2:])
        if root == "steps" and isinstance(rest[0], int):
            what = {"output": "answer", "input": "arguments"}.get(str(rest[1]), str(rest[1]))
            return self._inside(f"the {what} of step {rest[0] + 1}", rest[2:])
        return self.mark(".".join(map(str, segments)))

    def _inside(self, whole: str, path: Sequence[str | int]) -> str:
        if not path:
            return whole
        if len(path) == 1 and isinstance(path[0], int) and path[0] < len(_ORDINALS):
            return f"the {_ORDINALS[path[0]]} element of {whole}"
        return f"{self.mark(_written(path))} in {whole}"

    def _json(self, value: Any) -> str:
        return self.mark(json.dumps(value, ensure_ascii=False))


_OPERATORS: Final[dict[str, Callable[[Phrases, Any], str]]] = {
    "$literal": Phrases._json,  # pyright: ignore[reportPrivateUsage] - the table of this class's own operators
    "$string": lambda here, body: f"{here.of(body)}, as text",
    "$integer": lambda here, body: f"{here.of(body)}, as an integer",
    "$affix": Phrases._affix,  # pyright: ignore[reportPrivateUsage]
    "$part": Phrases._part,  # pyright: ignore[reportPrivateUsage]
    "$read": Phrases._read,  # pyright: ignore[reportPrivateUsage]
    "$at": lambda here, body: here._inside(here.of(body["of"]), _steps_of(body["path"])),  # pyright: ignore[reportPrivateUsage]
    "$join": lambda here, body: " followed by ".join(map(here.of, body)),
    "$map": Phrases._map,  # pyright: ignore[reportPrivateUsage]
    "$where": Phrases._where,  # pyright: ignore[reportPrivateUsage]
}


def _steps_of(path: str) -> Segments:
    return () if path == "$" else parse_reference(path).segments


def _written(path: Sequence[str | int]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
