"""Definitions of every shape, and tools whose answers depend on nothing but what they are asked and how often."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any

from hypothesis import strategies as st

from tests.unit.flow.fakes import define, step
from twinraven.flow import StepRun
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import NotFound, ToolError, ToolUnavailable
from twinraven.foundation.text_readers import READERS
from twinraven.registry import SynthesizedTool

TOOLS = ("search", "read.page", "class", "at", 'odd"""\\name')
ANSWERS: tuple[Any, ...] = (
    {"items": [{"id": 1}, {"id": "b-2"}], "text": "one-two-three", "count": 2},
    {"items": [], "text": "", "count": 0.0},
    {"items": [1, "2", None, 2.5], "text": "12", "count": True},
    [{"id": "x"}, {"id": "y"}],
    "plain-text",
    'Found: {"items": [{"id": "b-2"}, {"id": 3}], "text": "x"}',
    "[FILE] b-2\n[DIR] sub\nText: 12, 13",
    None,
    7,
)
PATHS = ("", ".items", ".items[0]", ".items[1].id", ".text", ".count", "[0].id", "['odd \"key\"']")


@dataclass(slots=True)
class World:
    """Tools that answer or fail by the hash of what they are asked."""

    seed: int
    failing: int
    """How many calls in a hundred fail."""
    made: Counter[bytes] = field(default_factory=Counter[bytes])

    async def call(self, tool_id: str, arguments: dict[str, Any]) -> Any:
        asked = canonical_json([tool_id, arguments])
        self.made[asked] += 1
        digest = hashlib.sha256(asked + bytes([self.made[asked], self.seed])).digest()
        if digest[0] % 100 < self.failing:
            raise (ToolError("broke"), ToolUnavailable("away"), NotFound("gone"))[digest[1] % 3]
        return ANSWERS[digest[2] % len(ANSWERS)]

    async def invoke(self, tool_id: str, params: dict[str, Any], *, step: StepRun, timeout_ms: int | None) -> Any:
        del step, timeout_ms
        return await self.call(tool_id, params)


def writes(tool_id: str) -> bool:
    return tool_id == "class"


def _references(
    before: int, *, item: bool, fallbacks: int = 0, wired: int = 0, outcomes: bool = True
) -> st.SearchStrategy[str]:
    roots = ["$.parameters.q", "$.parameters.many", "$.parameters.maybe", "$.parameters.size", "$.parameters"]
    roots += [f"$.steps[{number}].output" for number in range(before)] * 3
    asked = ("status", "error.code", "input") if outcomes else ()
    roots += [f"$.steps[{number}].{part}" for number in range(before) for part in asked]
    roots += [f"$.internal_wiring.{number}.named" for number in range(wired)]
    roots += ["$.item"] * 3 * item
    roots += [f"$.fallback[{number}].output" for number in range(fallbacks)]
    return st.tuples(st.sampled_from(roots), st.sampled_from(PATHS)).map("".join)


def _values(references: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaves = st.one_of(references, references, st.sampled_from([None, True, 3, "text", "$$.escaped", 'q"""\\\n', "é"]))

    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.lists(inner, max_size=2),
            inner.map(lambda value: {"$string": value}),
            inner.map(lambda value: {"$integer": value}),
            inner.map(lambda value: {"$affix": {"of": value, "before": "<'\"", "after": "\n"}}),
            st.tuples(inner, st.integers(-3, 3)).map(
                lambda pair: {"$part": {"of": pair[0], "separator": "-", "index": pair[1]}}
            ),
            st.just({"$literal": {"$.x": ["$.parameters.q"]}}),
            _texts_and_lists(inner),
            inner.map(lambda value: {"a": value, "b'\"": 1}),
        )

    return st.recursive(leaves, around, max_leaves=3)


def _texts_and_lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    paths = st.sampled_from(["$", "$.items", "$[0]", "$[0].text", "$.items[1].id", "$['odd \"key\"']"])
    changes = st.sampled_from(
        [
            "$.item",
            {"$join": ["<", "$.item.id"]},
            {"$read": {"of": "$.item", "as": "ids", "at": "$[0]"}},
            ["$.parameters.q"],
        ]
    )
    choosing = {"of": inner, "equals": inner | st.sampled_from([3, "FILE", "b-2"]), "first": st.booleans()}
    operators: dict[str, st.SearchStrategy[Any]] = {
        "$read": st.fixed_dictionaries({"of": inner, "as": st.sampled_from([*READERS])}, optional={"at": paths}),
        "$at": st.fixed_dictionaries({"of": inner, "path": paths}),
        "$join": st.lists(inner | st.just("/"), min_size=1, max_size=3),
        "$map": st.fixed_dictionaries({"over": inner}, optional={"to": changes}),
        "$where": st.fixed_dictionaries(choosing, optional={"at": st.sampled_from(["$", "$.id", "$.tag"])}),
    }
    return st.one_of(*(st.fixed_dictionaries({name: body}) for name, body in operators.items()))


