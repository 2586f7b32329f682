"""Reads mutants (small edits that break the behaviour behind a requirement) and applies one to a copy of the sources.

A mutant names its place by module and qualified name, never by line, so that it follows the code when the code moves.
Where the text to replace is not found exactly once inside that symbol, the mutant is stale and its data must follow.
What two guards uphold is broken by edits of both: `[[mutant.also]]` names further places.
"""

from __future__ import annotations

import ast
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tools.requirements import ROOT

MUTANTS = ROOT / "tests" / "mutants"
VERDICTS = MUTANTS / "outcomes.json"
KILLED, SURVIVED, STALE = "killed", "survived", "stale"
_FIELDS = {"requirement", "symbol", "find", "replace", "breaks"}
_PLACE = {"symbol", "find", "replace"}


class StaleMutantError(Exception):
    """The symbol is gone, or the text to replace is not in it exactly once."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of text: inside `symbol` (`module:Qualified.name`, or a whole `module`), `find` becomes `replace`."""

    symbol: str
    find: str
    replace: str

    @property
    def path(self) -> Path:
        """Where the module lies, from the root of the project."""
        below = Path("src", *self.symbol.partition(":")[0].split("."))
        return below / "__init__.py" if (ROOT / below).is_dir() else below.with_suffix(".py")

    def apply(self, text: str) -> str:
        """Make the edit in the text of the module."""
        start, end = self._span(text)
        found = text[start:end].count(self.find)
        if found != 1:
            raise StaleMutantError(f"{self.symbol} holds {self.find!r} {found} times, not once")
        return text[:start] + text[start:end].replace(self.find, self.replace) + text[end:]

    def fingerprint(self, text: str) -> str:
        """A hash of the symbol's source and of the edit: an outcome holds for that pair alone."""
        start, end = self._span(text)
        return hashlib.sha256("\0".join((text[start:end], self.find, self.replace)).encode()).hexdigest()[:16]

    def _span(self, text: str) -> tuple[int, int]:
        lines = text.splitlines(keepends=True)
        first, last = 1, len(lines)
        body: Sequence[ast.stmt] = _statements(text)
        for name in filter(None, self.symbol.partition(":")[2].split(".")):
            node = next((node for node in body if name in _names(node)), None)
            if node is None:
                raise StaleMutantError(f"there is no {self.symbol}")
            decorators: list[ast.expr] = getattr(node, "decorator_list", [])
            first, last = min([node.lineno, *(one.lineno for one in decorators)]), node.end_lineno or node.lineno
            body = getattr(node, "body", [])
        return len("".join(lines[: first - 1])), len("".join(lines[:last]))


@dataclass(frozen=True, slots=True)
class Mutant:
    """Edits that together break one behaviour: several where each guard alone would uphold it."""

    requirement: str
    breaks: str
    edits: tuple[Edit, ...]

    @property
    def key(self) -> str:
        return f"{self.requirement} {self.breaks}"

    @property
    def packages(self) -> frozenset[str]:
        return frozenset(edit.symbol.partition(":")[0].split(".")[1] for edit in self.edits)

    def read(self, root: Path = ROOT) -> dict[Path, str]:
        """Read the modules that are to be edited, by their paths from the root."""
        return {edit.path: (root / edit.path).read_text(encoding="utf-8") for edit in self.edits}

    def apply(self, texts: Mapping[Path, str]) -> dict[Path, str]:
        """Make all edits."""
        edited = dict(texts)
        for edit in self.edits:
            edited[edit.path] = edit.apply(edited[edit.path])
        return edited

    def fingerprint(self, texts: Mapping[Path, str]) -> str:
        """A hash of what is edited and how."""
        return "-".join(edit.fingerprint(texts[edit.path]) for edit in self.edits)


@lru_cache(maxsize=64)
def _statements(text: str) -> Sequence[ast.stmt]:
    """Parse a module; many edits are of the same one."""
    return ast.parse(text).body


def _names(node: ast.stmt) -> list[str]:
    """The names that a statement of a module or class binds."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: the outcome, the hash it was seen on, and the test that killed it."""

    outcome: str
    fingerprint: str
    test: str | None = None


def read_mutants(folder: Path = MUTANTS) -> list[Mutant]:
    """All mutants of the `*.toml` files in a folder; a malformed or doubled one stops with its place."""
    mutants: dict[str, Mutant] = {}
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", ()):
            also: list[dict[str, str]] = entry.pop("also", [])
            if set(entry) != _FIELDS or any(set(place) != _PLACE for place in also):
                raise SystemExit(
                    f"mutants: {path.name}: an entry has the fields {sorted(entry)}, not {sorted(_FIELDS)}"
                )
            places = [{name: entry[name] for name in _PLACE}, *also]
            mutant = Mutant(entry["requirement"], entry["breaks"], tuple(Edit(**place) for place in places))
            if mutants.setdefault(mutant.key, mutant) is not mutant:
                raise SystemExit(f"mutants: {path.name}: {mutant.key!r} is there twice")
    return list(mutants.values())


def read_verdicts(path: Path = VERDICTS) -> dict[str, Verdict]:
    try:
        body: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {key: Verdict(**entry) for key, entry in body.items()}


def write_verdicts(verdicts: Mapping[str, Verdict], mutants: Iterable[Mutant], path: Path = VERDICTS) -> None:
    """Keep the verdicts of the mutants that there still are."""
    known = {mutant.key for mutant in mutants}
    body = {key: asdict(verdict) for key, verdict in verdicts.items() if key in known}
    path.write_text(json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def is_current(mutant: Mutant, verdict: Verdict | None) -> bool:
    """Whether a verdict was given on the source as it is now."""
    try:
        return verdict is not None and verdict.fingerprint == mutant.fingerprint(mutant.read())
    except (OSError, StaleMutantError):
        return False


def proven_requirements(mutants: Iterable[Mutant], verdicts: Mapping[str, Verdict]) -> frozenset[str]:
    """The IDs of which at least one mutant was killed and none got away."""
    outcomes: dict[str, set[str]] = {}
    for mutant in mutants:
        if (verdict := verdicts.get(mutant.key)) is not None:
            outcomes.setdefault(mutant.requirement, set()).add(verdict.outcome)
    return frozenset(key for key, seen in outcomes.items() if seen == {KILLED})
