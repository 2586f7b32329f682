"""Tools are found by words: the best first, learned ones ahead where they cover as much."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from twinraven.gateway.tool_search import ToolIndex, words_of


def definition(name: str, description: str = "", **parameters: str) -> dict[str, Any]:
    members = {each: {"type": "string", "description": words} for each, words in parameters.items()}
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": members}}


TOOLS = [
    definition("git__git_log", "Shows the commits of a repository.", repo_path="where it is"),
    definition("getUserProfile", "Reads who somebody is.", user_id="whose"),
    definition("refund_order", "Gives the money of an order back.", order_id="which one"),
    definition("list_orders", "Lists a customer's orders.", customer="whose they are"),
    definition("order_history", "Lists a customer's orders and refunds each.", customer="whose they are"),
]


def names(query: str, *, learned: tuple[int, ...] = ()) -> list[str]:
    index = ToolIndex(TOOLS, learned=learned)
    return [TOOLS[match.place]["name"] for match in index.search(query)]


def test_names_count_in_any_spelling() -> None:
    """Snake case, camel case, prefixes, plurals and capitals are the same words."""
    assert list(words_of("getUserProfiles of git__GIT_log HTTPServer2")) == [
        *("get", "user", "profile", "git", "git", "log", "http", "server", "2"),
    ]
    assert names("user profile")[0] == "getUserProfile"
    assert names("GIT commits")[0] == "git__git_log"


def test_parameters_and_descriptions_are_searched() -> None:
    """A tool is found by what it takes and by what it is said to do."""
    assert names("repo path") == ["git__git_log"]
    assert names("money") == ["refund_order"]
    assert names("weather") == []
    assert names("the of and") == []


def test_a_learned_tool_leads_only_where_it_covers_the_need() -> None:
    """It comes first if no other tool has more of the words, and by its score if one has."""
    assert names("customer orders")[0] == "list_orders"
    assert names("customer orders", learned=(4,))[0] == "order_history"
    assert names("order money back", learned=(4,))[0] == "refund_order"


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=30)), max_size=8), st.text(max_size=30))
def test_any_text_can_be_searched(tools: list[tuple[str, str]], query: str) -> None:
    """Whatever the words, each tool is found at most once, and only if it shares a word with the query."""
    index = ToolIndex([definition(name, said) for name, said in tools])
    found = index.search(query)
    assert len({match.place for match in found}) == len(found)
    for match in found:
        name, said = tools[match.place]
        assert set(words_of(query)) & {*words_of(name), *words_of(said)}
        assert match.score > 0
