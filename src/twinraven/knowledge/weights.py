"""Holds the weights of the ranking's signals.

They come from tools/train_ranker.py: dialogues of ten kinds (bench/dialogues), listwise logistic regression held near
the rules by a ridge. On the kind that training had not seen, R@5 / R@10 are .686 / .787, where the rules alone have
.597 / .673 (mean of the ten), and .681 / .756 before `near`, `theme` and `session_theme`. Training gave the share of
the question's words that a turn has no weight beside `near`, so it is gone, and how well the words of a session match
counts in `by_rules` alone. `meaning` is the similarity of vectors, which counts only where an embedder is installed;
its weight was not trained but chosen among four on eight whole dialogues. Few of the questions name a date, so the
weight of `date` is by hand, too: with the day or the month of the evidence added to the questions of six kinds, 0.3
serves both. Each weight has the sign that its signal states: without that, matching words would count against a hit,
because `by_rules` holds them already.
"""

from __future__ import annotations

from typing import Final

WEIGHTS: Final[dict[str, float]] = {
    "speaker": 0.085,
    "other_speaker": -0.085,
    "asks": -0.09,
    "before": 0.055,
    "before_2": 0.26,
    "around": 0.03,
    "answers": 0.075,
    "time": 0.14,
    "number": 0.065,
    "place": 0.02,
    "date": 0.3,
    "personal": 0.03,
    "length": 0.145,
    "detail": 0.215,
    "named": 0.145,
    "meaning": 0.2,
    "by_rules": 0.545,
    "names": 0.01,
    "near": 0.2,
    "theme": 0.185,
    "session_theme": 0.055,
}
