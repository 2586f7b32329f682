"""Selects disjoint instances, which share no call.

`a b a b a` holds `a b a` at two places, but an agent that made those five calls did it once and two calls more. A chain
takes its places from the left, and no call twice.
"""

from __future__ import annotations

import numpy as np

from twinraven.huginn.mining.columns import Flags, Ints

_SHORT = 64


def sharing_calls(starts: Ints, near: Ints, length: int) -> Ints:
    """Return which places share a call with one that was taken before.

    Places are sorted by chain, then place; `near` are those whose next place, of the same chain, begins less than the
    chain's length behind them. Only a chain that overlaps itself (`a a`, `a b a`) has any.
    """
    if not len(near):
        return near
    crowded = np.zeros(len(starts) + 1, np.bool_)
    crowded[near + 1] = True
    inside = np.flatnonzero(crowded[:-1] | crowded[1:])
    heads = ~crowded[inside]
    return inside[~_reached(heads, _jumps(starts[inside], np.cumsum(heads, dtype=np.int64), length))]


def _jumps(starts: Ints, cluster: Ints, length: int) -> Ints:
    """For each place the next of its cluster that shares no call with it; beyond the last where there is none."""
    jump = np.arange(1, len(starts) + 1)
    for ahead in range(1, length):
        near = starts[ahead:] - starts[:-ahead] < length
        near &= cluster[ahead:] == cluster[:-ahead]
        jump[:-ahead] += near
    jump[np.append(cluster, 0)[jump] != cluster] = len(starts)
    return jump


def _reached(heads: Flags, jump: Ints) -> Flags:
    """Return the places that jumping leads to from the heads of the clusters.

    Most clusters are short and done after a few jumps. What is left then is followed in doubling strides, so that a run
    of a million equal calls takes some twenty rounds and not half a million.
    """
    reached = np.append(heads, False)
    front = np.flatnonzero(heads)
    for _ in range(_SHORT):
        front = jump[front]
        front = front[front < len(jump)]
        reached[front] = True
        if not len(front):
            return reached[:-1]
    strides = np.append(jump, len(jump))
    for _ in range(len(jump).bit_length()):
        reached[strides[reached]] = True
        strides = strides[strides]
    return reached[:-1]
