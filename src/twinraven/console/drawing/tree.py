"""Draws a tree of turns: down the page in order, each branch one step further in, every turn a link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from twinraven.console.drawing.marks import label, link, picture

_ROW: Final = 30.0
_STEP: Final = 22.0
_WIDE: Final = 330.0
_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One turn."""

    key: str
    parent: str | None
    words: str
    note: str
    kind: str
    href: str


def tree(nodes: Sequence[TreeNode], *, title: str) -> Markup:
    """The first 200 turns; a turn with one child is followed below, further children begin branches further in."""
    children: dict[str | None, list[TreeNode]] = {}
    known = {node.key for node in nodes}
    for node in nodes:
        children.setdefault(node.parent if node.parent in known else None, []).append(node)
    placed = list(_walk(children, None, 0))[:_MOST]
    places = {node.key: (12 + _STEP * depth, 20 + _ROW * row) for row, (node, depth) in enumerate(placed)}
    parts: list[str] = []
    for node, _ in placed:
        x, y = places[node.key]
        if node.parent in places:
            from_x, from_y = places[node.parent]
            parts.append(f'<path class="twig" d="M{from_x:.0f} {from_y + 6:.0f} V{y:.0f} H{x - 6:.0f}"/>')
        inside = (
            f'<rect class="hit" x="{x - 8:.0f}" y="{y - 13:.0f}" width="{_WIDE - x:.0f}" height="26" rx="5"/>'
            f'<circle class="turn {node.kind}" cx="{x:.0f}" cy="{y:.0f}" r="5"/>'
            + label(x + 12, y, f"{node.words}{f' · {node.note}' if node.note else ''}", node.kind)
        )
        branch = ' data-branch=""' if len(children.get(node.key, ())) > 1 or node.note else ""
        drawn = link(node.href, inside)
        parts.append(drawn.replace("<a ", f"<a{branch} ", 1))
    height = 20 + _ROW * len(placed)
    return picture("tree", _WIDE, height, "".join(parts), title=title)


def _walk(children: dict[str | None, list[TreeNode]], parent: str | None, depth: int) -> Iterator[tuple[TreeNode, int]]:
    """Turns in the order of the page, each with how far in it stands; without recursion, talks can be long."""
    pending = [(node, depth + (number > 0)) for number, node in enumerate(children.get(parent, ()))][::-1]
    while pending:
        node, level = pending.pop()
        yield node, level
        below = children.get(node.key, ())
        pending += [(child, level + (number > 0)) for number, child in enumerate(below)][::-1]
