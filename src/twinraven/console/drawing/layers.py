"""Assigns the nodes of a directed graph to layers, read from left to right.

A transition graph has cycles, so the heaviest edges choose the direction and the light ones that contradict them run
back. An edge that spans several columns gets a slot in each column between, so that it passes beside the nodes and not
through them; a few sweeps that pull every slot towards its neighbours untangle the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Edge = tuple[str, str]
Slot = tuple[str, ...]
"""A node as (name,), or the place where an edge passes through a column as (source, target, column)."""

_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of slots from left to right, and the slots each forward edge runs through."""

    columns: tuple[tuple[Slot, ...], ...]
    routes: Mapping[Edge, tuple[Slot, ...]]


def arrange(edges: Mapping[Edge, float], *, nodes: Sequence[str] = ()) -> Layout:
    """Place every node of the edges, and those named beside them; equal graphs give equal layouts."""
    named = dict.fromkeys((*nodes, *(name for edge in sorted(edges) for name in edge)))
    column_of = _columns(tuple(named), edges)
    columns: list[list[Slot]] = [[] for _ in range(1 + max(column_of.values(), default=-1))]
    for name, column in column_of.items():
        columns[column].append((name,))
    routes: dict[Edge, tuple[Slot, ...]] = {}
    for source, target in sorted(edges):
        first, last = column_of[source], column_of[target]
        if first >= last:
            continue
        between = [(source, target, str(column)) for column in range(first + 1, last)]
        for slot in between:
            columns[int(slot[2])].append(slot)
        routes[source, target] = ((source,), *between, (target,))
    _untangle(columns, tuple(routes.values()))
    return Layout(tuple(map(tuple, columns)), routes)


def _columns(nodes: Sequence[str], edges: Mapping[Edge, float]) -> dict[str, int]:
    """Return the longest path to each node, along edges taken heaviest first, without those that close a cycle."""
    after: dict[str, set[str]] = {node: set() for node in nodes}
    for source, target in sorted(edges, key=lambda edge: (-edges[edge], edge)):
        if source != target and not _reaches(after, target, source):
            after[source].add(target)
    column_of = dict.fromkeys(nodes, 0)
    for node in _in_order(after):
        for target in after[node]:
            column_of[target] = max(column_of[target], column_of[node] + 1)
    return column_of


def _reaches(after: Mapping[str, set[str]], start: str, goal: str) -> bool:
    seen, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        if node == goal:
            return True
        fresh = after[node] - seen
        seen |= fresh
        waiting.extend(fresh)
    return False


def _in_order(after: Mapping[str, set[str]]) -> list[str]:
    """Return every node before those it leads to."""
    incoming = dict.fromkeys(after, 0)
    for targets in after.values():
        for target in targets:
            incoming[target] += 1
    order = [node for node, count in incoming.items() if not count]
    for node in order:
        for target in sorted(after[node]):
            incoming[target] -= 1
            if not incoming[target]:
                order.append(target)
    return order


def _untangle(columns: list[list[Slot]], routes: Sequence[tuple[Slot, ...]]) -> None:
    left: dict[Slot, list[Slot]] = {}
    right: dict[Slot, list[Slot]] = {}
    for route in routes:
        for near, far in pairwise(route):
            right.setdefault(near, []).append(far)
            left.setdefault(far, []).append(near)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = left if forward else right
        for column in columns if forward else reversed(columns):
            height = {slot: index / max(1, len(each) - 1) for each in columns for index, slot in enumerate(each)}
            column.sort(key=lambda slot: (_mean_height(slot, neighbours, height), slot))


def _mean_height(slot: Slot, neighbours: Mapping[Slot, list[Slot]], height: Mapping[Slot, float]) -> float:
    near = neighbours.get(slot)
    return sum(height[each] for each in near) / len(near) if near else height[slot]
