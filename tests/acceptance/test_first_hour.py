"""The README's way from a clone to a learned tool in service, on the traces that the examples bring along."""

from __future__ import annotations

import re
import shlex
import shutil
from gzip import decompress
from pathlib import Path

import twinraven
from examples.traces.generate import log_bytes
from tests.acceptance.cli import Shell
from tools.requirements import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TRACES = ROOT / "examples" / "traces"


def _blocks() -> list[list[str]]:
    return [block.splitlines() for block in re.findall(r"^```\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)]


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
    assert "is in service" in said[-2]
    assert '"result":[{"id":"INV1","total":1200,"lines":[]},{"id":"INV2","total":80,"lines":[]}]' in said[-1]


def test_the_readme_prints_what_a_backtest_of_the_example_says(tmp_path: Path) -> None:
    """The figures of the README are those that a reader gets."""
    shown = next(block for block in _blocks() if block[0].startswith("$ twinraven backtest"))
    said = _project(tmp_path).succeed(*shlex.split(shown[0])[2:]).text.splitlines()
    assert said == shown[1:]


def test_the_example_is_what_its_program_makes() -> None:
    """Whoever changes the generator changes the file, too."""
    assert decompress((TRACES / "mytraces.jsonl.gz").read_bytes()) == decompress(log_bytes())


def test_the_readme_names_the_wheel_of_this_version() -> None:
    """The install lines can be pasted: they name the file that `make dist` builds."""
    assert set(re.findall(r"twinraven-([\d.]+)-py3", README)) == {twinraven.__version__}
