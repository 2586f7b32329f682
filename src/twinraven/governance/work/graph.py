"""Checks that dependencies between tasks form a directed acyclic graph, and orders tasks by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from twinraven.foundation.errors import InvalidInput


def refuse_cycle(task_id: str, depends_on: Iterable[str], known: Callable[[str], Iterable[str]]) -> None:
    """Refuse dependencies from which one comes back to the task; `known` gives those that stand."""
    pending: list[tuple[str, tuple[str, ...]]] = [(each, (task_id, each)) for each in depends_on]
    seen: set[str] = set()
    while pending:
        current, path = pending.pop()
        if current == task_id:
            raise _cycle(path)
        if current not in seen:
            seen.add(current)
            pending += [(each, (*path, each)) for each in known(current)]


def in_order(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the names of a graph, each after those it depends on; a cycle is refused by the names it goes through."""
    ordered: dict[str, None] = {}
    for start in graph:
        _visit(start, graph, ordered)
    return list(ordered)


def _visit(start: str, graph: Mapping[str, Iterable[str]], ordered: dict[str, None]) -> None:
    path: dict[str, None] = {}
    stack: list[tuple[str, bool]] = [(start, False)]
    while stack:
        name, is_done = stack.pop()
        if is_done:
            path.pop(name, None)
            ordered[name] = None
        elif name in path:
            raise _cycle((*list(path)[list(path).index(name) :], name))
        elif name not in ordered:
            path[name] = None
            stack.append((name, True))
            stack += [(each, False) for each in graph.get(name, ()) if each in graph]


def _cycle(path: tuple[str, ...]) -> InvalidInput:
    return InvalidInput(f"dependencies go in a circle: {' → '.join(path)}", field="dependencies", path=list(path))
