"""Runs programs with the libraries of `requirements-run.lock` alone, as on a fresh clone after `make demo`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tools.requirements import ROOT

_REFUSING = """
import sys
from importlib.metadata import packages_distributions
from os import environ

_ALLOWED = set(environ["LEAN_ALLOWED"].split())
_FOREIGN = {
    module
    for module, names in packages_distributions().items()
    if not _ALLOWED.intersection(name.lower().replace("_", "-") for name in names)
}


class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in _FOREIGN:
            raise ModuleNotFoundError(f"{name} is not in requirements-run.lock", name=name)


sys.meta_path.insert(0, Refusing())
"""


def run_lean(*arguments: str, folder: Path) -> str:
    """Run Python with these arguments and give back what it printed; whatever the run lock lacks cannot be imported."""
    (folder / "sitecustomize.py").write_text(_REFUSING)
    locked = re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements-run.lock").read_text(), flags=re.MULTILINE)
    allowed = {"twinraven", *(name.lower().replace("_", "-") for name in locked)}
    environment = {**os.environ, "PYTHONPATH": str(folder), "LEAN_ALLOWED": " ".join(sorted(allowed))}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, timeout=1_500, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
