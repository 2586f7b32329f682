"""Draws layered graphs: what follows what, the steps of a run, dependencies. Nodes are links, edges have weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from markupsafe import Markup

from twinraven.console.drawing.layers import Layout, arrange
from twinraven.console.drawing.marks import box, label, link, picture, safe
from twinraven.console.drawing.placement import BOX, Placement
from twinraven.console.formatting import cut

_CHAR: Final = 7.2
_GAP: Final = 58.0
_MARGIN: Final = 16.0
_TOP: Final = 40.0
_MOST_NODES: Final = 60
_LONGEST: Final = 34
_LOOKS: Final = ((700.0, "graph"), (1150.0, "graph mid"), (1700.0, "graph broad"))
"""Up to which width a picture is made how small; a broader one is scrolled."""


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
    """Return the picture of at most 60 boxes; what leads to or from a box that is left out is left out, too."""
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
    kind = next((look for most, look in _LOOKS if sheet.width <= most), "graph vast")
    return picture(kind, sheet.width, sheet.height, "".join(lines + boxes), title=title, described=described)


def _gap_for(edges: Sequence[GraphEdge]) -> float:
    """Return the room between two columns: enough for what is said on an edge."""
    longest = max((len(edge.note) for edge in edges), default=0)
    return max(_GAP, 6.0 * min(longest, _LONGEST) + 40)


class _Sheet:
    """Boxes and lines as markup, at the places a layout gives them."""

    def __init__(self, layout: Layout, nodes: Mapping[str, GraphNode], *, gap: float) -> None:
        widths = {name: _width_of(node) for name, node in nodes.items()}
        self._placed = Placement(layout, widths, gap=gap, margin=_MARGIN, top=_TOP)
        self.width = self._placed.width

    @property
    def height(self) -> float:
        return self._placed.lowest + _MARGIN

    def names(self) -> list[str]:
        return list(self._placed.widths)

    def node(self, node: GraphNode) -> str:
        x, y = self._placed.centre(node.name)
        width = self._placed.widths[node.name]
        tall = BOX + (8 if node.note else 0)
        hint = node.shown or node.name
        inside = box(x - width / 2, y - tall / 2, width, tall, f"box {node.kind}".strip(), hint=hint)
        inside += label(x, y - (6 if node.note else 0), cut(node.shown or node.name, _LONGEST))
        if node.note:
            inside += label(x, y + 10, cut(node.note, _LONGEST), "sub")
        return link(node.href, inside) if node.href else inside

    def line(self, edge: GraphEdge, *, width: float) -> str:
        way = self._placed.way((edge.source, edge.target))
        kind = "edge back" if way.leads == "back" else "edge"
        wide = min(width, 3.5) if way.leads == "round" else width
        hint = f"<title>{safe(edge.source)} → {safe(edge.target)}: {safe(edge.note)}</title>"
        drawn = f'<path class="{kind} {edge.kind}" stroke-width="{wide:.1f}" d="{way.path}">{hint}</path>'
        return drawn + (label(*way.middle, edge.note, "note") if edge.note else "")


def _width_of(node: GraphNode) -> float:
    longest = max(len(cut(node.shown or node.name, _LONGEST)), len(cut(node.note, _LONGEST)) * 0.9)
    return max(64.0, _CHAR * longest + 22)
