"""Facades resolve their names on first use, from what type checkers read."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import twinraven

_ROOT = Path(twinraven.__file__).parent
_FACADES = sorted(
    ".".join(("twinraven", *path.parent.relative_to(_ROOT).parts))
    for path in _ROOT.rglob("__init__.py")
    if "lazy_names(__name__)" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("facade", _FACADES)
def test_every_name_of_a_facade_is_there_and_no_other(facade: str) -> None:
    """What `__all__` lists can be imported; anything else is an AttributeError that names the facade."""
    module = import_module(facade)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match=f"module '{facade}' has no attribute 'nothing'"):
        _ = module.nothing


def test_a_name_costs_its_own_module_alone() -> None:
    """Taking one name from a facade leaves the modules of the others alone."""
    code = "import sys; from twinraven.vault import Secret; print(*(n for n in sys.modules if 'twinraven.vault.' in n))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "twinraven.vault.model" in done.stdout
    assert "twinraven.vault.service" not in done.stdout
