"""Extras: all of them are known to `doctor`, and one that is missing says how to get it."""

from __future__ import annotations

import sys
import tomllib
from traceback import format_exception
from typing import Any

import pytest

from tools.requirements import ROOT
from twinraven import Client
from twinraven.app.examination import EXTRAS
from twinraven.foundation.errors import InvalidSetting

_DECLARED: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
_GROUPS = {name for name, packages in _DECLARED.items() if packages[0].startswith("twinraven[")}


def test_the_doctor_looks_at_every_extra() -> None:
    """What can be installed beside the core is listed by `twinraven doctor`; groups are only names for several."""
    assert set(EXTRAS) == set(_DECLARED) - _GROUPS


def test_all_is_all() -> None:
    """`twinraven[all]` reaches every other extra, directly or through a group."""

    def reached(name: str) -> set[str]:
        inside = _DECLARED[name][0].removeprefix("twinraven[").removesuffix("]").split(",") if name in _GROUPS else []
        return {name}.union(*(reached(each) for each in inside))

    assert reached("all") == set(_DECLARED)


def test_a_traceback_has_the_line_that_installs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever uses the library without an extra reads the pip line where the error ends."""
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    client: Any = None
    with pytest.raises(InvalidSetting) as caught:
        client = Client("http://127.0.0.1:1")
    assert client is None
    assert "fix: pip install 'twinraven[sdk]'" in "".join(format_exception(caught.value))
