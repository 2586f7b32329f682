"""The life of a version has one way forward and one step back."""

from __future__ import annotations

from itertools import product

import pytest

from twinraven.foundation.errors import IllegalTransition
from twinraven.registry import ToolStatus, check_transition

_LEGAL = {("draft", "testing"), ("testing", "promoted"), ("testing", "draft"), ("promoted", "retired")}


@pytest.mark.req("TR-18")
@pytest.mark.parametrize(("old", "new"), list(product(ToolStatus, ToolStatus)))
def test_only_the_drawn_transitions_are_allowed(old: ToolStatus, new: ToolStatus) -> None:
    """Of all sixteen moves four are allowed, and the others are refused by name."""
    if (old.value, new.value) in _LEGAL:
        check_transition(old, new)
    else:
        with pytest.raises(IllegalTransition, match=f"{old} tool cannot become {new}"):
            check_transition(old, new)
