"""Writes the table of related words (knowledge/related_words.txt) from the vectors of a sentence embedder.

    python -m tools.relate_words

The words are the whole words of BERT's vocabulary (knowledge/wordpieces.txt), from the most frequent on; the extra
`embeddings` gives each a vector (all-MiniLM-L6-v2, Apache 2.0), from which the mean of all is taken: without that,
every word is a little like every other. Words of one stem are one. Two words are related where one is among the
sixteen nearest of the other at a cosine of at least 0.4. A line holds a stem, and behind each bar the stems that are as
near as `STEPS` says. No dialogue and no question had a part in it, so that it is tuned to none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tools.common_words import FOLDER
from twinraven.knowledge import installed_embedder
from twinraven.knowledge.concepts import STEPS
from twinraven.knowledge.stemming import stem
from twinraven.knowledge.words import is_stop_word

TARGET: Final = FOLDER / "related_words.txt"
NEAREST: Final = 16
STEMS: Final = 12_000
_FORMS: Final = 4
"""Words of one stem that are looked at; each counts half as much as the one before."""
_ROWS: Final = 1_000

Vectors = NDArray[np.float32]


def main() -> None:
    embedder = installed_embedder()
    if embedder is None:
        raise SystemExit("the extra `embeddings` is not installed")
    pieces = (FOLDER / "wordpieces.txt").read_text(encoding="utf-8").splitlines()
    words = [each for each in pieces if each.isascii() and each.isalpha() and len(each) > 1]
    stems, vectors = _by_stem(words, embedder.embed(words))
    TARGET.write_text("".join(f"{line}\n" for line in sorted(_lines(stems, vectors))), encoding="utf-8")


def _by_stem(words: list[str], vectors: Vectors) -> tuple[list[str], Vectors]:
    """The most frequent stems, and a vector of unit length for each."""
    moved = _unit(vectors - vectors.mean(axis=0))
    forms: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        if not is_stop_word(word):
            forms.setdefault(stem(word), []).append(place)
    stems = list(forms)[:STEMS]
    summed = [sum(moved[at] * 0.5**n for n, at in enumerate(forms[each][:_FORMS])) for each in stems]
    return stems, _unit(np.array(summed, dtype=np.float32))


def _unit(vectors: Vectors) -> Vectors:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _lines(stems: list[str], vectors: Vectors) -> Iterator[str]:
    for first in range(0, len(stems), _ROWS):
        alike = vectors[first : first + _ROWS] @ vectors.T
        for row, cosines in enumerate(alike):
            cosines[first + row] = -1
            near = [int(each) for each in np.argpartition(-cosines, NEAREST)[:NEAREST]]
            bounds = (2.0, *STEPS)
            steps = [
                " ".join(sorted(stems[at] for at in near if low <= cosines[at] < high))
                for high, low in pairwise(bounds)
            ]
            if any(steps):
                yield f"{stems[first + row]}|{'|'.join(steps)}"


if __name__ == "__main__":
    main()
