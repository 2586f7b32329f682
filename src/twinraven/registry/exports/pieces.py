"""The parts of the run-time modules that a text needs, cut out of their source.

An export carries what it uses and no more, in the order in which it stands in those modules.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib.resources import files
from typing import Final

_SOURCES: Final = {
    "twinraven.registry.exports": ("runtime.py", "runtime_steps.py", "runtime_text.py"),
    "twinraven.foundation": ("text_values.py", "text_lines.py", "text_tables.py", "text_shapes.py"),
}
_MODULES: Final = ("asyncio", "json", "re")
"""What a function itself may use, so that nothing in it may be named like that."""
_MODULES_BELOW: Final = ("csv", "itertools", "math")
_BUILTINS: Final = frozenset({"str", "int", "float", "bool", "list", "dict", "set"})


@cache
def pieces() -> dict[str, tuple[str, frozenset[str]]]:
    """By name: the text of each piece, and the names it uses."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for package, names in _SOURCES.items():
        for name in names:
            found |= _pieces(files(package).joinpath(name).read_text(encoding="utf-8"))
    return found


def reserved() -> frozenset[str]:
    """The names that nothing else in an export may have."""
    return _BUILTINS | {*_MODULES} | pieces().keys()


def needed(source: str) -> list[str]:
    """The pieces that a text needs, and those that these need."""
    known = pieces()
    pending = list(_names(ast.parse(source)))
    wanted: set[str] = set()
    while pending:
        name = pending.pop()
        if name in known and name not in wanted:
            wanted.add(name)
            pending += known[name][1]
    return [text for name, (text, _) in known.items() if name in wanted]


def imports(source: str) -> list[str]:
    """The lines that import what a text needs."""
    names = _names(ast.parse(source))
    kinds = ["Awaitable", "Callable", *(["Sequence"] if "Sequence" in names else [])]
    return [
        "from __future__ import annotations",
        "",
        *(f"import {name}" for name in sorted((*_MODULES, *_MODULES_BELOW)) if name in names),
        f"from collections.abc import {', '.join(kinds)}",
        "from typing import Any",
    ]


def _pieces(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    found: dict[str, tuple[str, frozenset[str]]] = {}
    lines = text.splitlines()
    for node in ast.parse(text).body:
        name = _defined(node)
        start, end = node.lineno - 1, node.end_lineno or node.lineno
        while lines[start - 1].startswith("#"):
            start -= 1
        if name and name != "Call":
            found[name] = ("\n".join(lines[start:end]), _names(node))
    return found


def _defined(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    return target.id if isinstance(target, ast.Name) else ""


def _names(tree: ast.AST) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
