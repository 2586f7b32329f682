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

from twinraven.registry import SynthesizedTool
from twinraven.registry.exports.python import python_module, python_name

GOLDEN = Path(__file__).with_name("golden")
LEARNED = sorted(path.stem for path in GOLDEN.glob("*.json"))
MOST_LINES_OF_THE_FUNCTION = 35


def exported(name: str) -> tuple[SynthesizedTool, str]:
    definition = SynthesizedTool.from_json(json.loads((GOLDEN / f"{name}.json").read_text()))
    return definition, python_module(definition, writes=lambda _: False)


@pytest.mark.parametrize("name", LEARNED)
def test_a_learned_tool_comes_first_in_its_module(name: str) -> None:
    """What a reader meets first is the function, on one screen, then its definition; the runner stands below."""
    definition, text = exported(name)
    function, *rest = [node for node in ast.parse(text).body if not isinstance(node, (ast.Import, ast.ImportFrom))][4:]
    assert isinstance(function, ast.AsyncFunctionDef)
    assert function.name == python_name(definition)
    assert (function.end_lineno or 0) - function.lineno < MOST_LINES_OF_THE_FUNCTION
    data = rest[0]
    assert isinstance(data, ast.AnnAssign)
    assert data.value is not None
    assert [step["tool_id"] for step in ast.literal_eval(data.value)["steps"]] == [
        step.tool_id for step in definition.steps
    ]


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
