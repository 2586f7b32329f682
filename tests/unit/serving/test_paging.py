"""Cursors: pages of any size show everything once, and a cursor that was not given out is refused by name."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidInput
from twinraven.serving.paging import decode_cursor, encode_cursor, long_page_of, page_of, slice_of

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.sets(st.text(min_size=1, max_size=5), max_size=40),
    st.lists(st.text(min_size=1, max_size=5), max_size=20),
    st.integers(1, 7),
)
def test_pages_of_any_size_show_everything_once(items: set[str], added: list[str], limit: int) -> None:
    """Whatever is there from beginning to end is shown exactly once, also while other things are added."""
    shown: list[str] = []
    there, coming = set(items), list(added)
    query: dict[str, Any] = {"limit": limit}
    while True:
        page = slice_of(sorted(there), query, key=lambda each: each, show=lambda each: each)
        assert len(page.items) <= limit
        shown.extend(page.items)
        if page.next_place is None:
            break
        cursor = encode_cursor("list", query, page.next_place)
        query = {"limit": limit, "cursor": decode_cursor("list", query, cursor, (str,))}
        if coming:
            there.add(coming.pop())
    assert len(shown) == len(set(shown))
    assert items <= set(shown) <= items | set(added)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.text(alphabet="ABCxyz019-_="))
def test_any_text_is_a_cursor_or_refused_by_name(text: str) -> None:
    """Chance does not find a cursor; what it finds is refused, and the refusal names the parameter."""
    with pytest.raises(InvalidInput) as refusal:
        decode_cursor("list", {"limit": 5}, text, (str,))
    assert refusal.value.details["field"] == "cursor"


@given(_JSON, st.booleans())
def test_a_forged_place_is_one_that_could_be_or_refused(place: Any, is_marked: bool) -> None:
    """Who copies the mark of a question can name any place, but only one of the kinds that its list is ordered by."""
    mark = orjson.loads(_decoded(encode_cursor("list", {}, ["a", 1])))[0]
    try:
        raw = orjson.dumps([mark if is_marked else "0" * 16, place])
    except TypeError:
        raw = b"[]"
    try:
        found = decode_cursor("list", {}, base64.urlsafe_b64encode(raw).rstrip(b"=").decode(), (str, int))
    except InvalidInput as refusal:
        assert refusal.details["field"] == "cursor"
    else:
        assert is_marked
        assert [type(part) for part in found] == [str, int]
        assert "\0" not in found[0]
        assert abs(found[1]) < 2**63


def test_a_cursor_belongs_to_its_question() -> None:
    """Another list, or the same under another filter, does not take it; another page size does."""
    cursor = encode_cursor("listEvents", {"tool_id": "a", "limit": 5}, [1, 2])
    assert decode_cursor("listEvents", {"tool_id": "a", "limit": 50, "cursor": cursor}, cursor, (int, int)) == [1, 2]
    for question, query in (("listAudit", {"tool_id": "a"}), ("listEvents", {"tool_id": "b"}), ("listEvents", {})):
        with pytest.raises(InvalidInput, match="belongs to another question"):
            decode_cursor(question, query, cursor, (int, int))


def _decoded(cursor: str) -> bytes:
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


@pytest.mark.parametrize("count", [0, 1, 16, 17, 300, 301])
async def test_a_long_page_is_the_same_page_made_while_others_go_on(count: int) -> None:
    """A long page has what a page has, and the event loop has its turns before it is done."""
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    found = list(range(count))

    def place(number: int) -> list[Any]:
        return [number]

    def show(number: int) -> dict[str, int]:
        return {"number": number}

    page = await long_page_of(found, 300, place=place, show=show)
    assert page == page_of(found, 300, place=place, show=show)
    assert bool(turns) is (count > 16)
