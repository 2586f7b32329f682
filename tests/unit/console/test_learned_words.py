"""What maintenance found about a learned tool is told in words, and only what was in service can be rolled back to."""

from __future__ import annotations

import pytest

from twinraven.console.views.learned import flag_words


@pytest.mark.parametrize(
    ("name", "figures", "words"),
    [
        (
            "drift",
            {"ratio": 0.2455, "support": 0.135, "original_support": 0.55, "confidence": 0.9, "sessions": 200},
            (
                "agents hardly make these calls in this order any more: in 13.5 % of 200 sessions, "
                "55.0 % when it was learned"
            ),
        ),
        (
            "fails_more_than_its_parts",
            {"rate": 0.4, "at_least": 0.3, "expected": 0.05, "calls": 20},
            "40 % of 20 calls fail, where its parts would lead one to expect 5 %",
        ),
        ("saves_no_turns", {"uses": 1, "turns_saved": -2}, "1 use saved no turn"),
        (
            "not_taken",
            {"fitted": 60, "taken": 2, "share_high": 0.1, "advice": "…"},
            "agents took it in 2 of 60 sessions where it fitted, and made its calls by hand in the others",
        ),
        ("of_another_release", {"n": 1, "of": "x"}, "n: 1, of: x"),
    ],
)
def test_a_flag_is_told_in_words(name: str, figures: dict[str, object], words: str) -> None:
    """Each flag says what was measured; one of another release says its figures."""
    assert flag_words(name, figures) == words
