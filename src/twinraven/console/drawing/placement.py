"""Computes where the boxes of a layered graph stand and which way its edges run, in the units of the picture.

Knows nothing of styles or markup, so that a page of the console and a picture in a file share one geometry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from twinraven.console.drawing.layers import Edge, Layout, Slot

BOX: Final = 34.0
"""How tall a box is."""
_ROW: Final = 58.0
_LANE: Final = 22.0

Point = tuple[float, float]


class EdgeRoute(NamedTuple):
    """The route of an edge: its path, the position of its label, and its direction."""

    path: str
    middle: Point
    leads: str
    """`on` to a later column, `round` to the same box, or `back`."""


class Placement:
    """Boxes at the places a layout gives them, and the ways between them."""

    def __init__(self, layout: Layout, widths: Mapping[str, float], *, gap: float, margin: float, top: float) -> None:
        self._layout = layout
        self._leaving = Counter(source for source, _ in layout.routes)
        self._entering = Counter(target for _, target in layout.routes)
        self._places: dict[Slot, Point] = {}
        self.widths: dict[str, float] = {}
        heights = [sum(_ROW if len(slot) == 1 else _LANE for slot in column) for column in layout.columns]
        tallest = max(heights, default=0.0)
        x = margin
        for column, height in zip(layout.columns, heights, strict=True):
            broad = {slot[0]: widths[slot[0]] for slot in column if len(slot) == 1}
            widest = max(broad.values(), default=0.0)
            self._place(column, x + widest / 2, top + (tallest - height) / 2)
            self.widths.update(broad)
            x += widest + gap
        self.width = x - gap + margin
        self.lowest = top + tallest

    def _place(self, column: Sequence[Slot], x: float, y: float) -> None:
        for slot in column:
            room = _ROW if len(slot) == 1 else _LANE
            self._places[slot] = (x, y + room / 2)
            y += room

    def centre(self, name: str) -> Point:
        """Return the middle of a box."""
        return self._places[(name,)]

    def way(self, edge: Edge) -> EdgeRoute:
        """Return the route of an edge; one that leads back hangs below the boxes and may lower the picture's foot."""
        source, target = edge
        route = self._layout.routes.get(edge)
        if route is not None:
            return self._forward(route)
        return self._loop(source) if source == target else self._backward(source, target)

    def _forward(self, route: Sequence[Slot]) -> EdgeRoute:
        points = [self._places[slot] for slot in route]
        start, end = points[0], points[-1]
        points[0] = (start[0] + self.widths[route[0][0]] / 2, start[1])
        points[-1] = (end[0] - self.widths[route[-1][0]] / 2, end[1])
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
        for (x, y), (to_x, to_y) in pairwise(points):
            half = (x + to_x) / 2
            path += f" C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        # Where edges part, their ends are clear of each other; where they meet, their beginnings are.
        parts = self._leaving[route[0][0]] >= self._entering[route[-1][0]]
        near, far = points[-2:] if parts else points[:2]
        return EdgeRoute(path, ((near[0] + far[0]) / 2, (near[1] + far[1]) / 2), "on")

    def _loop(self, name: str) -> EdgeRoute:
        x, y = self.centre(name)
        top = y - BOX / 2
        high = top - 24
        path = f"M{x - 16:.1f} {top:.1f} C{x - 24:.1f} {high:.1f} {x + 24:.1f} {high:.1f} {x + 16:.1f} {top:.1f}"
        return EdgeRoute(path, (x, top - 17), "round")

    def _backward(self, source: str, target: str) -> EdgeRoute:
        (x, y), (to_x, to_y) = self.centre(source), self.centre(target)
        y, to_y = y + BOX / 2, to_y + BOX / 2
        depth = max(y, to_y) + 30 + abs(x - to_x) / 14
        foot = 0.75 * depth + (y + to_y) / 8
        self.lowest = max(self.lowest, foot)
        path = f"M{x:.1f} {y:.1f} C{x:.1f} {depth:.1f} {to_x:.1f} {depth:.1f} {to_x:.1f} {to_y:.1f}"
        return EdgeRoute(path, ((x + to_x) / 2, foot), "back")


def commonest(counts: Mapping[Edge, int], limit: int) -> dict[Edge, int]:
    """Return the commonest edges, and for each node in them its commonest way in, so that none seems to come first."""
    ranked = sorted(counts, key=lambda edge: (-counts[edge], edge))
    shown = dict.fromkeys(ranked[:limit])
    names = {name for edge in shown for name in edge}
    entered = {target for source, target in shown if source != target}
    for source, target in ranked[limit:]:
        if {source, target} <= names and source != target and target not in entered:
            entered.add(target)
            shown[source, target] = None
    return {edge: counts[edge] for edge in shown}
