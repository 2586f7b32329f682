"""Counts what the aliases and merges of a YAML document stand for, before any value of it is built.

A few lines of YAML can name each other so often that they are billions of values. PyYAML copies merged keys (`<<`)
while it builds objects, so counting afterwards is too late; its node graph, in which an alias is the very node it
names, is still as small as the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from yaml import Node


def yaml_problem(error: Exception) -> str:
    """Say in one line what a text that is not YAML lacks, and where."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "context", None) or str(error)
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return f"{place}{' '.join(str(said).split())}"


def first_unfolding(root: Node, *, values: int, levels: int) -> int | None:
    """Find the line of a node that, written out, holds more values or levels than allowed; None if there is none.

    Each node is counted once and its count kept, so this takes time linear in the text.
    """
    counts: dict[int, int] = {}
    entered: set[int] = set()
    pending: list[tuple[Node, bool]] = [(root, False)]
    while pending:
        node, is_left = pending.pop()
        children = _children(node)
        if is_left:
            entered.discard(id(node))
            counts[id(node)] = 1 + sum(counts[id(child)] for child in children)
            if counts[id(node)] > values:
                return _line(node)
        elif id(node) not in counts:
            entered.add(id(node))
            if len(entered) > levels + 1 or any(id(child) in entered for child in children):
                return _line(node)
            pending.append((node, True))
            pending += [(child, False) for child in children]
    return None


def _children(node: Node) -> list[Node]:
    """Return the nodes below a node; a key that is a scalar belongs to its mapping."""
    from yaml import MappingNode, ScalarNode, SequenceNode

    if isinstance(node, SequenceNode):
        return cast("list[Node]", node.value)
    if not isinstance(node, MappingNode):
        return []
    pairs = cast("list[tuple[Node, Node]]", node.value)
    return [each for key, member in pairs for each in ([member] if isinstance(key, ScalarNode) else [key, member])]


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
