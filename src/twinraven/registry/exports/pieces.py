"""Assembles the vendored runner of an export from the source text of flow's own modules.

So there is one scheduler, and an export carries that: every definition that `run_flow` needs, in the order in which it
stands in its module. Names are unique across these modules, which a test checks; those of `standalone` take the place
of others.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib.resources import files
from typing import Final

_FOUNDATION: Final = "errors clock canonical references predicates"
_READERS: Final = "text_values text_lines text_yaml text_tables text_shapes text_readers"
_FLOW: Final = "fields definition graph operators mapping step_run plan protocol results schedule run"
_SOURCES: Final = {
    "twinraven.foundation": (*_FOUNDATION.split(), *_READERS.split(), "time_limit"),
    "twinraven.flow": (*_FLOW.split(),),
    "twinraven.registry.exports": ("standalone",),
}
"""Each module after those that it imports."""
ENTRY: Final = "run_flow"
FIRST: Final = ("LEFT_OUT", "JsonObject", "Call")
"""What a function's signature and its data need before the runner."""


@cache
def runner(*, reads_text: bool) -> tuple[str, str, str]:
    """Return the imports of the runner, what a signature needs of it, and the rest.

    Text readers only where one is used.
    """
    known, imported = _definitions()
    if not reads_text:
        known = {**known, "READERS": ("READERS: Mapping[str, Reader] = {}", frozenset({"Mapping", "Reader"}))}
    wanted: set[str] = set()
    pending = [ENTRY, *FIRST]
    while pending:
        name = pending.pop()
        if name not in wanted and (name in known or name in imported):
            wanted.add(name)
            pending += known[name][1] if name in known else ()
    first = "\n".join(known[name][0] for name in FIRST)
    rest = "\n\n\n".join(text for name, (text, _) in known.items() if name in wanted and name not in FIRST)
    return _import_lines({name: imported[name] for name in wanted - known.keys()}), first, rest


def reserved() -> frozenset[str]:
    """Return the names that an exported function may not have."""
    known, imported = _definitions()
    return frozenset(known) | frozenset(imported)


@cache
def _definitions() -> tuple[dict[str, tuple[str, frozenset[str]]], dict[str, str]]:
    """By name: the text of each definition with the names that it uses, and the standard modules names come from."""
    known: dict[str, tuple[str, frozenset[str]]] = {}
    imported: dict[str, str] = {}
    for package, names in _SOURCES.items():
        for name in names:
            text = files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")
            for node in ast.parse(text).body:
                imported |= _imports(node)
                if defined := _defined(node):
                    known[defined] = (_text(text.splitlines(), node), _names(node))
    return known, imported


def _text(lines: list[str], node: ast.stmt) -> str:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    start = min([node.lineno, *(each.lineno for each in decorators)]) - 1
    while lines[start - 1].startswith("#"):
        start -= 1
    # What a function imports from us on first use stands in the export already; an empty line follows it.
    ours = [each for each in ast.walk(node) if isinstance(each, ast.ImportFrom) and _is_ours(each)]
    dropped = {number for each in ours for number in (each.lineno, each.lineno + 1)}
    kept = enumerate(lines[start : node.end_lineno], start + 1)
    return "\n".join(line for number, line in kept if number not in dropped)


def _imports(node: ast.stmt) -> dict[str, str]:
    """By name: the module that it is imported from, empty for a module itself; ours stand in the export."""
    if isinstance(node, ast.Import):
        return {alias.name: "" for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__" and not _is_ours(node):
        return {alias.name: node.module for alias in node.names}
    return {}


def _is_ours(node: ast.ImportFrom) -> bool:
    return (node.module or "").startswith("twinraven")


def _import_lines(names: dict[str, str]) -> str:
    lines = [f"import {name}" for name in sorted(name for name, module in names.items() if not module)]
    for module in sorted({module for module in names.values() if module}):
        members = sorted((name for name in names if names[name] == module), key=_rank)
        lines.append(f"from {module} import {', '.join(members)}")
    return "\n".join(lines)


def _rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as import sorters have it."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def _defined(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    target = (
        node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
    )
    return target.id if isinstance(target, ast.Name) else ""


def _names(node: ast.stmt) -> frozenset[str]:
    """Return the names that a definition takes from around it; its own arguments and variables are none."""
    used = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        own |= {each.id for each in used if isinstance(each.ctx, ast.Store)}
    return frozenset(each.id for each in used if isinstance(each.ctx, ast.Load)) - own