@st.composite
def conditions(draw: st.DrawFn, references: st.SearchStrategy[str]) -> str:
    one, other = draw(references), draw(references)
    literal = draw(st.sampled_from(["null", "true", "2", "0.0", "'b-2'", '"it\'s"', "-1.5e1"]))
    operator = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "contains"]))
    terms = [
        f"{one} {operator} {literal}",
        f"{literal} {operator} {other}",
        f"exists({one})",
        f"length({one}) > 1",
        f"not is_empty({other})",
        f"({one} || {literal}) and !({other} {operator} {one})",
        f"not not {one}",
    ]
    return draw(st.sampled_from(terms))


PARAMETERS = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "many": {"type": "array", "default": [1, "two", {"id": 3}]},
        "maybe": {"type": "integer"},
        "size": {"type": "integer", "default": 5},
        "class": {"description": '"""\nraise SystemExit'},
    },
    "required": ["q"],
}


@st.composite
def definitions(draw: st.DrawFn, *, is_rich: bool) -> SynthesizedTool:
    """Any definition; a poor one is a chain with loops and retries, a rich one has everything."""
    count = draw(st.integers(1, 4))
    beside = draw(st.booleans()) if is_rich and count > 1 else False
    steps: list[dict[str, Any]] = []
    wiring: dict[str, Any] = {}
    fallbacks: dict[str, Any] = {}
    for number in range(count):
        each = draw(st.booleans())
        outside = _references(number, item=False, wired=len(wiring))
        seen = _references(number, item=each, wired=len(wiring))
        body = step(draw(st.sampled_from(TOOLS)), draw(_mappings(seen)))
        if each:
            lists = ["$.parameters.many", *(f"$.steps[{before}].output.items" for before in range(number))]
            body |= {"for_each": draw(st.sampled_from([*lists * 3, "$.parameters.q"])), "max_items": draw(_limits)}
        if is_rich and draw(st.integers(0, 3)) == 0:
            body["condition"] = draw(conditions(outside))
        if is_rich and draw(st.integers(0, 3)) == 0:
            fallbacks[str(number)] = [
                step("search", draw(_mappings(_references(number + 1, item=each, fallbacks=place))), step_index=number)
                for place in range(draw(st.integers(1, 2)))
            ]
        if beside:
            body["parallelizable_with"] = [other for other in range(count) if other != number and draw(st.booleans())]
        steps.append(body)
        wiring[str(number)] = {"named": draw(_values(_references(number + 1, item=False)))}
    everything = _references(count, item=False, wired=count)
    missing = st.sampled_from([f"$.steps[{number}].output == null" for number in range(count)])
    behaviors = ["abort", "retry", "skip"] if is_rich else ["abort"]
    strategy: dict[str, Any] = {
        "default_behavior": draw(st.sampled_from(behaviors)),
        "fallback_steps": fallbacks,
        "retry_policy": {
            str(number): {"max_retries": draw(st.integers(0, 2)), "backoff_ms": 0}
            for number in range(count)
            if draw(st.booleans())
        },
        # What a condition sees of steps that run at the same moment is a matter of chance.
        "abort_conditions": []
        if beside
        else draw(st.one_of(st.lists(conditions(everything), max_size=1), st.lists(missing, max_size=3))),
    }
    output = {"a": draw(_values(everything)), "b": draw(_values(everything))} if draw(st.booleans()) else None
    return define(*steps, parameters=PARAMETERS, internal_wiring=wiring, error_strategy=strategy, output=output)


_limits = st.sampled_from([1, 3, 100])


def _mappings(references: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(["url", "n", "in", 'k"\n']), _values(references), max_size=3)


async def quickly(run: Callable[[], Any]) -> Any:
    """The answer of a run that waits for nothing but its own order."""
    async with asyncio.timeout(20):
        return await run()


def own_part(text: str) -> str:
    """What an export has of its own: everything above the runner."""
    return text[: text.index("\n\n\nActor = ")]


def load(text: str) -> dict[str, Any]:
    """An exported module, under a name as dataclasses want it; its runner is compiled once."""
    head = own_part(text)
    module = sys.modules["exported"] = ModuleType("exported")
    exec(compile(head, "exported", "exec", dont_inherit=True), vars(module))
    exec(_compiled(text[len(head) :]), vars(module))
    return vars(module)


@lru_cache
def _compiled(runner: str) -> CodeType:
    # The one wait that a definition cannot set to nothing is that of `default_behavior: retry`.
    text = "from __future__ import annotations\n" + runner.replace("backoff_ms=500", "backoff_ms=0")
    return compile(text, "exported", "exec", dont_inherit=True)
