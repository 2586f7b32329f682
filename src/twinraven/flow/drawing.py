"""Draws a graph of steps as SVG: columns by what waits for what, one box per step, coloured by its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

_WIDTH: Final = 190
_HEIGHT: Final = 58
_GAP_X: Final = 60
_GAP_Y: Final = 22
_MARGIN: Final = 20
_LONGEST: Final = 26
_FILLS: Final = {
    "succeeded": "#d7f0dd",
    "failed": "#f6d5d5",
    "waiting": "#fdf0cf",
    "skipped": "#eeeeee",
}
_ARROW: Final = (
    '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>'
)


class StepBox(NamedTuple):
    """One step of a drawing: its name, two lines about it, and the steps right before it."""

    id: str
    calls: str
    marks: Sequence[str]
    before: Sequence[str]
    state: str | None = None
    is_optional: bool = False


def draw_steps(title: str, boxes: Sequence[StepBox]) -> str:
    """Draw the graph as an SVG document; steps stand behind those that they name in `before`, which come first."""
    column: dict[str, int] = {}
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for box in boxes:
        at = column[box.id] = max((column[name] + 1 for name in box.before), default=0)
        row = rows[at] = rows.get(at, -1) + 1
        places[box.id] = (_MARGIN + at * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
    width = 2 * _MARGIN + (max(column.values(), default=0) + 1) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + (max(rows.values(), default=0) + 1) * (_HEIGHT + _GAP_Y) - _GAP_Y
    lines = [_edge(places[name], places[box.id]) for box in boxes for name in box.before]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" role="img">'
    drawn = [_draw(box, places[box.id]) for box in boxes]
    return "\n".join((head, f"<title>{_escaped(title)}</title>", _ARROW, *lines, *drawn, "</svg>\n"))


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + _WIDTH, start[1] + _HEIGHT // 2
    x2, y2 = end[0], end[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    path = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#end)"/>'


def _draw(box: StepBox, place: tuple[int, int]) -> str:
    x, y = place
    dashes = ' stroke-dasharray="5 3"' if box.is_optional else ""
    texts = ((18, "bold", box.id), (34, "normal", box.calls), (50, "normal", " · ".join(box.marks)))
    written = "".join(
        f'<text x="{x + 10}" y="{y + down}" font-weight="{weight}">{_escaped(_short(text))}</text>'
        for down, weight, text in texts
    )
    told = (*box.marks, *(() if box.state is None else (box.state,)))
    title = _escaped(f"{box.id}: {box.calls}" + "".join(f"; {each}" for each in told))
    fill = _FILLS.get(box.state or "", "#ffffff")
    return (
        f'<g><title>{title}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{fill}" '
        f'stroke="#333"{dashes}/>{written}</g>'
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
