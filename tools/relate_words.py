"""Writes the table of related words (knowledge/related_words.txt) from the vectors of a sentence embedder.

    python -m tools.relate_words VECTORS.npz

VECTORS.npz holds `w`, common English words from the most frequent on, and `v`, a unit vector for each. Two words are
related where one is among the eight nearest of the other at a cosine of at least 0.6. The shipped table comes from the
16,000 most frequent words of wordfreq 3.1 and all-MiniLM-L6-v2 (Apache 2.0); no dialogue and no question had a part in
it, so that it is tuned to none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from twinraven.knowledge.stemming import stem
from twinraven.knowledge.words import is_stop_word

TARGET = Path(__file__).parent.parent / "src/twinraven/knowledge/related_words.txt"
LEAST_SIMILAR = 0.6
NEAREST = 8
WORDS = 8000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path, metavar="VECTORS.npz")
    given = np.load(parser.parse_args().vectors)
    first: dict[str, int] = {}
    for place, word in enumerate(str(each) for each in given["w"]):
        if not is_stop_word(word):
            first.setdefault(stem(word), place)
    stems = list(first)[:WORDS]
    vectors = given["v"][[first[each] for each in stems]]
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, -1)
    nearest: list[list[int]] = np.argpartition(-alike, NEAREST, axis=1)[:, :NEAREST].tolist()
    lines: list[str] = []
    for place, name in enumerate(stems):
        close = sorted(stems[other] for other in nearest[place] if alike[place, other] >= LEAST_SIMILAR)
        if close:
            lines.append(f"{name} {' '.join(close)}")
    TARGET.write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()
