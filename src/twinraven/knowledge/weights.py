"""Holds the weights of the ranking's signals.

They come from tools/train_ranker.py: dialogues of nine kinds (bench/dialogues), listwise logistic regression held near
the rules by a ridge. On the kind that training had not seen, R@5 / R@10 went from .59/.67 by the rules to .67/.75 (mean
of the nine). `meaning` is the similarity of vectors, which counts only where an embedder is installed; its weight was
not trained but chosen among four, and that of who speaks between two, on eight whole dialogues. Few of the questions
name a date, so the weight of `date` is by hand, too: with the day or the month of the evidence added to the questions
of six kinds, 0.3 serves both. `detail`, `covers` and `named` were added to the trained weights: training all of them
anew on ten kinds gives 0.22, 0.07 and 0.13, and the same recall. On the kind left out they add .010 and .008 (from
.673/.758 to .683/.765, mean of the ten). Each weight has the sign that its signal states: without that, matching words
would count against a hit, because `by_rules` holds them already.
"""

from __future__ import annotations

from typing import Final

WEIGHTS: Final[dict[str, float]] = {
    "speaker": 0.12,
    "other_speaker": -0.12,
    "asks": -0.08,
    "before": 0.1,
    "after": 0.075,
    "before_2": 0.36,
    "around": 0.035,
    "answers": 0.11,
    "time": 0.17,
    "number": 0.08,
    "place": 0.01,
    "date": 0.3,
    "personal": 0.055,
    "length": 0.24,
    "detail": 0.12,
    "covers": 0.1,
    "named": 0.1,
    "meaning": 0.2,
    "session": 0.09,
    "by_rules": 0.7,
    "names": 0.035,
}
