"""Repairs plans and tool calls by rules, where the meaning is beyond doubt: the supervisor's cheap first attempt.

Each rule changes form and never sense: another spelling of a field or a tool, a number written as text, a plan wrapped
in an object. What a rule makes is checked like everything else before it is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Final, cast

from twinraven.foundation.canonical import JsonObject
from twinraven.plans.model import AGENT, MAX_STEPS

_STEP_ALIASES: Final = {
    "id": "step_id",
    "stepid": "step_id",
    "step": "step_id",
    "number": "step_id",
    "desc": "description",
    "title": "description",
    "action": "description",
    "task": "description",
    "toolname": "tool",
    "tooluse": "tool",
    "function": "tool",
    "args": "arguments",
    "params": "arguments",
    "parameters": "arguments",
    "input": "arguments",
    "inputs": "arguments",
    "toolinput": "arguments",
    "dependson": "depends_on",
    "dependencies": "depends_on",
    "iscritical": "critical",
}
_STEP_FIELDS: Final = ("step_id", "description", "tool", "agent", "arguments", "critical", "depends_on")
_WRAPPERS: Final = ("plan", "result", "answer", "output", "response", "data")
_CALL_WRAPPERS: Final = ("arguments", "args", "parameters", "params", "input", "tool_input", "value")
_NOTHING: Final = frozenset({"", "none", "null", "n/a", "na", "-", "no tool", "nil"})
_CLOSE: Final = 0.82
_PLAIN: Final = re.compile(r"[^a-z0-9]")
_WHOLE: Final = re.compile(r"[+-]?\d{1,18}")


def plain(name: str) -> str:
    """Return a name without case and punctuation, in which most misspellings are equal."""
    return _PLAIN.sub("", name.lower())


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Return the one known name that a misspelt one stands for; None where that leaves a doubt."""
    names = list(known)
    alike = [each for each in names if plain(each) == plain(name)]
    if len(alike) == 1:
        return alike[0]
    if alike or not plain(name):
        return None
    close = get_close_matches(plain(name), [plain(each) for each in names], n=2, cutoff=_CLOSE)
    found = {each for each in names if plain(each) in close[:1]}
    return found.pop() if len(found) == 1 and len(close) == 1 else None


def mend_plan(value: Any, request: str, tools: Iterable[str]) -> Any:
    """Return a plan in the form that was asked for, as far as rules go.

    Anything that is none is given back as it is.
    """
    found = _unwrapped(value)
    if isinstance(found, list):
        found = {"goal": request, "steps": cast("list[Any]", found)}
    if not isinstance(found, dict):
        return value
    stated = {plain(str(name)): each for name, each in cast("JsonObject", found).items()}
    steps = stated.get("steps") or stated.get("plan") or stated.get("tasks")
    if isinstance(steps, dict):
        steps = [
            {"step_id": str(name), **cast("JsonObject", each)} if isinstance(each, dict) else each
            for name, each in cast("JsonObject", steps).items()
        ]
    if not isinstance(steps, list) or len(cast("list[Any]", steps)) > MAX_STEPS:
        return value
    known = list(tools)
    mended = [_mend_step(step, number, known) for number, step in enumerate(cast("list[Any]", steps), start=1)]
    goal = stated.get("goal") or stated.get("objective") or request
    return {"goal": goal if isinstance(goal, str) else request, "steps": _numbered(mended)}


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict):
        found = cast("JsonObject", value)
        if "steps" not in found:
            return next((found[name] for name in _WRAPPERS if isinstance(found.get(name), (dict, list))), found)
    return cast("Any", value)


def _mend_step(step: Any, number: int, tools: list[str]) -> Any:
    if isinstance(step, str):
        return {"step_id": str(number), "description": step, "agent": AGENT}
    if not isinstance(step, dict):
        return step
    found: JsonObject = {}
    for name, value in cast("JsonObject", step).items():
        field = name if name in _STEP_FIELDS else _STEP_ALIASES.get(plain(str(name)), plain(str(name)))
        if field in _STEP_FIELDS and value is not None:
            found.setdefault(field, value)
    _mend_target(found, tools)
    if "step_id" in found:
        found["step_id"] = re.sub(r"[^\w.-]+", "_", str(found["step_id"]).strip())[:60]
    if not isinstance(found.get("description"), str) and isinstance(found.get("tool"), str):
        found["description"] = f"Call {found['tool']}."
    if isinstance(found.get("depends_on"), str):
        found["depends_on"] = [found["depends_on"]]
    if isinstance(found.get("depends_on"), list):
        found["depends_on"] = [str(each) for each in cast("list[Any]", found["depends_on"])]
    return found


def _mend_target(found: JsonObject, tools: list[str]) -> None:
    """Spell a step's tool as it is called, and name the one agent that there is."""
    tool = found.get("tool")
    if isinstance(tool, str):
        if tool.strip().lower() in _NOTHING:
            del found["tool"]
        elif tool not in tools:
            found["tool"] = near_name(tool, tools) or tool
    if found.get("agent") is not None and found["agent"] != AGENT:
        del found["agent"]
        if "tool" not in found:
            found["agent"] = AGENT


def _numbered(steps: list[Any]) -> list[Any]:
    """Steps with ids; where some are missing, repeated or out of order, they are numbered anew.

    Steps that refer to each other by their ids are left alone: whom they mean would be a guess.
    """
    found = [cast("JsonObject", step) for step in steps if isinstance(step, dict)]
    if len(found) != len(steps) or any(step.get("depends_on") for step in found):
        return steps
    ids = [step.get("step_id") for step in found]
    numbers = [re.fullmatch(r"(.*?)(\d{1,9})", str(each)) for each in ids]
    is_counted = all(numbers) and len({each[1] for each in numbers if each}) == 1
    values = [int(each[2]) for each in numbers if each]
    has_gap = is_counted and any(after != before + 1 for before, after in pairwise(values))
    if any(not each for each in ids) or len(set(map(str, ids))) != len(ids) or has_gap:
        return [{**step, "step_id": str(number)} for number, step in enumerate(found, start=1)]
    return steps


def mend_arguments(value: Any, schema: Mapping[str, Any]) -> Any:
    """Arguments under the names and of the kinds that a tool takes, as far as rules go."""
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    found = _inner_arguments(value, properties)
    if not isinstance(found, dict):
        return value
    taken = cast("JsonObject", found)
    named: JsonObject = {}
    strangers: list[str] = []
    for name, each in taken.items():
        if name in properties or not properties:
            named[name] = each
        else:
            strangers.append(name)
    for name in strangers:
        free = [each for each in properties if each not in named]
        named[near_name(name, free) or name] = taken[name]
    return {name: _as_kind(each, properties.get(name)) for name, each in named.items()}


def _inner_arguments(value: Any, properties: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        found = cast("JsonObject", value)
        if not set(found) & set(properties):
            return next((found[name] for name in _CALL_WRAPPERS if isinstance(found.get(name), dict)), found)
    return cast("Any", value)


def _as_kind(value: Any, schema: Any) -> Any:
    """Return a value of the kind that its schema asks for, where another kind writes the same."""
    kind = cast("Mapping[str, Any]", schema).get("type") if isinstance(schema, Mapping) else None
    if isinstance(value, str):
        text = value.strip()
        if kind == "integer" and _WHOLE.fullmatch(text):
            return int(text)
        if kind == "number":
            try:
                return float(text)
            except ValueError:
                return value
        if kind == "boolean" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind == "null" and text.lower() in _NOTHING:
            return None
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "string" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if kind == "array" and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return [value]
    return value
