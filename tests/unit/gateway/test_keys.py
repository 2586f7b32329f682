"""Keys of requests: the client's own or none, never a silent third."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidInput
from twinraven.gateway.keys import request_key, stated_key
from twinraven.muninn import check_name

KEY = "twinraven/idempotency_key"
ids = st.integers() | st.text(max_size=600)


@pytest.mark.parametrize("wrong", [12345, True, False, 1.5, [], {}, "", "k" * 513, "a\tb", "a\x00b", "\ud800"])
@pytest.mark.parametrize("name", [KEY, "idempotency_key", "idempotencyKey"])
def test_a_key_that_cannot_be_used_is_refused(name: str, wrong: Any) -> None:
    """What a client states as its key and cannot be one is an error that names the field and the fix."""
    with pytest.raises(InvalidInput, match=name) as caught:
        stated_key({name: wrong})
    assert caught.value.details["field"] == f"_meta.{name}"
    assert "1 to 512" in caught.value.details["fix"]


@pytest.mark.parametrize("key", ["k", "k" * 512, "order 7", "Bestellung für Ürsli"])
def test_a_key_that_can_be_used_is(key: str) -> None:
    """A key that the call path takes is taken as it is."""
    assert stated_key({"idempotency_key": key}) == key


def test_the_first_name_that_says_something_counts() -> None:
    """Without a key, and with null for one, there is none; our own name goes before those that others use."""
    assert stated_key({}) is None
    assert stated_key({KEY: None}) is None
    assert stated_key({KEY: None, "idempotencyKey": "b"}) == "b"
    assert stated_key({KEY: "a", "idempotency_key": "b"}) == "a"


@given(st.lists(ids, min_size=2, max_size=5, unique_by=json.dumps))
def test_each_request_of_a_session_has_its_own_key(found: list[str | int]) -> None:
    """Ids of other types or texts give other keys, and every one of them can be used."""
    keys = {request_key("mcp-s1", one) for one in found}
    assert len(keys) == len(found)
    assert all(check_name(key, field="key") for key in keys)


def test_a_number_and_its_digits_are_two_ids() -> None:
    """2 and "2" are different requests."""
    assert request_key("mcp-s1", 2) != request_key("mcp-s1", "2")
