"""The pictures are well-formed, complete and self-contained, whatever the tools are called."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from hypothesis import given
from hypothesis import strategies as st

from examples.support_desk import ChainStep, Wire, chain_svg, transition_svg

SVG = "{http://www.w3.org/2000/svg}"
NAMES = st.text(max_size=12)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in Xml.fromstring(svg).iter(f"{SVG}text")]


@given(counts=st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 10**6), max_size=12), title=NAMES)
def test_any_names_make_a_well_formed_graph(counts: dict[tuple[str, str], int], title: str) -> None:
    """Control characters, markup and surrogates in names never break the file."""
    root = Xml.fromstring(transition_svg(counts, title=title))
    assert root.tag == f"{SVG}svg"
    assert len(root.findall(f"{SVG}path")) == len(counts)


@given(names=st.lists(NAMES, min_size=1, max_size=5), argument=NAMES, path=NAMES, each=st.booleans())
def test_any_names_make_a_well_formed_chain(names: list[str], argument: str, path: str, each: bool) -> None:
    """A chain of any names is drawn with one edge per wire."""
    steps = [
        ChainStep(name, (Wire(argument, index - 1 if index else None, path),), each=each)
        for index, name in enumerate(names)
    ]
    root = Xml.fromstring(chain_svg(steps, title=path))
    assert len(root.findall(f"{SVG}path")) == len(names)


def test_commoner_transitions_are_wider() -> None:
    """The width of an edge follows its count, and every tool and count is written out."""
    svg = transition_svg({("find", "get"): 90, ("get", "note"): 9})
    widths = {
        (path.findtext(f"{SVG}title") or "").split(":")[0]: float(path.attrib["stroke-width"])
        for path in Xml.fromstring(svg).iter(f"{SVG}path")
    }
    assert widths["find → get"] > widths["get → note"]
    assert {"find", "get", "note", "90", "9"} <= set(texts(svg))


def test_what_is_left_out_is_said() -> None:
    """Beyond the limit rare transitions are dropped with a note, but no tool is left without its way in."""
    counts = {("a", "b"): 50, ("b", "c"): 40, ("d", "c"): 30, ("b", "d"): 2, ("a", "c"): 1}
    svg = transition_svg(counts, limit=3)
    assert "1 rarer transitions are not shown" in texts(svg)
    assert "b → d: 2" in svg
    assert "not shown" not in transition_svg(counts)


def test_a_chain_shows_what_it_takes_and_how_it_is_wired() -> None:
    """Parameters, steps, wires, the map and the write can be told apart."""
    svg = chain_svg(
        [
            ChainStep("find_user", (Wire("email", None, "email"),)),
            ChainStep("get_order", (Wire("order_id", 0, "order_ids[*]"),), each=True),
            ChainStep("add_note", (Wire("user_id", 0, "user_id"),), effect="write"),
        ],
        title="orders_of_user",
    )
    assert {"orders_of_user", "email", "find_user", "get_order × each", "add_note"} <= set(texts(svg))
    assert "order_ids[*] → order_id" in texts(svg)
    boxes = [box.attrib["class"].split() for box in Xml.fromstring(svg).iter(f"{SVG}rect")]
    assert len(boxes) == 6
    assert sum("write" in box for box in boxes) == 1
    assert sum("given" in box for box in boxes) == 1


def test_pictures_need_nothing_from_outside() -> None:
    """Light and dark are inside the file, and it neither loads nor runs anything."""
    for svg in (transition_svg({("a", "b"): 1}), chain_svg([ChainStep("a")], title="t")):
        assert "prefers-color-scheme: dark" in svg
        assert not re.search(r"<script|href|url\(|@import|<image", svg)


def test_everything_stands_inside_the_picture() -> None:
    """No box lies outside the view, also with edges that run back and loops."""
    counts = {("a", "b"): 9, ("b", "c"): 8, ("c", "a"): 3, ("b", "b"): 4, ("a", "c"): 2}
    root = Xml.fromstring(transition_svg(counts))
    width, height = (float(side) for side in root.attrib["viewBox"].split()[2:])
    for box in root.iter(f"{SVG}rect"):
        assert 0 <= float(box.attrib["x"]) <= width - float(box.attrib["width"])
        assert 0 <= float(box.attrib["y"]) <= height - float(box.attrib["height"])
