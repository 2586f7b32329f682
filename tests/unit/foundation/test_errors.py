"""The error tree: stable codes, and a picture of it that is true."""

from __future__ import annotations

from twinraven.foundation import errors
from twinraven.foundation.errors import PolicyViolation, TwinRavenError


def all_errors(root: type[TwinRavenError] = TwinRavenError) -> list[type[TwinRavenError]]:
    found = [root]
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            found += all_errors(child)
    return found


def test_codes_are_unique() -> None:
    """A code names one kind of error and no other."""
    codes = [error.code for error in all_errors()]
    assert len(set(codes)) == len(codes)


def test_the_drawn_tree_is_the_real_one() -> None:
    """Every class and its code stand in the picture at the top of the module."""
    drawn = (errors.__doc__ or "").splitlines()
    for error in all_errors()[1:]:
        assert any(error.__name__ in line.split() and error.code in line.split() for line in drawn if "──" in line)


def test_policy_is_never_retried() -> None:
    """A violated rule stays violated."""
    assert PolicyViolation.retryable is False


def test_an_error_is_an_answer() -> None:
    """An error tells programs its code, people its message, and both its details."""
    answer = errors.InvalidInput("q is missing", field="q").as_json()
    assert answer == {
        "code": "VALIDATION_FAILED",
        "message": "q is missing",
        "retryable": False,
        "details": {"field": "q"},
    }


def test_errors_are_read_back_from_what_was_stored() -> None:
    """Code, class, who acts, retryable, message and details come back; a code from outside the tree is kept."""
    for kind in all_errors():
        stored = kind("it broke", tool_id="t", step=3)
        stored.retryable = not kind.retryable
        read = errors.error_from_json(stored.as_record())
        assert type(read) is kind
        assert (read.acts, read.as_json()) == (stored.acts, stored.as_json())
    foreign = TwinRavenError("theirs", why="kept")
    foreign.code, foreign.acts = "THEIR_CODE", "model"
    read = errors.error_from_json(foreign.as_record())
    assert read.as_record() == foreign.as_record()
