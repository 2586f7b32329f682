"""Holds a vector for each of 12,000 common stems, so that words can be compared that share no letter.

The table (word_vectors.bin, written by tools/relate_words.py) is data like the other two tables of words: it ships with
the package, and no model runs. Stems that it lacks, names above all, are compared by their letters alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH: Final = 128
NEIGHBOURS: Final = 16
_LEAST_ALIKE: Final = 0.45

Vectors = NDArray[np.float32]


class _Table(NamedTuple):
    stems: list[str]
    places: dict[str, int]
    packed: NDArray[np.int8]
    """A row for each stem, and one of zeros for all others."""
    near: NDArray[np.uint16]
    """The places of each stem's neighbours."""


@cache
def _table() -> _Table:
    data = resources.files("twinraven.knowledge").joinpath("word_vectors.bin").read_bytes()
    named, _, packed = data.partition(b"\n")
    stems = named.decode().split(" ")
    cut = len(stems) * WIDTH
    rows = np.frombuffer(packed + bytes(WIDTH), dtype=np.int8)
    vectors = np.concatenate([rows[:cut], rows[-WIDTH:]]).reshape(-1, WIDTH)
    near = np.frombuffer(packed[cut:], dtype="<u2").reshape(-1, NEIGHBOURS)
    return _Table(stems, {stem: place for place, stem in enumerate(stems)}, vectors, near)


def has_vector(stem: str) -> bool:
    return stem in _table().places


def word_vectors(stems: Sequence[str]) -> Vectors:
    """Return a row of unit length for each stem; of zeros for one that the table lacks."""
    table = _table()
    return _unpacked(table, np.array([table.places.get(each, -1) for each in stems], dtype=np.int64))


def nearest_stems(stem: str) -> list[tuple[str, float]]:
    """Return the stems that are most alike, and how much."""
    table = _table()
    place = table.places.get(stem)
    if place is None:
        return []
    near = table.near[place]
    own, *others = _unpacked(table, np.concatenate([[place], near.astype(np.int64)]))
    alike = [float(each @ own) for each in others]
    return [(table.stems[at], like) for at, like in zip(near.tolist(), alike, strict=True) if like >= _LEAST_ALIKE]


def _unpacked(table: _Table, places: NDArray[np.int64]) -> Vectors:
    rows = table.packed[places].astype(np.float32)
    sizes: Vectors = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    sizes[sizes == 0] = 1
    return rows / sizes
