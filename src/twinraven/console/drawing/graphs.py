"""Draws layered graphs: what follows what, the steps of a run, dependencies. Nodes are links, edges have weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from twinraven.console.drawing.layers import Edge, Layout, Slot, arrange
from twinraven.console.drawing.marks import box, label, link, picture, safe
from twinraven.console.words import cut

_CHAR: Final = 7.2
_BOX: Final = 34.0
_ROW: Final = 58.0
_LANE: Final = 22.0
_GAP: Final = 84.0
_MARGIN: Final = 16.0
_TOP: Final = 40.0
_MOST_NODES: Final = 60
_LONGEST: Final = 34
_BROAD: Final = 1250.0
"""From this width on a picture is scrolled instead of being made small."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A box: its name, what stands below the name, how it looks, and what it opens."""

    name: str
    href: str
    kind: str = ""
    note: str = ""
    shown: str = ""
    """What stands in it, where it is not the name."""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A line from one box to another."""

    source: str
    target: str
    weight: float = 1.0
    note: str = ""
    kind: str = ""


@lru_cache(64)
def graph(nodes: tuple[GraphNode, ...], edges: tuple[GraphEdge, ...], *, title: str, weighted: bool = False) -> Markup:
    """The picture of at most 60 boxes; what leads to or from a box that is left out is left out, too."""
    kept = {node.name: node for node in nodes[:_MOST_NODES]}
    drawn = [edge for edge in edges if edge.source in kept and edge.target in kept]
    layout = arrange({(edge.source, edge.target): edge.weight for edge in drawn}, nodes=tuple(kept))
    sheet = _Sheet(layout, kept, gap=_gap_for(drawn))
    heaviest = max((edge.weight for edge in drawn), default=1.0)
    lines = [
        sheet.line(edge, width=1 + 7 * edge.weight / heaviest if weighted else 1.6)
        for edge in sorted(drawn, key=lambda each: (each.weight, each.source, each.target))
    ]
    boxes = [sheet.node(kept[name]) for name in sheet.names()]
    described = "; ".join(f"{edge.source} to {edge.target}{f' ({edge.note})' if edge.note else ''}" for edge in drawn)
    kind = "graph broad" if sheet.width > _BROAD else "graph"
    return picture(kind, sheet.width, sheet.height, "".join(lines + boxes), title=title, described=described)


def _gap_for(edges: Sequence[GraphEdge]) -> float:
    """The room between two columns: enough for what is said on an edge."""
    longest = max((len(edge.note) for edge in edges), default=0)
    return max(_GAP, 6.0 * min(longest, _LONGEST) + 40)


def commonest(counts: Mapping[Edge, int], limit: int) -> dict[Edge, int]:
    """The commonest edges, and for each node in them its commonest way in, so that none seems to come first."""
    ranked = sorted(counts, key=lambda edge: (-counts[edge], edge))
    shown = dict.fromkeys(ranked[:limit])
    names = {name for edge in shown for name in edge}
    entered = {target for source, target in shown if source != target}
    for source, target in ranked[limit:]:
        if {source, target} <= names and source != target and target not in entered:
            entered.add(target)
            shown[source, target] = None
    return {edge: counts[edge] for edge in shown}


class _Sheet:
    """Boxes and lines at the places a layout gives them."""

    def __init__(self, layout: Layout, nodes: Mapping[str, GraphNode], *, gap: float) -> None:
        self._layout = layout
        self._leaving = Counter(source for source, _ in layout.routes)
        self._entering = Counter(target for _, target in layout.routes)
        self._widths: dict[str, float] = {}
        self._places: dict[Slot, tuple[float, float]] = {}
        heights = [sum(_ROW if len(slot) == 1 else _LANE for slot in column) for column in layout.columns]
        tallest = max(heights, default=0.0)
        x = _MARGIN
        for column, tall in zip(layout.columns, heights, strict=True):
            widths = {slot[0]: _width_of(nodes[slot[0]]) for slot in column if len(slot) == 1}
            widest = max(widths.values(), default=0.0)
            self._place(column, x + widest / 2, _TOP + (tallest - tall) / 2)
            self._widths.update(widths)
            x += widest + gap
        self.width = x - gap + _MARGIN
        self._lowest = _TOP + tallest

    @property
    def height(self) -> float:
        return self._lowest + _MARGIN

    def _place(self, column: Sequence[Slot], x: float, y: float) -> None:
        for slot in column:
            room = _ROW if len(slot) == 1 else _LANE
            self._places[slot] = (x, y + room / 2)
            y += room

    def names(self) -> list[str]:
        return list(self._widths)

    def node(self, node: GraphNode) -> str:
        x, y = self._places[(node.name,)]
        width = self._widths[node.name]
        tall = _BOX + (8 if node.note else 0)
        hint = node.shown or node.name
        inside = box(x - width / 2, y - tall / 2, width, tall, f"box {node.kind}".strip(), hint=hint)
        inside += label(x, y - (6 if node.note else 0), cut(node.shown or node.name, _LONGEST))
        if node.note:
            inside += label(x, y + 10, cut(node.note, _LONGEST), "sub")
        return link(node.href, inside) if node.href else inside

    def line(self, edge: GraphEdge, *, width: float) -> str:
        route = self._layout.routes.get((edge.source, edge.target))
        if route is not None:
            path, middle = self._forward(route)
        elif edge.source == edge.target:
            path, middle = self._loop(edge.source)
            width = min(width, 3.5)
        else:
            path, middle = self._backward(edge.source, edge.target)
        kind = "edge" if route is not None or edge.source == edge.target else "edge back"
        hint = f"<title>{safe(edge.source)} → {safe(edge.target)}: {safe(edge.note)}</title>"
        drawn = f'<path class="{kind} {edge.kind}" stroke-width="{width:.1f}" d="{path}">{hint}</path>'
        return drawn + (label(*middle, edge.note, "note") if edge.note else "")

    def _forward(self, route: Sequence[Slot]) -> tuple[str, tuple[float, float]]:
        points = [self._places[slot] for slot in route]
        start, end = points[0], points[-1]
        points[0] = (start[0] + self._widths[route[0][0]] / 2, start[1])
        points[-1] = (end[0] - self._widths[route[-1][0]] / 2, end[1])
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
        for (x, y), (to_x, to_y) in pairwise(points):
            half = (x + to_x) / 2
            path += f" C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        # Where edges part, their ends are clear of each other; where they meet, their beginnings are.
        parts = self._leaving[route[0][0]] >= self._entering[route[-1][0]]
        near, far = points[-2:] if parts else points[:2]
        return path, ((near[0] + far[0]) / 2, (near[1] + far[1]) / 2)

    def _loop(self, name: str) -> tuple[str, tuple[float, float]]:
        x, y = self._places[(name,)]
        top = y - _BOX / 2
        high = top - 24
        path = f"M{x - 16:.1f} {top:.1f} C{x - 24:.1f} {high:.1f} {x + 24:.1f} {high:.1f} {x + 16:.1f} {top:.1f}"
        return path, (x, top - 17)

    def _backward(self, source: str, target: str) -> tuple[str, tuple[float, float]]:
        (x, y), (to_x, to_y) = self._places[(source,)], self._places[(target,)]
        y, to_y = y + _BOX / 2, to_y + _BOX / 2
        depth = max(y, to_y) + 30 + abs(x - to_x) / 14
        self._lowest = max(self._lowest, 0.75 * depth + (y + to_y) / 8)
        path = f"M{x:.1f} {y:.1f} C{x:.1f} {depth:.1f} {to_x:.1f} {depth:.1f} {to_x:.1f} {to_y:.1f}"
        return path, ((x + to_x) / 2, 0.75 * depth + (y + to_y) / 8)


def _width_of(node: GraphNode) -> float:
    longest = max(len(cut(node.shown or node.name, _LONGEST)), len(cut(node.note, _LONGEST)) * 0.9)
    return max(64.0, _CHAR * longest + 22)
