"""Holds a vector for each of 12,000 common stems, so that words can be compared that share no letter.

The table (word_vectors.bin, written by tools/relate_words.py) is data like the other two tables of words: it ships with
the package, and no model runs. Stems that it lacks, names above all, are compared by their letters alone.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH: Final = 128
_NEIGHBOURS: Final = 16
_LEAST_ALIKE: Final = 0.45
_MANY_WORDS: Final = 4_096

Vectors = NDArray[np.float32]


class _Table(NamedTuple):
    stems: list[str]
    places: dict[str, int]
    vectors: Vectors


@cache
def _table() -> _Table:
    data = resources.files("twinraven.knowledge").joinpath("word_vectors.bin").read_bytes()
    named, _, packed = data.partition(b"\n")
    stems = named.decode().split(" ")
    vectors = np.frombuffer(packed, dtype=np.int8).reshape(len(stems), WIDTH).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return _Table(stems, {stem: place for place, stem in enumerate(stems)}, vectors)


def word_vector(stem: str) -> Vectors | None:
    """Return the vector of a stem, of unit length."""
    table = _table()
    place = table.places.get(stem)
    return None if place is None else table.vectors[place]


def word_vectors(stems: list[str]) -> Vectors:
    """Return a row for each stem; of zeros for one that the table lacks."""
    table = _table()
    places = np.array([table.places.get(each, -1) for each in stems], dtype=np.int64)
    return np.where(places[:, None] >= 0, table.vectors[places], np.float32(0))


@lru_cache(_MANY_WORDS)
def nearest_stems(stem: str) -> tuple[tuple[str, float], ...]:
    """Return the stems that are most alike, and how much."""
    asked = word_vector(stem)
    if asked is None:
        return ()
    table = _table()
    alike = table.vectors @ asked
    alike[table.places[stem]] = -1
    near: list[int] = np.argpartition(-alike, _NEIGHBOURS)[:_NEIGHBOURS].tolist()
    return tuple((table.stems[at], float(alike[at])) for at in sorted(near) if alike[at] >= _LEAST_ALIKE)
