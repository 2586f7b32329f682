"""The README's way from a clone to a learned tool in service, on the traces that the examples bring along."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import venv
from gzip import decompress
from pathlib import Path

import pytest

import twinraven
from examples.traces.generate import log_bytes
from tests.acceptance.cli import Shell
from tools.requirements import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TRACES = ROOT / "examples" / "traces"


def _blocks() -> list[list[str]]:
    """The blocks of the README that name no language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
    return [text.splitlines() for language, text in found if not language]


def _project(folder: Path) -> Shell:
    """A copy of the example's files, without what earlier visitors of the folder made there."""
    for file in TRACES.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    return Shell(folder)


def test_eight_commands_lead_from_a_clone_to_a_learned_tool_in_service(tmp_path: Path) -> None:
    """The README's commands, at most eight with clone and installation, end in an answer of the learned tool."""
    commands = next(block for block in _blocks() if block[0].startswith("git clone"))
    assert len(commands) <= 8
    assert commands[1:3] == ["pipx install ./twinraven", "cd twinraven/examples/traces"]
    shell = _project(tmp_path)
    said = [shell.succeed(*shlex.split(command)[1:]).text for command in commands[3:]]
    shown = next(block for block in _blocks() if block[0] == "$ twinraven learn")
    assert said[2].splitlines() == shown[1:]
    assert "is in service" in said[-2]
    assert '"result":[{"id":"INV1","total":1200,"lines":[]},{"id":"INV2","total":80,"lines":[]}]' in said[-1]


def test_the_readme_prints_what_a_backtest_of_the_example_says(tmp_path: Path) -> None:
    """The figures of the README are those that a reader gets."""
    shown = next(block for block in _blocks() if block[0].startswith("$ twinraven backtest"))
    said = _project(tmp_path).succeed(*shlex.split(shown[0])[2:]).text.splitlines()
    assert said == shown[1:]


def test_the_readme_prints_what_a_first_tool_says(tmp_path: Path) -> None:
    """The desk of the README can be typed in; but for times and paths, what it prints is what a reader gets."""
    (source,) = re.findall(r"^```python\n(# desk_tools.py\n.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "desk_tools.py").write_text(source)
    shown = next(block for block in _blocks() if block[0].startswith("$ printf"))
    shell, said = Shell(tmp_path, {"LOGNAME": "ada"}), list[str]()
    for line in (line for line in shown if line.startswith("$ ")):
        said.append(line)
        if line.startswith("$ printf"):
            (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [desk_tools]\n")
            continue
        ended = shell.run(*shlex.split(line)[2:])
        said += [*ended.text.splitlines(), *ended.err.splitlines()]
    assert [_plain(line, tmp_path) for line in said] == [_plain(line, Path("/home/ada/desk")) for line in shown]


def _plain(line: str, folder: Path) -> str:
    """A line without what differs from run to run: the folder, times, spans, and the blanks between columns."""
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME", line.replace(str(folder), "FOLDER"))
    return re.sub(r" +", " ", re.sub(r"\d+(\.\d+)? (ms|s)\b", "SPAN", line))


@pytest.mark.soak
def test_the_eight_commands_work_in_a_fresh_environment(tmp_path: Path) -> None:
    """The README's lines, as they stand, in a clone of this repository and with a pipx of their own."""
    tools, home = tmp_path / "tools", tmp_path / "home"
    venv.create(tools, with_pip=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TWINRAVEN", "PYTHON"))}
    environment = {
        **kept,
        "HOME": str(home),
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "bin"),
        "PATH": f"{home / 'bin'}{os.pathsep}{tools / 'bin'}{os.pathsep}{kept['PATH']}",
    }
    commands = next(block for block in _blocks() if block[0].startswith("git clone"))
    lines = ["set -e", f"{tools}/bin/pip install -q pipx", *commands]
    script = "\n".join(lines).replace("REPOSITORY", str(ROOT))
    home.mkdir()
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "is in service" in done.stdout
    assert '"result":[{"id":"INV1","total":1200' in done.stdout


def test_the_example_is_what_its_program_makes() -> None:
    """Whoever changes the generator changes the file, too."""
    assert decompress((TRACES / "mytraces.jsonl.gz").read_bytes()) == decompress(log_bytes())


def test_the_readme_names_the_wheel_of_this_version() -> None:
    """The install lines can be pasted: they name the file that `make dist` builds."""
    assert set(re.findall(r"twinraven-([\d.]+)-py3", README)) == {twinraven.__version__}


def test_the_changelog_ends_at_this_version() -> None:
    """The newest version with a date is the one that is built, and it lists each kind of change once."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, text = re.findall(
        r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changes, flags=re.DOTALL | re.MULTILINE
    )[0]
    kinds = re.findall(r"^### (\w+)$", text, flags=re.MULTILINE)
    assert newest == twinraven.__version__
    assert len(kinds) == len(set(kinds))
