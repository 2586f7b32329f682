"""User words in `_meta`: the names clients use, as texts and as messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.gateway.user_input import user_words

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "yes?"},
    {"role": "user", "content": [{"type": "text", "text": "cancel"}, {"type": "image", "data": "…"}]},
    {"role": "user", "parts": [{"type": "text", "content": "order 17"}]},
    {"role": "assistant", "content": None, "tool_calls": []},
]


@pytest.mark.parametrize("name", ["twinraven/user_input", "user_input", "userPrompt", "user_message", "userQuery"])
def test_words_are_read_under_their_common_names(name: str) -> None:
    """A text under any of the known names is what the user said."""
    assert user_words({name: "cancel order 17"}) == "cancel order 17"


@pytest.mark.parametrize("value", [MESSAGES, json.dumps(MESSAGES)])
def test_words_are_read_from_messages(value: Any) -> None:
    """Of messages, as a list or as its JSON, the user's last ones count."""
    assert user_words({"gen_ai.input.messages": value}) == "cancel\norder 17"


@pytest.mark.parametrize(
    "value", ["", "  ", 7, None, [], [7], "[", [{"role": "user"}], [{"role": "user", "content": {}}]]
)
def test_what_says_nothing_is_no_words(value: Any) -> None:
    """Empty, malformed or foreign values are passed over."""
    assert user_words({"user_input": value if isinstance(value, str) and not value.strip() else None}) is None
    assert user_words({"messages": value}) is None


def test_words_are_bounded() -> None:
    """However much a client sends, only so much is kept."""
    assert len(user_words({"user_input": "x" * 1_000_000}) or "") == 10_000


@given(
    st.dictionaries(
        st.sampled_from(["user_input", "messages", "gen_ai.input.messages"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "text"]), inner)
            ),
            max_leaves=10,
        ),
    )
)
def test_no_meta_breaks_a_call(meta: dict[str, Any]) -> None:
    """Whatever JSON a client sends under these names, the result is a text or nothing."""
    words = user_words(meta)
    assert words is None or words
