"""Rules about the tree itself that import-linter cannot state."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import twinraven
from twinraven.app import Settings

_ROOT = Path(twinraven.__file__).parent


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def is_trespass(context: str, module: str) -> bool:
    """Whether a module of `context` reaches past the facade of another."""
    package, *inner = module.split(".")
    return package == "twinraven" and len(inner) > 1 and inner[0] not in (context, "foundation")


def test_every_folder_is_a_package() -> None:
    """A folder without `__init__.py` would be invisible to the layer check."""
    folders = {path.parent for path in _ROOT.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_contexts_meet_at_their_facades() -> None:
    """A context is imported through its `__init__`; only foundation, which has no facade, is imported by module."""
    trespasses = [
        f"{path.relative_to(_ROOT)} imports {module}"
        for path in sorted(_ROOT.rglob("*.py"))
        for module in imported_modules(path)
        if is_trespass(path.relative_to(_ROOT).parts[0].removesuffix(".py"), module)
    ]
    assert trespasses == []


def test_no_name_of_a_facade_is_a_submodule() -> None:
    """A lazy facade would give the submodule instead, once anybody has imported that."""
    collisions = [
        f"{facade.parent.name}.{name}"
        for facade in sorted(_ROOT.glob("*/__init__.py"))
        for name in getattr(importlib.import_module(f"twinraven.{facade.parent.name}"), "__all__", ())
        if (facade.parent / f"{name}.py").exists() or (facade.parent / name).is_dir()
    ]
    assert collisions == []


def test_each_section_of_the_settings_is_declared_by_its_context() -> None:
    """`foundation` loads settings and declares none; a section is found beside the code that it configures."""
    declared = {section.type for section in fields(Settings) if str(section.type).endswith("Settings")}
    found = {
        node.name: path.relative_to(_ROOT).parts[0]
        for path in _ROOT.glob("*/*settings.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name in declared
    }
    assert set(found) == declared
    assert "foundation" not in found.values()
    assert [name for name, context in found.items() if context == "app"] == [
        "ServingSettings", "GatewaySettings", "CodeSettings",
    ]  # fmt: skip


_MIRRORED = {"Adoption": "registry", "LearningRound": "huginn"}
"""Entities that the API names by their class, and that the SDK, which imports nothing from here, states again."""


def public_classes() -> dict[str, list[str]]:
    """Return the packages that define each public class, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted(_ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path.relative_to(_ROOT).parts[0])
    return found


def test_public_class_names_are_unique() -> None:
    """One name means one class; only the SDK repeats names, those of entities that it mirrors."""
    twice = {name: places for name, places in public_classes().items() if len(places) > 1}
    assert twice == {name: [package, "sdk"] for name, package in _MIRRORED.items()}


def begins_with_verb(docstring: str) -> bool:
    """Return whether the first word is a verb in the third person, or a command or format in backquotes."""
    word = docstring.split(" ", 1)[0]
    return word.startswith("`") or (word.isalpha() and word.istitle() and word.endswith("s"))


def test_module_docstrings_begin_with_a_verb() -> None:
    """A module says what it does, so that its first line holds a verb and the term to search for."""
    texts = {path: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in _ROOT.rglob("*.py")}
    assert [str(path.relative_to(_ROOT)) for path, text in texts.items() if text and not begins_with_verb(text)] == []


def test_what_is_imported_from_a_facade_is_there() -> None:
    """A type checker takes any name for one of a lazy facade; an import inside a function fails only when it runs."""
    facades = {path.parent.name: path.parent for path in _ROOT.glob("*/__init__.py")}
    offered: dict[str, tuple[str, ...]] = {
        name: tuple(getattr(importlib.import_module(f"twinraven.{name}"), "__all__", ())) for name in facades
    }
    missing = [
        f"{path.relative_to(_ROOT)}: {node.module}.{alias.name}"
        for path in sorted(_ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0
        for package, _, context in [node.module.partition(".")]
        if package == "twinraven" and context in facades
        for alias in node.names
        if alias.name not in offered[context]
        and not (facades[context] / f"{alias.name}.py").exists()
        and not (facades[context] / alias.name).is_dir()
    ]
    assert missing == []
