"""What Huginn learns from the demo's record, as code: pinned to the letter, short, and without a run-time of its own.

The definitions in `golden` were learned from a demo run. To renew a text, export its definition again and read what
changed: it is what people will see.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from twinraven.flow import SynthesizedTool
from twinraven.registry.exports.python import python_module, python_name

GOLDEN = Path(__file__).with_name("golden")
LEARNED = sorted(path.stem for path in GOLDEN.glob("*.json"))
MOST_LINES = 125
MOST_LINES_OF_THE_FUNCTION = 35


def exported(name: str) -> tuple[SynthesizedTool, str]:
    definition = SynthesizedTool.from_json(json.loads((GOLDEN / f"{name}.json").read_text()))
    return definition, python_module(definition, writes=lambda _: False)


@pytest.mark.parametrize("name", LEARNED)
def test_a_learned_tool_reads_as_it_did(name: str) -> None:
    """A chain, a map, a batch and a batch with retries come out as they were last read by a person."""
    assert exported(name)[1] == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", LEARNED)
def test_a_learned_tool_is_short(name: str) -> None:
    """The whole module fits on two pages, the function on a screen, and nothing in it interprets steps."""
    definition, text = exported(name)
    tree = ast.parse(text)
    assert not {node.name for node in tree.body if isinstance(node, ast.ClassDef)} & {"Run", "Step"}
    assert len(text.splitlines()) <= MOST_LINES
    function = next(node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    assert function.name == python_name(definition)
    assert (function.end_lineno or 0) - function.lineno < MOST_LINES_OF_THE_FUNCTION


def test_a_formatter_and_a_linter_have_nothing_to_say(tmp_path: Path) -> None:
    """Learned tools come out as a formatter would leave them."""
    for name in LEARNED:
        (tmp_path / f"{name}.py").write_text(exported(name)[1])
    for command in (["format", "--check"], ["check", "--select", "E,F,I,W,B,UP"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length=120", "--target-version=py311"]
        done = subprocess.run([*ruff, str(tmp_path)], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode()


def test_the_four_shapes_are_there() -> None:
    """Nobody loses a shape by removing its file."""
    assert len(LEARNED) >= 4
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {*LEARNED}
