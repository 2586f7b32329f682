"""Python functions as entries of the catalogue: names, schemas, and arguments of the hinted types."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from twinraven.catalog import Catalog, Effect, FunctionTools, ToolEntry, infer_effect, tool
from twinraven.foundation.errors import InvalidDefinition, InvalidInput, InvalidSetting, NotFound
from twinraven.foundation.json_schema import compile_schema

TENANT = "default"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Order(BaseModel):
    order_id: int
    placed: date


@tool(effect="read")
def find(
    colour: Colour,
    day: date,
    point: Point,
    *,
    order: Order | None = None,
    size: Annotated[int, Field(ge=1)] = 3,
    kind: Literal["a", "b"] = "a",
    names: list[str] | None = None,
    folder: Path = Path(),
) -> dict[str, Any]:
    """Find things.

    This paragraph is for readers of the code.
    """
    return {"colour": colour, "day": day, "point": point, "order": order, "size": size, "kind": kind, "names": names}


@pytest.mark.req("AE-07")
def test_a_function_becomes_an_entry() -> None:
    """Name, description, effect and both schemas come from the function, and the schemas are valid."""
    entry = FunctionTools([find]).find(TENANT, "find")
    assert entry is not None
    assert (entry.tool_id, entry.description, entry.effect) == ("find", "Find things.", Effect.READ)
    assert entry.input_schema["required"] == ["colour", "day", "point"]
    properties = entry.input_schema["properties"]
    assert (properties["size"]["default"], properties["kind"]["default"]) == (3, "a")
    assert "default" not in properties["folder"]
    schema = compile_schema(entry.input_schema)
    schema.check({"colour": "red", "day": "2026-01-01", "point": {"x": 1}})
    for wrong in ({"colour": "green"}, {"day": "soon"}, {"point": {"y": 1}}, {"size": 0}, {"unheard": 1}):
        with pytest.raises(InvalidInput):
            schema.check({"colour": "red", "day": "2026-01-01", "point": {"x": 1}, **wrong})
    compile_schema(entry.output_schema)


def test_arguments_arrive_as_hinted() -> None:
    """A hint that JSON cannot meet is met before the function is called; plain values are left alone."""
    declared = FunctionTools([find]).function("find")
    assert declared is not None
    names = ["n"]
    arguments = declared.arguments(
        {
            "colour": "blue",
            "day": "2026-01-02",
            "point": {"x": 1},
            "order": {"order_id": 1, "placed": "2026-01-01"},
            "names": names,
        }
    )
    assert arguments["colour"] is Colour.BLUE
    assert (arguments["day"], arguments["point"]) == (date(2026, 1, 2), Point(1))
    assert arguments["order"] == Order(order_id=1, placed=date(2026, 1, 1))
    assert arguments["names"] is names
    with pytest.raises(InvalidInput, match=r"params\.day"):
        declared.arguments({"day": "never"})


def test_plain_arguments_are_not_copied() -> None:
    """A function that is hinted in JSON's own types gets the arguments as they came."""

    @tool(effect="read")
    def plain(a: int, b: dict[str, list[float | None]], c: Any = None) -> None:
        """Nothing."""

    declared = FunctionTools([plain]).function("plain")
    params: dict[str, Any] = {"a": 1, "b": {}}
    assert declared is not None
    assert declared.arguments(params) is params


@pytest.mark.req("AE-07")
def test_names_are_unique() -> None:
    """Two tools of one name are refused; the same function twice is one tool."""

    @tool(name="find", effect="read")
    def other() -> int:
        """Another."""
        return 1

    tools = FunctionTools([find, find])
    with pytest.raises(InvalidDefinition, match="two tools are named 'find'"):
        tools.add(other)
    assert [entry.tool_id for entry in tools.entries(TENANT)] == ["find"]


def test_a_method_is_a_tool_of_its_object() -> None:
    """A bound method can be registered, also twice, and its object is no parameter."""

    class Counter:
        @tool(effect="write")
        def add_one(self, by: int = 1) -> int:
            """Count."""
            return by

    counter = Counter()
    tools = FunctionTools([counter.add_one, counter.add_one])
    entry = tools.find(TENANT, "add_one")
    assert entry is not None
    assert list(entry.input_schema["properties"]) == ["by"]


def _positional(a: int, /) -> int:
    """Takes what has no name."""
    return a


def _many(*a: int) -> int:
    """Takes any number."""
    return len(a)


