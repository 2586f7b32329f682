"""The process that policy checks run in answers each question with one line, whatever the functions do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson

FUNCTIONS = """
def passes(subject):
    print("noise")
    return subject["n"] == 1

def raises(subject):
    raise SystemExit("gone")

def answers_no_json(subject):
    return {1, 2}
"""


def test_every_question_gets_one_line(tmp_path: Path) -> None:
    """What is printed is no answer; what raises, is not there or answers no JSON is an error that names the check."""
    (tmp_path / "own_checks.py").write_text(FUNCTIONS)
    (tmp_path / "broken_checks.py").write_text("import nothing_of_this_name")
    names = ["own_checks:passes", "own_checks:raises", "own_checks:answers_no_json", "broken_checks:any"]
    asked = b"".join(orjson.dumps({"function": name}) + b'\n{"n": 1}\n' for name in names)
    done = subprocess.run(
        [sys.executable, "-m", "twinraven.governance.work.check_child", *names],
        input=asked,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        capture_output=True,
        timeout=120,
        check=True,
    )
    first, *lines = done.stdout.splitlines()
    said = [orjson.loads(line) for line in lines]
    assert (first, said[0], b"noise" in done.stderr) == (b"", {"answer": True}, True)
    for name, word, each in zip(names[1:], ("SystemExit", "TypeError", "ModuleNotFoundError"), said[1:], strict=True):
        assert each["error"].startswith(f"{name} raised {word}")
