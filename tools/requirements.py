"""The list of requirements, and what the last test run said about each.

The test run writes an outcome file; the report reads it. The file carries a digest of the sources it was made from, so
a report can tell that it is stale without trusting file times, which a checkout or a copy changes.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTCOMES = ROOT / ".cache" / "requirements.json"
_SOURCES = ("src", "tests", "tools")


@dataclass(frozen=True, slots=True)
class System:
    """One of the five systems, with its requirements by ID."""

    key: str
    name: str
    requirements: dict[str, str]


@dataclass(slots=True)
class Outcomes:
    """For each ID, the tests that carried it: those that passed, and those that did anything else."""

    sources: str
    passed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    others: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def is_passing(self, requirement: str) -> bool:
        return bool(self.passed.get(requirement)) and not self.others.get(requirement)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"sources": self.sources, "passed": self.passed, "others": self.others}
        path.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_systems() -> list[System]:
    document = tomllib.loads((ROOT / "docs" / "requirements.toml").read_text(encoding="utf-8"))
    return [System(key, body["name"], body["requirements"]) for key, body in document.items()]


def known_requirements() -> frozenset[str]:
    return frozenset(requirement for system in read_systems() for requirement in system.requirements)


def read_outcomes(path: Path) -> Outcomes | None:
    """The last run's outcomes, or nothing where there is no usable file."""
    try:
        body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Outcomes(body["sources"], body["passed"], body["others"])
    except (OSError, ValueError, KeyError):
        return None


def digest_sources() -> str:
    """One hash over every Python file that could change an outcome."""
    digest = hashlib.sha256()
    for folder in _SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
