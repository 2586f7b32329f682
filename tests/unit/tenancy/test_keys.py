"""API keys as text."""

from __future__ import annotations

import hashlib

import pytest

from twinraven.foundation.clock import utc_now
from twinraven.tenancy import LOCAL, ApiKey, IssuedKey
from twinraven.tenancy.keys import hash_key, is_key, new_key, shown_prefix


@pytest.mark.req("CH-01")
def test_keys_are_long_random_and_recognisable() -> None:
    """A key has its prefix and 256 random bits, and no two are alike."""
    keys = {new_key() for _ in range(200)}
    assert len(keys) == 200
    assert all(is_key(key) and len(key) == 46 for key in keys)


def test_only_the_hash_is_remembered_and_little_is_shown() -> None:
    """What is stored cannot be turned back, and what is shown leaves more than 200 bits unknown."""
    key = new_key()
    assert hash_key(key) == hashlib.sha256(key.encode()).hexdigest()
    assert key.startswith(shown_prefix(key))
    assert len(key) - len(shown_prefix(key)) >= 35


@pytest.mark.parametrize("text", ["", "tr_", "tr_short", "xx_" + "a" * 43, "tr_" + "a" * 43 + "\n", "tr_" + "é" * 43])
def test_other_texts_are_no_keys(text: str) -> None:
    """What has not exactly the form of a key is refused before anything is looked up."""
    assert not is_key(text)


def test_a_key_in_clear_is_not_printed_by_accident() -> None:
    """The one answer that holds a key does not show it when it is printed."""
    issued = IssuedKey("tr_clear", ApiKey("t", "k", "u", "tr_clea", "", created_at=utc_now()))
    assert "tr_clear" not in repr(issued)


def test_the_embedded_user_is_an_administrator() -> None:
    """An embedded home has one user who may do everything."""
    assert (LOCAL.tenant_id, LOCAL.user_id, LOCAL.role) == ("default", "local", "admin")
