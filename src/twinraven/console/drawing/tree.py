"""Draws a tree of turns: down the page in order, alternatives across, each branch one step further in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from twinraven.console.drawing.marks import label, link, picture, safe
from twinraven.console.formatting import cut

_ROW: Final = 30.0
_STEP: Final = 22.0
_DOT: Final = 13.0
_WIDE: Final = 280.0
_CHAR: Final = 7.0
_MOST: Final = 200
_MOST_DOTS: Final = 6


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One turn; each dot is an alternative of it, by how it looks: shown or other, and stale."""

    key: str
    parent: str | None
    words: str
    dots: tuple[str, ...]
    kind: str
    href: str


def tree(nodes: Sequence[TreeNode], *, title: str) -> Markup:
    """Return the first 200 turns.

    A turn with one child is followed below, further children begin branches further in.
    """
    children: dict[str | None, list[TreeNode]] = {}
    known = {node.key for node in nodes}
    for node in nodes:
        children.setdefault(node.parent if node.parent in known else None, []).append(node)
    placed = list(_walk(children, None, 0))[:_MOST]
    places = {node.key: (12 + _STEP * depth, 20 + _ROW * row) for row, (node, depth) in enumerate(placed)}
    twigs: list[str] = []
    turns: list[str] = []
    for node, _ in placed:
        x, y = places[node.key]
        if node.parent in places:
            from_x, from_y = places[node.parent]
            twigs.append(f'<path class="twig" d="M{from_x:.0f} {from_y + 6:.0f} V{y:.0f} H{x:.0f}"/>')
        is_branch = len(children.get(node.key, ())) > 1 or len(node.dots) > 1
        drawn = link(node.href, _turn(node, x, y))
        turns.append(drawn.replace("<a ", '<a data-branch="" ', 1) if is_branch else drawn)
    height = 20 + _ROW * len(placed)
    return picture("tree", _WIDE, height, "".join(twigs + turns), title=title)


def _turn(node: TreeNode, x: float, y: float) -> str:
    dots = node.dots[:_MOST_DOTS] or ("shown",)
    at = x + _DOT * (len(dots) - 1) + 12
    room = int((_WIDE - at) / _CHAR)
    told = f"{node.words} ({len(node.dots)} alternatives)" if len(node.dots) > 1 else node.words
    return (
        f"<title>{safe(told)}</title>"
        f'<rect class="hit" x="{x - 8:.0f}" y="{y - 13:.0f}" width="{_WIDE - x:.0f}" height="26" rx="5"/>'
        + "".join(
            f'<circle class="turn {node.kind} {dot}" cx="{x + _DOT * number:.0f}" cy="{y:.0f}" r="5"/>'
            for number, dot in enumerate(dots)
        )
        + label(at, y, cut(node.words, max(room, 8)), node.kind)
    )


def _walk(children: dict[str | None, list[TreeNode]], parent: str | None, depth: int) -> Iterator[tuple[TreeNode, int]]:
    """Turns in the order of the page, each with how far in it stands; without recursion, talks can be long."""
    pending = [(node, depth + (number > 0)) for number, node in enumerate(children.get(parent, ()))][::-1]
    while pending:
        node, level = pending.pop()
        yield node, level
        below = children.get(node.key, ())
        pending += [(child, level + (number > 0)) for number, child in enumerate(below)][::-1]
