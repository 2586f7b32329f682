"""Two pictures as self-contained SVG: how tools follow each other, and how the steps of a learned tool are wired.

Each file carries its own styles for light and dark, needs no script and no font, and is well-formed whatever the tools
are called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

from twinraven.console.drawing.layers import Edge, Layout, arrange
from twinraven.console.drawing.placement import BOX, Placement, commonest

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
_CHAR, _GAP, _MARGIN, _TOP = 7.4, 90.0, 24.0, 64.0
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
    shown = commonest(counts, limit)
    heaviest = max(shown.values(), default=1)
    sheet = _Sheet(arrange({edge: float(count) for edge, count in shown.items()}), {}, title)
    for edge, count in sorted(shown.items(), key=lambda item: (item[1], item[0])):
        sheet.draw_edge(edge, width=1 + 9 * count / heaviest, label=f"{count:,}")
    for name in sheet.names():
        sheet.draw_box(name, name)
    left_out = len(counts) - len(shown)
    return sheet.finish(f"{left_out} rarer transitions are not shown" if left_out else "")


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
    """Boxes and edges as markup, at the places a layout gives them."""

    def __init__(self, layout: Layout, labels: Mapping[str, str], title: str, *, gap: float = _GAP) -> None:
        names = [slot[0] for column in layout.columns for slot in column if len(slot) == 1]
        widths = {name: _box_width(labels.get(name, name)) for name in names}
        self._placed = Placement(layout, widths, gap=gap, margin=_MARGIN, top=_TOP)
        self._title = title
        self._parts: list[str] = []
        self._width = max(self._placed.width, _MARGIN * 2 + 9 * len(title))

    def names(self) -> list[str]:
        return list(self._placed.widths)

    def draw_box(self, name: str, label: str, *, style: str = "", stacked: bool = False) -> None:
        x, y = self._placed.centre(name)
        width = self._placed.widths[name]
        for offset in (6, 3, 0) if stacked else (0,):
            self._parts.append(
                f'<rect class="box {style}" x="{x - width / 2 + offset:.1f}" y="{y - BOX / 2 + offset:.1f}" '
                f'width="{width:.1f}" height="{BOX:.0f}" rx="8"/>'
            )
        self._parts.append(_text(label, x, y))

    def draw_edge(self, edge: Edge, *, width: float, label: str) -> None:
        source, target = edge
        way = self._placed.way(edge)
        style = "edge back" if way.leads == "back" else "edge"
        wide = min(width, 4.0) if way.leads == "round" else width
        hint = f"<title>{_safe(source)} → {_safe(target)}: {_safe(label)}</title>"
        self._parts.append(f'<path class="{style}" stroke-width="{wide:.1f}" d="{way.path}">{hint}</path>')
        if label:
            self._parts.append(_text(label, *way.middle, style="note"))

    def finish(self, note: str) -> str:
        height = self._placed.lowest + _MARGIN
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
