"""Normalises agents' scripts, so that two that do the same with other values are equal.

A skeleton is the script's syntax tree with literals lifted to parameters, bound names numbered in the order they
appear, and without what carries no data: imports, prints, docstrings, `await`. What says where data comes from is kept:
the tools that are called, the names of their arguments, and the keys and attributes that are read.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Final, cast

LONGEST_SCRIPT: Final = 262_144

_CALL_TOOL: Final = "call_tool"
_RESULT: Final = "result"


@dataclass(frozen=True, slots=True)
class ScriptSkeleton:
    """A normalised script: its canonical text, and the literals that were lifted out of it."""

    text: str
    literals: tuple[Any, ...]


def skeleton_of(code: str) -> ScriptSkeleton | None:
    """Return a script's skeleton; None where it is no Python or larger than any that an agent writes."""
    if len(code) > LONGEST_SCRIPT:
        return None
    try:
        tree = ast.parse(code)
        lifting = _Lifting(_bound_names(tree))
        body = _with_last_expression([node for each in tree.body if (node := lifting.visit(each)) is not None])
        text = ast.unparse(ast.fix_missing_locations(ast.Module(body=body, type_ignores=[])))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return ScriptSkeleton(text, tuple(lifting.literals))


def _bound_names(tree: ast.AST) -> frozenset[str]:
    """Return every name that the script itself gives a meaning; the others are tools and builtins."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            found.add(node.name)
    return frozenset(found)


def _with_last_expression(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a script that ends by assigning its result, as one that ends with it."""
    last = body[-1] if body else None
    if isinstance(last, ast.Assign) and last.lineno < 0:
        return [*body[:-1], ast.Expr(last.value)]
    return body


class _Lifting(ast.NodeTransformer):
    """Lifts literals and numbers names, in the order of the text."""

    def __init__(self, bound: frozenset[str]) -> None:
        self.literals: list[Any] = []
        self._bound = bound
        self._numbers: dict[str, int] = {}

    def _renamed(self, name: str) -> str:
        if name not in self._bound:
            return name
        return f"v{self._numbers.setdefault(name, len(self._numbers) + 1)}"

    def visit_Import(self, node: ast.Import) -> None:
        del node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        del node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Bare constants and prints carry no data."""
        value = node.value
        is_print = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"
        return None if is_print or isinstance(value, ast.Constant) else self.generic_visit(node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        return self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name) and target.id == _RESULT:
            # Marked, so that the last statement is known for it after the name was numbered away.
            node.lineno = -1
        node.value = self.visit(node.value)
        node.targets = [self.visit(each) for each in node.targets]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._renamed(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._renamed(node.arg)
        node.annotation = None
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = None if node.name is None else self._renamed(node.name)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(ast.FunctionDef(**{name: getattr(node, name) for name in node._fields}))

    def _function(self, node: ast.FunctionDef) -> ast.AST:
        node.name, node.returns = self._renamed(node.name), None
        made = cast("ast.FunctionDef", self.generic_visit(node))
        made.body = made.body or [ast.Pass()]
        return made

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Keep a literal key or index: it addresses data and is no value."""
        node.value = self.visit(node.value)
        if not isinstance(node.slice, ast.Constant):
            node.slice = self.visit(node.slice)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        node.keys = [key if key is None or isinstance(key, ast.Constant) else self.visit(key) for key in node.keys]
        node.values = [self.visit(value) for value in node.values]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Return the tool that `call_tool` names is a function's name, and `.get` reads a key."""
        function, kept = node.func, 0
        is_get = isinstance(function, ast.Attribute) and function.attr == "get"
        if is_get or (isinstance(function, ast.Name) and function.id == _CALL_TOOL):
            kept = int(bool(node.args) and isinstance(node.args[0], ast.Constant))
        node.func = self.visit(function)
        node.args = [*node.args[:kept], *(self.visit(each) for each in node.args[kept:])]
        node.keywords = [self.visit(each) for each in node.keywords]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if node.value is None or isinstance(node.value, bool) or node.value is Ellipsis:
            return node
        self.literals.append(node.value)
        return ast.Name(f"p{len(self.literals)}", ast.Load())

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Lift the fixed words of an f-string as one literal; what is put in stays."""
        words = [part.value for part in node.values if isinstance(part, ast.Constant)]
        self.literals.append(tuple(words))
        number = len(self.literals)
        holes = [self.visit(part) for part in node.values if not isinstance(part, ast.Constant)]
        node.values = [ast.Constant(f"p{number}"), *holes]
        return node
