"""Answers on the wire and the outputs that memory keeps: nothing is lost on the way, in either direction."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.new import EVERYTHING
from twinraven.connectors import is_result, to_result
from twinraven.connectors.mcp.content import error_text, read_result, to_output
from twinraven.foundation.errors import InvalidOutput

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def answer(content: list[dict[str, Any]], structured: dict[str, Any] | None) -> dict[str, Any]:
    return {"content": content} if structured is None else {"content": content, "structuredContent": structured}


blocks: st.SearchStrategy[dict[str, Any]] = st.sampled_from(EVERYTHING["content"]) | st.builds(
    text_block, st.text(max_size=20)
)
objects = st.dictionaries(st.text(max_size=6), json_values, min_size=1, max_size=3)
results = st.builds(answer, st.lists(blocks, max_size=3), st.none() | objects)


def same_content(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two answers say the same, where a text that is JSON may be written differently."""
    return [_meaning(block) for block in one["content"]] == [_meaning(block) for block in other["content"]]


def _meaning(block: dict[str, Any]) -> Any:
    if block.keys() != {"type", "text"}:
        return block
    try:
        return json.loads(block["text"])
    except ValueError:
        return block["text"]


@given(results)
def test_an_answer_can_be_made_again_from_its_output(result: dict[str, Any]) -> None:
    """Every block of an answer, and its structured content, come back out of the output that was recorded."""
    again = to_result(to_output(result))
    if "structuredContent" in result:
        assert again["structuredContent"] == result["structuredContent"]
    assert same_content(again, result)


@given(json_values)
def test_any_output_can_be_said(output: Any) -> None:
    """Whatever a tool of any kind returns has an answer that a client understands."""
    assert is_result(to_result(output))


@pytest.mark.parametrize(
    ("sent", "output"),
    [
        ({"content": [{"type": "text", "text": "hello"}]}, "hello"),
        ({"content": [{"type": "text", "text": '{"id": 7}'}]}, {"id": 7}),
        ({"content": [{"type": "text", "text": "[1, 2]"}]}, [1, 2]),
        ({"content": [{"type": "text", "text": "12"}]}, "12"),
        ({"content": [{"type": "text", "text": '{"id": 7}'}], "structuredContent": {"id": 7}}, {"id": 7}),
        ({"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}}, {"result": 5}),
    ],
)
def test_the_output_is_the_value_inside(sent: dict[str, Any], output: Any) -> None:
    """What learned tools build on is the value an answer carries, not its wrapping."""
    assert to_output(read_result(sent, "x")) == output


def test_an_answer_that_says_more_is_its_own_output() -> None:
    """Pictures, sounds, resources and several blocks are recorded as they came."""
    result = read_result(EVERYTHING, "x")
    assert to_output(result) == result
    assert to_result(to_output(result))["content"] == EVERYTHING["content"]


def test_text_that_looks_like_an_answer_stays_text() -> None:
    """A tool that answers the text of an answer is not mistaken for one that gave it."""
    inner = json.dumps({"content": [{"type": "text", "text": "x"}]})
    sent = {"content": [{"type": "text", "text": inner}]}
    assert to_result(to_output(read_result(sent, "x"))) == sent


def test_a_kind_from_the_future_is_kept_as_text() -> None:
    """A content block of an unknown kind reaches the client as the JSON it came as."""
    block = {"type": "hologram", "beams": 3}
    (kept,) = read_result({"content": [block]}, "x")["content"]
    assert (kept["type"], json.loads(kept["text"])) == ("text", block)


@pytest.mark.parametrize(
    "content",
    [
        "words",
        ["words"],
        [{"text": "no type"}],
        [{"type": "text"}],
        [{"type": "image", "data": "x"}],
        [{"type": "resource", "resource": {"uri": "x"}}],
        [{"type": "resource_link", "uri": "x"}],
    ],
)
def test_an_answer_that_is_none_is_the_servers_fault(content: Any) -> None:
    """Content without what its kind needs is refused with the name of the tool."""
    with pytest.raises(InvalidOutput, match="get_order"):
        read_result({"content": content}, "get_order")


def test_a_failure_says_why() -> None:
    """The words of a failure are its texts; where there are none, that is said."""
    assert error_text({"content": [{"type": "text", "text": "no"}, {"type": "text", "text": "way"}]}) == "no\nway"
    assert "did not say" in error_text({"content": []})


def test_the_hop_an_answer_came_by_is_not_passed_on() -> None:
    """An upstream's own stamp is ours to make for our client; other notes of the answer stay."""
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "upstream"}, "note": 1}
    result = read_result({"content": [], "resultType": "complete", "_meta": meta}, "x")
    assert result == {"content": [], "_meta": {"note": 1}}
