"""The facade: every promised name is there, and importing it loads nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import twinraven
from twinraven import foundation


def test_every_name_resolves() -> None:
    """Each public name can be imported from the package."""
    assert all(getattr(foundation, name) is not None for name in foundation.__all__)
    assert foundation.__all__ == sorted(foundation.__all__, key=lambda name: (not name.isupper(), name))


def test_other_names_do_not_exist() -> None:
    """What is not promised is not there, also if one of the modules has it."""
    for name in ("orjson", "nothing", "_write"):
        with pytest.raises(AttributeError, match=name):
            getattr(foundation, name)


def test_importing_the_package_loads_none_of_its_modules() -> None:
    """A command pays only for what it uses."""
    script = (
        "import sys, twinraven.foundation; print([m for m in sys.modules if m.startswith('twinraven.foundation.')])"
    )
    source = str(Path(twinraven.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": source}, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
