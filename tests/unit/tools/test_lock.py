"""The lock says what is installed, on every machine and from wherever that machine gets its packages."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tools.requirements import ROOT

_LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
_RUNTIME = (ROOT / "requirements-run.lock").read_text(encoding="utf-8")


def test_the_lock_names_no_place() -> None:
    """No index, no host and no path of whoever solved it stands in the lock."""
    places = re.compile(r"://|(^|\s)/|--index|--find-links")
    assert [line for line in _LOCK.splitlines() if places.search(line)] == []


def test_every_locked_version_has_a_hash() -> None:
    """What is installed is what was locked, byte for byte."""
    pins = re.findall(r"^([A-Za-z0-9_.-]+(?:\[[a-z,]+\])?==\S+)(.*)$", _LOCK, flags=re.MULTILINE)
    assert len(pins) > 20
    assert [name for name, rest in pins if not rest.endswith("\\")] == []


def test_every_declared_dependency_is_locked() -> None:
    """Adding a dependency and forgetting `make lock` is found before anybody's set-up is."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared: list[str] = [
        *project["project"]["dependencies"],
        *(each for extra in project["project"]["optional-dependencies"].values() for each in extra),
        *(each for each in project["dependency-groups"]["dev"] if isinstance(each, str)),
        *project["dependency-groups"]["build"],
    ]
    names = {re.split(r"[^A-Za-z0-9_.-]", each, maxsplit=1)[0].lower().replace("_", "-") for each in declared}
    locked = set(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?==", _LOCK, flags=re.MULTILINE))
    assert names - locked == {"twinraven"}  # groups of extras name the project itself


def test_the_demo_runs_on_versions_that_are_tested() -> None:
    """The small lock of `make demo` is a part of the whole one, and has what the project needs to run."""
    pins, small = (
        set(re.findall(r"^([A-Za-z0-9_.-]+==[^\s;]+)", lock, flags=re.MULTILINE)) for lock in (_LOCK, _RUNTIME)
    )
    assert small - pins == set()
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    names = {re.split(r"[^A-Za-z0-9_.-]", each, maxsplit=1)[0].lower() for each in needed}
    assert names - {pin.split("==")[0] for pin in small} == set()
