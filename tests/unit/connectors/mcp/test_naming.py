"""Names that every client accepts, and that never stand for two tools."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from twinraven.connectors import legal_name, upstream_tool_id
from twinraven.connectors.mcp.naming import distinct_tool_id

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
names = st.text(min_size=1, max_size=80) | st.from_regex(r"[a-z_]{1,12}", fullmatch=True)


@given(names, names)
def test_a_tools_name_is_legal_everywhere(server: str, tool: str) -> None:
    """Whatever a server and its tool are called, clients and model providers accept the name they are given."""
    assert LEGAL.fullmatch(upstream_tool_id(server, tool))
    assert LEGAL.fullmatch(legal_name(tool))
    assert LEGAL.fullmatch(distinct_tool_id(server, tool))


@given(st.sets(st.tuples(names, names), min_size=2, max_size=6))
def test_two_tools_never_share_a_name(tools: set[tuple[str, str]]) -> None:
    """Different tools have different names, also where the separator stands inside a server's or a tool's own name."""
    assert len({upstream_tool_id(server, tool) for server, tool in tools}) == len(tools)


def test_the_common_case_reads_as_it_was_written() -> None:
    """A legal name is left alone."""
    assert upstream_tool_id("git", "git_log") == "git__git_log"
    assert legal_name("get_order") == "get_order"


def test_a_tool_has_a_second_name() -> None:
    """Where something else is called `py__x`, the tool is still told apart, and is still recognised."""
    assert distinct_tool_id("py", "x").startswith("py__x_")
    assert distinct_tool_id("py", "x") != distinct_tool_id("py", "y")


def test_a_separator_inside_a_server_does_not_confuse() -> None:
    """`a__b` with `c`, `a` with `b__c`, and names that end or begin with an underscore are four names."""
    ids = {upstream_tool_id(*pair) for pair in (("a__b", "c"), ("a", "b__c"), ("a_", "b"), ("a", "_b"))}
    assert len(ids) == 4