def _strange(a: Callable[..., int]) -> int:
    """Takes what JSON cannot carry."""
    return a()


@pytest.mark.req("AE-07")
@pytest.mark.parametrize("function", [_positional, _many, _strange])
def test_what_cannot_be_called_by_name_with_json_is_refused(function: Callable[..., Any]) -> None:
    """A signature that no JSON object can serve is refused with the tool's name."""
    tools = FunctionTools([tool(effect="read")(function)])
    with pytest.raises(InvalidDefinition, match=function.__name__):
        tools.entries(TENANT)


@pytest.mark.req("AE-07")
def test_a_plain_function_and_an_empty_entry_are_refused() -> None:
    """What was not declared is no tool, and an entry needs a name and a description."""
    with pytest.raises(InvalidDefinition, match="not a tool"):
        FunctionTools([len])
    for name, description in (("", "x"), ("a\nb", "x"), ("x" * 257, "x"), ("x", " ")):
        with pytest.raises(InvalidDefinition):
            ToolEntry(name, description, {})


def test_modules_are_searched_for_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tool a module defines is found; a module that is not there is a setting to correct."""
    monkeypatch.setitem(__import__("sys").modules, "made_up_tools", SimpleNamespace(find=find, other=1, text="x"))
    tools = FunctionTools()
    assert tools.add_module("made_up_tools") == 1
    with pytest.raises(InvalidSetting, match=r"tools\.modules"):
        tools.add_module("no_such_module_anywhere")


def test_a_module_that_exits_is_a_setting_to_correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that ends the process when it is imported is named, and the process goes on."""
    (tmp_path / "leaving_tools.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(InvalidSetting, match=r"'leaving_tools' raised SystemExit .*: 3 \(leaving_tools\.py, line 1\)"):
        FunctionTools().add_module("leaving_tools")


def test_a_hint_that_json_cannot_say_is_refused_in_one_line() -> None:
    """The error names the tool and says what to do, without advice for authors of the library that reads the hints."""

    def odd(order: Thread) -> None:
        """Take a thread."""
        del order

    with pytest.raises(InvalidDefinition) as caught:
        FunctionTools([tool(effect="read")(odd)]).entries(TENANT)
    assert "\n" not in caught.value.message
    assert caught.value.message.endswith("annotate parameters and result with types that JSON can say")


def test_the_first_source_wins_and_names_are_sorted() -> None:
    """A catalogue of several sources shows each name once."""

    class Source:
        def __init__(self, *names: str, description: str) -> None:
            self._entries = {name: ToolEntry(name, description, {}) for name in names}

        def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
            del tenant_id
            return self._entries.get(tool_id)

        def entries(self, tenant_id: str) -> list[ToolEntry]:
            del tenant_id
            return list(self._entries.values())

    catalog = Catalog(Source("b", "a", description="first"), Source("c", "a", description="second"))
    assert [(entry.tool_id, entry.description) for entry in catalog.entries(TENANT)] == [
        ("a", "first"),
        ("b", "first"),
        ("c", "second"),
    ]
    assert catalog.find(TENANT, "a").description == "first"
    with pytest.raises(NotFound):
        catalog.find(TENANT, "zzz")


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("get_order", Effect.READ),
        ("searchOrders", Effect.READ),
        ("orders.list", Effect.READ),
        ("cancel_pending_order", Effect.WRITE),
        ("HTTPDelete", Effect.WRITE),
        ("frobnicate", Effect.UNKNOWN),
        ("", Effect.UNKNOWN),
    ],
)
def test_an_effect_is_guessed_from_the_first_known_verb(name: str, effect: Effect) -> None:
    """Names in any spelling are read word by word; what says nothing is unknown."""
    assert infer_effect(name) is effect


def test_a_guess_is_marked_as_one_and_unknown_counts_as_a_write() -> None:
    """Declared beats inferred, and only a known read is treated as harmless."""

    @tool()
    def get_order() -> int:
        """Guessed."""
        return 1

    @tool(effect="write")
    def get_money() -> int:
        """Declared."""
        return 1

    @tool()
    def frobnicate() -> int:
        """Neither."""
        return 1

    entries = FunctionTools([get_order, get_money, frobnicate]).entries(TENANT)
    assert [(entry.effect.value, entry.effect_origin, entry.writes) for entry in entries] == [
        ("read", "inferred", False),
        ("write", "declared", True),
        ("unknown", "none", True),
    ]
