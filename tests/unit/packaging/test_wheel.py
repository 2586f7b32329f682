"""What `make dist` builds: the package whole, and nothing beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from email import message_from_bytes
from pathlib import Path

import pytest

import twinraven
from tools.requirements import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    (file,) = folder.iterdir()
    return file


def _run(*command: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _own_environment(**rest: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TWINRAVEN", "PYTHON"))}
    return {**kept, **rest}


def test_the_wheel_has_every_module_and_no_tests(wheel: Path) -> None:
    """Everything under src/twinraven is inside, with its type marker and the licence, and nothing else is."""
    assert wheel.name == f"twinraven-{twinraven.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    source = ROOT / "src"
    kept = {
        str(file.relative_to(source))
        for file in (source / "twinraven").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    information = f"twinraven-{twinraven.__version__}.dist-info"
    assert {name for name in names if not name.startswith(information)} == kept
    assert "twinraven/py.typed" in names
    assert f"{information}/licenses/LICENSE" in names


def test_the_wheel_names_the_command_and_the_extras(wheel: Path) -> None:
    """An installer finds the version, the command and each group of extras."""
    information = f"twinraven-{twinraven.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as opened:
        metadata = message_from_bytes(opened.read(f"{information}/METADATA"))
        assert b"twinraven = twinraven.cli:main" in opened.read(f"{information}/entry_points.txt")
    assert metadata["Version"] == twinraven.__version__
    assert {"all", "server", "agents", "postgres", "gateway"} <= set(metadata.get_all("Provides-Extra") or [])


def test_the_wheel_runs_without_the_clone(wheel: Path, tmp_path: Path) -> None:
    """Unpacked anywhere, the package starts from there and says its version."""
    package = tmp_path / "site"
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(package)
    program = "import twinraven; from twinraven.cli import main; print(twinraven.__file__); main(['--version'])"
    said = _run(sys.executable, "-c", program, cwd=tmp_path, env=_own_environment(PYTHONPATH=str(package)))
    assert said.splitlines() == [str(package / "twinraven" / "__init__.py"), f"twinraven {twinraven.__version__}"]


@pytest.mark.soak
def test_the_installed_wheel_learns_from_traces(wheel: Path, tmp_path: Path) -> None:
    """In an environment that shares the libraries, pip installs the wheel, and its command goes from init to learn."""
    place = tmp_path / "env"
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    _run(python, "-m", "pip", "install", "--no-deps", "--no-index", str(wheel), cwd=tmp_path, env=_own_environment())
    (shared,) = place.glob("lib/python*/site-packages")
    (shared / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = str(place / "bin" / "twinraven")
    traces = str(ROOT / "examples" / "traces" / "mytraces.jsonl.gz")
    said = [
        _run(command, *arguments, cwd=tmp_path, env=_own_environment())
        for arguments in (("--version",), ("init",), ("import", traces), ("learn",))
    ]
    assert said[0] == f"twinraven {twinraven.__version__}\n"
    assert "2015" in said[2]
    assert "search_customer_load_customer_get_invoice_each" in said[3]
