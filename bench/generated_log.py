"""A made-up log whose truth is known: planted chains of tools hidden in skewed noise.

Benchmarks need a log of any size, and the tests of selection need one where the right answer is not a matter of
taste. Sessions are strings of items in random order; an item is one noise call, drawn from a skewed distribution so
that popular tools form frequent but meaningless pairs, or one planted chain, sometimes cut short as agents do. The
same arguments always give the same log. Everything is made with whole-array operations: ten million events take
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FULL_RUN = 0.9
"""The share of planted chains that run to their end; the others stop after a proper prefix."""

SKEW = 6.0
"""Noise popularity falls as 1 / (rank + SKEW): a few tools dominate, none is alone."""


@dataclass(frozen=True, slots=True)
class GeneratedLog:
    """Columns sorted by session and sequence, and the chains that were planted in them."""

    names: tuple[str, ...]
    tools: NDArray[np.int32]
    offsets: NDArray[np.int64]
    breaks: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    latency: NDArray[np.int64]
    start: NDArray[np.int64]
    planted: tuple[tuple[str, ...], ...]


def generate_log(*, sessions: int = 100_000, tools: int = 50, chains: int = 12, seed: int = 7) -> GeneratedLog:
    """About 11 events a session; every planted chain begins in 4 to 11 % of the sessions, the later ones more often."""
    random = np.random.default_rng(seed)
    names = tuple(f"tool_{number:03d}" for number in range(tools))
    planted = _plant(random, tools, chains)
    spelled: list[list[int]] = [chain.tolist() for chain in planted]
    session_of_item, item = _items(random, sessions, tools, chains)
    ids, session = _expand(random, session_of_item, item, tools, planted)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(session, minlength=sessions)))).astype(np.int64)
    count = len(ids)
    latency = random.integers(20, 400, count, dtype=np.int64)
    idle = random.integers(200, 4_000, count, dtype=np.int64)
    elapsed = np.cumsum(latency + idle) - latency
    return GeneratedLog(
        names=names,
        tools=ids,
        offsets=offsets,
        breaks=random.random(count) < 0.02,
        failed=np.repeat(random.random(sessions) < 0.15, np.diff(offsets)),
        latency=latency,
        start=elapsed * 1_000,
        planted=tuple(tuple(names[tool] for tool in chain) for chain in spelled),
    )


def _plant(random: np.random.Generator, tools: int, chains: int) -> list[NDArray[np.int64]]:
    lengths = 3 + np.arange(chains) % 4
    return [random.choice(tools, size=int(length), replace=False) for length in lengths]


def _items(
    random: np.random.Generator, sessions: int, tools: int, chains: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The session of each item and its kind: below `tools` a noise call, from `tools` on a planted chain."""
    noise = 1 + random.poisson(6.4, sessions)
    runs = random.choice(3, size=sessions, p=[0.25, 0.6, 0.15])
    popularity = 1.0 / (np.arange(tools) + SKEW)
    share = np.linspace(1.0, 3.0, chains) if chains else np.ones(1)
    session = np.concatenate((np.repeat(np.arange(sessions), noise), np.repeat(np.arange(sessions), runs)))
    kinds = np.concatenate(
        (
            random.choice(tools, size=int(noise.sum()), p=popularity / popularity.sum()),
            tools + random.choice(max(chains, 1), size=int(runs.sum()), p=share / share.sum()),
        )
    )
    order = np.lexsort((random.random(len(session)), session))
    return session[order], kinds[order]


def _expand(
    random: np.random.Generator,
    session_of_item: NDArray[np.int64],
    item: NDArray[np.int64],
    tools: int,
    planted: list[NDArray[np.int64]],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Items become events; a planted item becomes its chain or a prefix of at least one tool."""
    spelled = [np.array([tool]) for tool in range(tools)] + planted
    full = np.array([len(word) for word in spelled])
    begins = np.concatenate(([0], np.cumsum(full)))[:-1]
    length = full[item]
    cut = (item >= tools) & (random.random(len(item)) > FULL_RUN)
    length[cut] = random.integers(1, length[cut])
    ends = np.cumsum(length)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - length, length)
    ids = np.concatenate(spelled)[np.repeat(begins[item], length) + within]
    return ids.astype(np.int32), np.repeat(session_of_item, length)
