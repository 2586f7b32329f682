"""How the tools of servers are called: none twice, and none in the place of another."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from twinraven.connectors import PinnedTool
from twinraven.connectors.mcp.naming import distinct_tool_id, upstream_tool_id
from twinraven.connectors.mcp.observation import name_tools

words = st.sampled_from(["a", "b", "a__b", "_", "x", "x_1"])


def pinned(server: str, name: str, tool_id: str) -> PinnedTool:
    return PinnedTool(server, name, tool_id, {"name": name}, datetime(2026, 1, 1, tzinfo=UTC))


@given(st.sets(words, min_size=1), st.sets(st.tuples(words, words)), st.sets(st.tuples(words, words)))
def test_no_name_stands_for_two_tools(
    listed: set[str], other: set[tuple[str, str]], taken: set[tuple[str, str]]
) -> None:
    """Whatever is pinned and whatever others have, each tool of a server gets a free name or none."""
    there = [pinned(server, name, upstream_tool_id(server, name)) for server, name in other]
    elsewhere = {upstream_tool_id(*pair) for pair in taken}
    names = name_tools("a", sorted(listed), there, elsewhere.__contains__)
    assert names.ids.keys() | {one.name for one in names.left_out} == listed
    assert len(set(names.ids.values())) == len(names.ids)
    assert not elsewhere & set(names.ids.values())
    foreign = {tool.tool_id for tool in there if tool.server != "a"}
    assert not foreign & set(names.ids.values())


def test_a_new_tool_makes_way_for_the_one_that_was_there() -> None:
    """A name that something else has is left to it, and the newcomer is called by the other name."""
    names = name_tools("py", ["x", "y"], [], {"py__x"}.__contains__)
    assert names.ids == {"x": distinct_tool_id("py", "x"), "y": "py__y"}
    assert (names.apart, names.left_out) == (("x",), ())


def test_a_tool_keeps_the_name_it_was_given() -> None:
    """A tool that was named apart stays so when the reason is gone, since agents know it by that name."""
    known = pinned("py", "x", distinct_tool_id("py", "x"))
    names = name_tools("py", ["x"], [known], lambda _: False)
    assert (names.ids, names.apart) == ({"x": known.tool_id}, ())


def test_a_tool_without_a_free_name_is_left_out() -> None:
    """Where both names are taken, or its own was taken from it, the tool is left out with the reason."""
    both = {"py__x", distinct_tool_id("py", "x")}
    crowded = name_tools("py", ["x"], [], both.__contains__)
    hidden = name_tools("py", ["x"], [pinned("py", "x", "py__x")], {"py__x"}.__contains__)
    for names in (crowded, hidden):
        assert names.ids == {}
        assert [str(one) for one in names.left_out] == ["x: another tool is called 'py__x'; rename that or the server"]
