"""Two pictures as self-contained SVG: how tools follow each other, and how the steps of a learned tool are wired.

Each file carries its own styles for light and dark, needs no script and no font, and is well-formed whatever the tools
are called.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from xml.sax.saxutils import escape

from twinraven.console.drawing.layers import Edge, Layout, Slot, arrange

_STYLE = """
svg { background: #ffffff; font: 13px system-ui, sans-serif }
text { fill: #1d2733; text-anchor: middle; dominant-baseline: central }
.title { font-size: 15px; font-weight: 600; text-anchor: start }
.note { fill: #5b6775; font-size: 11px; paint-order: stroke; stroke: #ffffff; stroke-width: 3px }
.box { fill: #eef4fb; stroke: #3b6ea5; stroke-width: 1.4 }
.write { fill: #fdf0e6; stroke: #b8622a }
.given { fill: #f3f3f5; stroke: #8a8f98 }
.edge { fill: none; stroke: #3b6ea5; stroke-opacity: 0.5; stroke-linecap: round }
.back { stroke: #a06a9c; stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
  svg { background: #14181d }
  text { fill: #e3e8ee }
  .note { fill: #a3afbd; stroke: #14181d }
  .box { fill: #1c2a3a; stroke: #6ea3dc }
  .write { fill: #3a281c; stroke: #e0935a }
  .given { fill: #23272d; stroke: #7d848e }
  .edge { stroke: #6ea3dc }
  .back { stroke: #c891c3 }
}
"""
_CHAR, _BOX, _ROW, _LANE, _GAP, _MARGIN, _TOP = 7.4, 34.0, 58.0, 22.0, 90.0, 24.0, 64.0
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Wire:
    """Where one argument of a step comes from: an earlier step (by index) or, with None, the caller."""

    argument: str
    source: int | None
    path: str


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step of a learned tool; `each` says that it runs for every element of a list."""

    tool_id: str
    wires: tuple[Wire, ...] = ()
    each: bool = False
    effect: Literal["read", "write"] = "read"


def transition_svg(counts: Mapping[Edge, int], *, title: str = "What follows what", limit: int = 24) -> str:
    """The transition graph: the heavier the edge, the more often the right tool came after the left one."""
    shown = _choose(counts, limit)
    heaviest = max(shown.values(), default=1.0)
    sheet = _Sheet(arrange(shown), {}, title)
    for edge, count in sorted(shown.items(), key=lambda item: (item[1], item[0])):
        sheet.draw_edge(edge, width=1 + 9 * count / heaviest, label=f"{count:,.0f}")
    for name in sheet.names():
        sheet.draw_box(name, name)
    left_out = len(counts) - len(shown)
    return sheet.finish(f"{left_out} rarer transitions are not shown" if left_out else "")


def _choose(counts: Mapping[Edge, int], limit: int) -> dict[Edge, float]:
    """The commonest transitions, and for each tool in them its commonest way in, so that none seems to come first."""
    ranked = sorted(counts, key=lambda edge: (-counts[edge], edge))
    shown = dict.fromkeys(ranked[:limit])
    names = {name for edge in shown for name in edge}
    entered = {target for source, target in shown if source != target}
    for source, target in ranked[limit:]:
        if {source, target} <= names and source != target and target not in entered:
            entered.add(target)
            shown[source, target] = None
    return {edge: float(counts[edge]) for edge in shown}


def chain_svg(steps: Sequence[ChainStep], *, title: str) -> str:
    """The step graph of a learned tool: what the caller gives on the left, then each step after those it reads from."""
    labels: dict[str, str] = {}
    wires: dict[Edge, list[str]] = {}
    for index, step in enumerate(steps):
        node = f"step {index}"
        labels[node] = f"{step.tool_id} × each" if step.each else step.tool_id
        for wire in step.wires:
            source = f"given {wire.path}" if wire.source is None else f"step {wire.source}"
            if wire.source is None:
                labels[source] = wire.path
            wires.setdefault((source, node), []).append(_describe(wire))
    notes = {edge: ", ".join(filter(None, texts)) for edge, texts in wires.items()}
    longest = max(map(len, notes.values()), default=0)
    layout = arrange(dict.fromkeys(notes, 1.0), nodes=tuple(labels))
    sheet = _Sheet(layout, labels, title, gap=max(_GAP, longest * _CHAR))
    for edge, note in notes.items():
        sheet.draw_edge(edge, width=2.0, label=note)
    for index, step in enumerate(steps):
        sheet.draw_box(f"step {index}", labels[f"step {index}"], style=_style(step), stacked=step.each)
    for node, label in labels.items():
        if node.startswith("given "):
            sheet.draw_box(node, label, style="given")
    return sheet.finish("")


def _describe(wire: Wire) -> str:
    return f"{wire.path} → {wire.argument}" if wire.path != wire.argument else "" if wire.source is None else wire.path


def _style(step: ChainStep) -> str:
    return "write" if step.effect == "write" else ""


class _Sheet:
    """Boxes and edges at the places a layout gives them."""

    def __init__(self, layout: Layout, labels: Mapping[str, str], title: str, *, gap: float = _GAP) -> None:
        self._layout = layout
        self._leaving = Counter(source for source, _ in layout.routes)
        self._entering = Counter(target for _, target in layout.routes)
        self._title = title
        self._parts: list[str] = []
        self._lowest = 0.0
        self._widths: dict[str, float] = {}
        self._places: dict[Slot, tuple[float, float]] = {}
        heights = [sum(_ROW if len(slot) == 1 else _LANE for slot in column) for column in layout.columns]
        self._height = max(heights, default=0.0)
        x = _MARGIN
        for column, height in zip(layout.columns, heights, strict=True):
            widths = {slot[0]: _box_width(labels.get(slot[0], slot[0])) for slot in column if len(slot) == 1}
            widest = max(widths.values(), default=0.0)
            self._place(column, x + widest / 2, _TOP + (self._height - height) / 2)
            self._widths.update(widths)
            x += widest + gap
        self._width = max(x - gap + _MARGIN, _MARGIN * 2 + 9 * len(title))

    def _place(self, column: Sequence[Slot], x: float, y: float) -> None:
        for slot in column:
            room = _ROW if len(slot) == 1 else _LANE
            self._places[slot] = (x, y + room / 2)
            y += room

    def names(self) -> list[str]:
        return list(self._widths)

    def draw_box(self, name: str, label: str, *, style: str = "", stacked: bool = False) -> None:
        x, y = self._places[(name,)]
        width = self._widths[name]
        for offset in (6, 3, 0) if stacked else (0,):
            self._parts.append(
                f'<rect class="box {style}" x="{x - width / 2 + offset:.1f}" y="{y - _BOX / 2 + offset:.1f}" '
                f'width="{width:.1f}" height="{_BOX:.0f}" rx="8"/>'
            )
        self._parts.append(_text(label, x, y))

    def draw_edge(self, edge: Edge, *, width: float, label: str) -> None:
        source, target = edge
        route = self._layout.routes.get(edge)
        if route is not None:
            path, middle = self._forward(route)
        elif source == target:
            path, middle = self._loop(source)
            width = min(width, 4.0)
        else:
            path, middle = self._backward(source, target)
        style = "edge" if route is not None or source == target else "edge back"
        hint = f"<title>{_safe(source)} → {_safe(target)}: {_safe(label)}</title>"
        self._parts.append(f'<path class="{style}" stroke-width="{width:.1f}" d="{path}">{hint}</path>')
        if label:
            self._parts.append(_text(label, *middle, style="note"))

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
        self._lowest = max(self._lowest, depth)
        path = f"M{x:.1f} {y:.1f} C{x:.1f} {depth:.1f} {to_x:.1f} {depth:.1f} {to_x:.1f} {to_y:.1f}"
        return path, ((x + to_x) / 2, 0.75 * depth + (y + to_y) / 8)

    def finish(self, note: str) -> str:
        height = max(_TOP + self._height, self._lowest) + _MARGIN
        parts = list(self._parts)
        if note:
            parts.append(_text(note, self._width / 2, height))
            height += _MARGIN
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width:.0f} {height:.0f}" '
            f'width="{self._width:.0f}" height="{height:.0f}" role="img" aria-label="{_attribute(self._title)}">'
        )
        title = f'<text class="title" x="{_MARGIN:.0f}" y="{_MARGIN:.0f}">{_safe(self._title)}</text>'
        return "\n".join((head, f"<style>{_STYLE}</style>", title, *parts, "</svg>\n"))


def _box_width(label: str) -> float:
    return max(60.0, _CHAR * len(label) + 22)


def _text(text: str, x: float, y: float, *, style: str = "") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text), {'"': "&quot;", "\n": " ", "\t": " ", "\r": " "})
