"""Pictures are well-formed and inert whatever they show, and equal data gives equal pictures."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from twinraven.console.drawing.columns import TimeColumn, columns
from twinraven.console.drawing.graphs import GraphEdge, GraphNode, graph
from twinraven.console.drawing.strip import strip
from twinraven.console.drawing.tree import TreeNode, tree
from twinraven.console.drawing.wiring import wiring

_INERT = {"svg", "g", "a", "title", "desc", "text", "rect", "path", "circle", "line"}
NAMES = st.text(min_size=1, max_size=12)


def tags(markup: object) -> set[str]:
    return {each.tag for each in ET.fromstring(str(markup)).iter()}


@settings(max_examples=40)
@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=8))
def test_graphs_of_anything(pairs: list[tuple[str, str]]) -> None:
    """A graph of tools with any names has no element but its own, and links every node."""
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    nodes = tuple(GraphNode(name, f"/console/flow?tool={number}") for number, name in enumerate(names))
    drawn = graph(nodes, tuple(GraphEdge(a, b, 1.0, "1") for a, b in dict.fromkeys(pairs)), title="x")
    assert tags(drawn) <= _INERT
    assert str(drawn).count("<a ") == len(names)


@given(st.lists(NAMES, min_size=1, max_size=4), NAMES)
def test_wiring_of_anything(arguments: list[str], tool_id: str) -> None:
    """The picture of a learned tool shows any names, with the evidence on its wires."""
    steps: list[dict[str, Any]] = [
        {"tool_id": tool_id, "effect": "read", "effect_origin": "declared", "for_each": None, "arguments": [
            {"name": name, "source": "asked of the caller", "for": None, "against": None, "parameters": [name]}
            for name in arguments]},
        {"tool_id": tool_id, "effect": "write", "effect_origin": "declared", "for_each": "x", "arguments": [
            {"name": "id", "source": "$.steps[0].output.user_id", "for": 9, "against": 1, "parameters": []}]},
    ]  # fmt: skip
    drawn = wiring(tool_id, steps, arguments)
    assert tags(drawn) <= _INERT
    assert "9 for, 1 against" in str(drawn)


def test_wiring_tells_what_the_caller_gives_from_what_is_always_the_same() -> None:
    """A constant is written at its argument, and wires lead from the parameter that an argument is really made from."""
    said = {"for": 9, "against": 0}
    arguments: list[dict[str, Any]] = [
        {"name": "partner", "source": 'always "acme"', "parameters": [], **said},
        {"name": "order_id", "source": "each of $.steps[0].output.ids", "parameters": ["only_ids"], **said},
        {"name": "zip", "source": "asked of the caller", "parameters": ["zip_code"], **said},
    ]
    about = {"effect": "read", "effect_origin": "declared", "for_each": None}
    steps = [
        {"tool_id": "one", **about, "arguments": arguments[2:]},
        {"tool_id": "two", **about, "arguments": arguments[:2]},
    ]
    drawn = str(wiring("tool", steps, ["zip_code", "only_ids"]))
    assert drawn.count("wire asked") == 2
    assert drawn.count("wire sure") == 1
    assert drawn.count('"fixed"') == 1
    assert "two takes partner: always &#34;acme&#34;." in drawn


def test_columns_are_links_that_say_what_they_count() -> None:
    """Each stretch of time is a link with its numbers in words."""
    drawn = str(
        columns([TimeColumn(5, 1, "09:00: 5 calls", "09", "/console/calls?a=1&b=2")], height=100, title="Calls")
    )
    assert 'href="/console/calls?a=1&amp;b=2"' in drawn
    assert "09:00: 5 calls" in drawn


def test_strip_places_a_number() -> None:
    """A number is placed among earlier ones, and too few are not compared."""
    assert strip([1, 2, 3], 2) is None
    assert "more than 60 % of 5 earlier calls" in str(strip([1, 2, 3, 4, 5], 4))


def test_trees_branch() -> None:
    """A second child begins a branch further in, and a turn with several children is a branch point."""
    nodes = [TreeNode("a", None, "hello", ("shown",), "user", "/a"), TreeNode("b", "a", "x", ("shown",), "agent", "/b"),
             TreeNode("c", "a", "y", ("other", "shown stale"), "agent", "/c")]  # fmt: skip
    drawn = str(tree(nodes, title="t"))
    assert drawn.count('data-branch=""') == 2
    assert drawn.count("<circle") == 4
    assert "turn agent shown stale" in drawn
    assert 'cx="12"' in drawn
    assert 'cx="34"' in drawn


def test_wires_pass_cards_by() -> None:
    """What leads past a card runs below every card, with its evidence, and the picture is high enough for it."""
    about = {"effect": "read", "effect_origin": "declared", "for_each": None}
    counted = {"for": 9, "against": 0}
    first: dict[str, Any] = {
        "name": "id",
        "source": "asked of the caller",
        "parameters": ["id"],
        "for": None,
        "against": None,
    }
    second: dict[str, Any] = {"name": "user", "source": "$.steps[0].output.user", "parameters": [], **counted}
    third: dict[str, Any] = {"name": "order", "source": "$.steps[0].output.order", "parameters": ["only"], **counted}
    steps: list[dict[str, Any]] = [{"tool_id": name, **about, "arguments": [argument]} for name, argument in
             (("one", first), ("two", second), ("three", third))]  # fmt: skip
    root = ET.fromstring(str(wiring("tool", steps, ["id", "only"])))
    height = float(root.attrib["viewBox"].split()[3])
    boxes = [each.attrib for each in root.iter("rect") if "card read" in each.attrib.get("class", "")]
    floor = max(float(each["y"]) + float(each["height"]) for each in boxes)
    around = [each.attrib["d"] for each in root.iter("path") if " L" in each.attrib["d"]]
    lanes = [float(each.partition(" L")[2].split()[1]) for each in around]
    assert len(lanes) == 2
    assert all(floor < lane < height for lane in lanes)
    assert len(set(lanes)) == 2
    said = [float(each.attrib["y"]) for each in root.iter("text") if each.text == "9 for, 0 against"]
    assert sorted(place > floor for place in said) == [False, True]
