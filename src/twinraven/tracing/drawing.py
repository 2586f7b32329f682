"""Draws a trace: as a tree of lines for a terminal, and as SVG for a page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from twinraven.tracing.model import Trace, TraceKey, TraceNode

_LINE: Final = 22
_INDENT: Final = 24
_MARGIN: Final = 16
_CHARACTER: Final = 7
_FILLS: Final = {"audit_entry": "#f2f2f2", "judge_decision": "#fdf0cf", "transaction": "#d7f0dd", "event": "#e3ecf7"}


def trace_lines(trace: Trace) -> list[str]:
    """Return the trace as a tree, what came first at the top; a record that was drawn already is named once more."""
    lines = [f"{mark}{text}" for mark, text, _ in _rows(trace)]
    return [*lines, "… there is more than is shown here"] if trace.is_cut else lines


def _rows(trace: Trace) -> Iterator[tuple[str, str, TraceNode]]:
    """Branches, words and node of each line."""
    drawn: set[TraceKey] = set()
    for root in trace.roots():
        yield from _branch(trace, root, "", "", drawn)


def _branch(
    trace: Trace, key: TraceKey, mark: str, rest: str, drawn: set[TraceKey]
) -> Iterator[tuple[str, str, TraceNode]]:
    node = trace.nodes[key]
    if key in drawn:
        yield mark, f"{node.title} (see above)", node
        return
    drawn.add(key)
    yield mark, _words(node, is_start=key == trace.start), node
    below = sorted(trace.below(key), key=lambda link: (trace.nodes[link.after].at or "", link.after))
    for number, link in enumerate(below):
        is_last = number == len(below) - 1
        yield from _branch(
            trace, link.after, f"{rest}{'└─' if is_last else '├─'} ", f"{rest}{'  ' if is_last else '│ '} ", drawn
        )


def _words(node: TraceNode, *, is_start: bool) -> str:
    parts = [node.title]
    if node.status is not None:
        parts.append(f"[{node.status}]")
    if node.actor is not None:
        parts.append(f"by {node.actor}")
    if node.at is not None:
        parts.append(node.at)
    if node.key.kind != "audit_entry":
        parts.append(str(node.key))
    return f"{'► ' if is_start else ''}{'  '.join(parts)}"


def draw_trace(trace: Trace) -> str:
    """Draw the trace as an SVG document: one line for each record, indented below what it came of."""
    rows = list(_rows(trace))
    longest = max(_MARGIN * 2 + len(mark) * 8 + len(text) * _CHARACTER for mark, text, _ in rows)
    height = 2 * _MARGIN + len(rows) * _LINE
    size = f'viewBox="0 0 {longest} {height}" width="{longest}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="12" role="img">'
    body: list[str] = []
    for number, (mark, text, node) in enumerate(rows):
        x, y = _MARGIN + len(mark) // 3 * _INDENT, _MARGIN + number * _LINE
        fill = _FILLS.get(node.key.kind, "#ffffff")
        width = len(text) * _CHARACTER + 8
        body.append(f'<rect x="{x - 4}" y="{y}" width="{width}" height="{_LINE - 4}" fill="{fill}" stroke="#bbb"/>')
        body.append(f'<text x="{x}" y="{y + 13}">{escape(text)}</text>')
    return "\n".join((head, f"<title>trace of {escape(str(trace.start))}</title>", *body, "</svg>\n"))
