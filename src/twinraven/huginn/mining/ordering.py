"""Sorts and groups small integers stably, the way NumPy is fast at them.

NumPy sorts 16-bit keys by radix and everything wider by comparison, several times slower; `np.unique` is slower still.
Wider keys are therefore sorted 16 bits at a time, and groups are read off a sorted array by where neighbours differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from twinraven.huginn.mining.columns import Ints

_DIGIT = 16


def stable_order(keys: NDArray[np.integer], bound: int) -> Ints:
    """Return the order that sorts keys in [0, bound), equal keys keeping theirs."""
    if bound <= 1 << 8:
        return np.argsort(keys.astype(np.uint8), kind="stable")
    if bound <= 1 << _DIGIT:
        return np.argsort(keys.astype(np.uint16), kind="stable")
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    high = keys >> _DIGIT
    return order[stable_order(high[order], ((bound - 1) >> _DIGIT) + 1)]


def group_starts(sorted_keys: NDArray[np.integer]) -> Ints:
    """Return where each run of equal keys begins."""
    if not len(sorted_keys):
        return np.empty(0, np.int64)
    changes = np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1])
    return np.concatenate((np.zeros(1, np.int64), changes + 1))


def runs(sorted_keys: NDArray[np.integer]) -> Iterator[tuple[int, int, int]]:
    """Yield each key with the half-open range where it stands."""
    begins = group_starts(sorted_keys)
    ends = np.append(begins[1:], len(sorted_keys))[: len(begins)]
    yield from zip(sorted_keys[begins].tolist(), begins.tolist(), ends.tolist(), strict=True)


def ranges(begins: NDArray[np.integer], ends: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return all integers of the half-open ranges in order, and for each the number of its range."""
    lengths = (ends - begins).astype(np.int64)
    owners = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(owners), dtype=np.int64) + (begins - before)[owners], owners
