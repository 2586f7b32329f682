"""Writes the table of word vectors (knowledge/word_vectors.bin) from a sentence embedder.

    python -m tools.relate_words

The words are the whole words of BERT's vocabulary (knowledge/wordpieces.txt), from the most frequent on; the extra
`embeddings` gives each a vector (all-MiniLM-L6-v2, Apache 2.0), from which the mean of all is taken: without that,
every word is a little like every other. Words of one stem are one. Of 384 dimensions the 128 that vary most are kept,
as numbers of eight bits. No dialogue and no question had a part in it, so that it is tuned to none.

The first line holds the stems, from the most frequent on; their vectors follow in the same order, then the numbers of
the sixteen stems that are nearest to each.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tools.common_words import FOLDER
from twinraven.knowledge import installed_embedder
from twinraven.knowledge.stemming import stem
from twinraven.knowledge.word_vectors import NEIGHBOURS, WIDTH
from twinraven.knowledge.words import is_stop_word

TARGET: Final = FOLDER / "word_vectors.bin"
STEMS: Final = 12_000
_FORMS: Final = 4
"""Words of one stem that are looked at; each counts half as much as the one before."""
_LARGEST: Final = 127

Vectors = NDArray[np.float32]


def main() -> None:
    embedder = installed_embedder()
    if embedder is None:
        raise SystemExit("the extra `embeddings` is not installed")
    pieces = (FOLDER / "wordpieces.txt").read_text(encoding="utf-8").splitlines()
    words = [each for each in pieces if each.isascii() and each.isalpha() and len(each) > 1]
    stems, vectors = _by_stem(words, embedder.embed(words))
    narrow = _narrowed(vectors)
    largest: Vectors = np.abs(narrow).max(axis=1, keepdims=True)
    packed: NDArray[np.int8] = np.round(narrow * (_LARGEST / largest)).astype(np.int8)
    unpacked = _unit(packed.astype(np.float32))
    near = [np.sort(np.argpartition(-_others(unpacked, at), NEIGHBOURS)[:NEIGHBOURS]) for at in range(len(stems))]
    neighbours: NDArray[np.uint16] = np.array(near, dtype="<u2")
    TARGET.write_bytes(" ".join(stems).encode() + b"\n" + packed.tobytes() + neighbours.tobytes())


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


def _narrowed(vectors: Vectors) -> Vectors:
    """The vectors in the dimensions in which they vary most."""
    *_, axes = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    return _unit(vectors @ axes[:WIDTH].T)


def _others(vectors: Vectors, at: int) -> Vectors:
    """How much all are like one; itself least."""
    alike = vectors @ vectors[at]
    alike[at] = -1
    return alike


def _unit(vectors: Vectors) -> Vectors:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


if __name__ == "__main__":
    main()
