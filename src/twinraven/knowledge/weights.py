"""The weights of the ranking's signals.

They come from tools/train_ranker.py: composed dialogues in four voices (bench/dialogues), listwise logistic regression
held near the rules by a ridge. Of what training moved away from the rules seven tenths are taken, because composed
dialogues are more regular than real ones. On the voice that training had not seen, R@5 / R@10 went from .60/.69 by
the rules to .66/.73 (mean of the four; plain FTS5 gives .38/.45 there). `meaning` is the similarity of vectors, which
counts only where an embedder is installed; its weight was not trained but chosen among four on the same dialogues.
"""

from __future__ import annotations

from typing import Final

WEIGHTS: Final[dict[str, float]] = {
    "words": 0.0,
    "exact": -0.08,
    "coverage": -0.05,
    "speaker": 0.02,
    "other_speaker": -0.02,
    "asks": -0.07,
    "before": 0.075,
    "after": 0.05,
    "before_2": 0.2,
    "after_2": 0.0,
    "around": 0.035,
    "answers": 0.05,
    "time": 0.11,
    "number": 0.075,
    "place": 0.025,
    "date": 0.1,
    "personal": 0.05,
    "length": 0.2,
    "meaning": 0.2,
    "session": 0.11,
    "by_rules": 0.95,
    "rank": 0.0,
    "names": 0.02,
}
