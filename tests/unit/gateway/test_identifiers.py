"""Every tool has one function name in a script, whatever it is called."""

from __future__ import annotations

import keyword

from hypothesis import given
from hypothesis import strategies as st

from twinraven.gateway.identifiers import identifiers_for


def test_identifiers_are_kept_and_others_are_made() -> None:
    """A name that is an identifier stays; foreign characters go; what Python means something by gets a hash."""
    made = {
        name: function for function, name in identifiers_for(["get_order", "git.log", "2fa", "print", "class"]).items()
    }
    assert (made["get_order"], made["git.log"], made["2fa"]) == ("get_order", "git_log", "_2fa")
    assert made["print"].startswith("print_")
    assert made["class"].startswith("class_")


def test_a_name_that_needs_none_keeps_its_own_beside_one_that_becomes_it() -> None:
    """Of two that would be alike, the exact one keeps the name, however they are listed."""
    for listed in (["git.log", "git_log"], ["git_log", "git.log"]):
        made = identifiers_for(listed)
        assert made["git_log"] == "git_log"
        assert sorted(made.values()) == ["git.log", "git_log"]


@given(st.sets(st.text(min_size=1, max_size=10), max_size=20))
def test_any_names_get_different_identifiers(names: set[str]) -> None:
    """No tool is lost, and each function can be called in Python."""
    made = identifiers_for(names)
    assert set(made.values()) == names
    assert all(each.isidentifier() and each.isascii() and not keyword.iskeyword(each) for each in made)
