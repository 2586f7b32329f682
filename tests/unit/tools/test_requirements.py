"""The link between tests and requirements: what counts as passing, and what the report says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import reqs
from tools.requirements import ROOT, Outcomes, digest_sources, known_requirements, read_outcomes, read_systems

_SAMPLE = """
import pytest

@pytest.fixture
def broken():
    raise RuntimeError

@pytest.mark.req("TR-01", "TR-05")
def test_passes(): pass

@pytest.mark.req("TR-01")
@pytest.mark.parametrize("number", [1, 2])
def test_passes_for_each(number): pass

@pytest.mark.req("TR-02")
@pytest.mark.parametrize("number", [1, 2])
def test_fails_once(number): assert number == 1

@pytest.mark.req("TR-03")
def test_is_skipped(): pytest.skip("not here")

@pytest.mark.req("TR-04")
def test_cannot_start(broken): pass

@pytest.mark.req("TR-05")
@pytest.mark.xfail
def test_fails_as_expected(): assert False

def test_proves_nothing(): pass
"""


def run_sample(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a file of its own, with nothing of ours but the plugin in conftest.py."""
    (folder / "test_sample.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    req: id\n    soak: long\n", encoding="utf-8")
    paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    # Other plugins take longer to import than these samples to run.
    environment = {**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ("-p", "tests.conftest", "-p", "tools.forked_tests")
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", *plugins, *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", ["1", "2"], ids=["alone", "forked"])
def test_only_what_passed_everywhere_is_passing(tmp_path: Path, workers: str) -> None:
    """An ID passes if each test that carries it ran and passed, with and without workers."""
    file = tmp_path / "outcomes.json"
    run_sample(tmp_path, _SAMPLE, "--workers", workers, f"--requirements={file}")
    outcomes = read_outcomes(file)
    assert outcomes is not None
    assert [key for key in sorted(known_requirements()) if outcomes.is_passing(key)] == ["TR-01"]
    assert sorted(outcomes.others) == ["TR-02", "TR-03", "TR-04", "TR-05"]
    assert len(outcomes.passed["TR-01"]) == 3


def test_an_unknown_requirement_stops_the_run(tmp_path: Path) -> None:
    """A mistyped ID is found when tests are collected, not when somebody misses it in a report."""
    done = run_sample(tmp_path, 'import pytest\n@pytest.mark.req("TR-99")\ndef test_it(): pass\n')
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "TR-99" in done.stderr


def test_soak_runs_the_long_forms_alone(tmp_path: Path) -> None:
    """`--soak` takes the tests that have a long form; without it, those that have only a long form stay out."""
    source = """
import pytest

@pytest.mark.soak
def test_long(): pass

def test_both(full_scale): print("full" if full_scale else "small")

def test_short(): pass
"""
    short = run_sample(tmp_path, source, "-vv", "-s").stdout
    long = run_sample(tmp_path, source, "-vv", "-s", "--soak").stdout
    assert ("test_long" in short, "small" in short, "test_short" in short) == (False, True, True)
    assert ("test_long" in long, "full" in long, "test_short" in long) == (True, True, False)


def test_the_list_is_complete() -> None:
    """All five systems are listed, numbered without gaps."""
    counts = {"TR": 26, "RG": 16, "AD": 30, "AE": 13, "CH": 26}
    listed = {system.key: list(system.requirements) for system in read_systems()}
    assert listed == {key: [f"{key}-{number:02}" for number in range(1, count + 1)] for key, count in counts.items()}


def test_the_json_report_is_json_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints what is passing, unproven and missing for all five systems."""
    file = tmp_path / "outcomes.json"
    Outcomes(digest_sources(), passed={"TR-02": ["a"], "CH-01": ["b"]}, others={"CH-01": ["c"]}).write(file)
    assert reqs.main(["--json", "--from", str(file), "--mutants", str(tmp_path / "none.json")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["TR", "RG", "AD", "AE", "CH"]
    assert report["TR"]["unproven"] == ["TR-02"]
    assert len(report["TR"]["missing"]) == 25
    assert report["CH"]["passing"] == []


def test_the_printed_report_names_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People see which IDs pass, which are missing, and which tests stand in the way."""
    file = tmp_path / "outcomes.json"
    Outcomes(digest_sources(), passed={"AE-07": ["a"]}, others={"CH-01": ["test_ids"]}).write(file)
    assert reqs.main(["--from", str(file), "--mutants", str(tmp_path / "none.json")]) == 0
    printed = capsys.readouterr().out
    assert "0 of 13" in printed
    assert "unproven  AE-07\n" in printed
    assert "CH-01 did not pass: test_ids" in printed


@pytest.mark.parametrize("text", ["", "{}", "[", '{"sources": "x"}'])
def test_a_damaged_outcome_file_is_no_outcome_file(tmp_path: Path, text: str) -> None:
    """A half-written file leads to a new run, not to a crash."""
    file = tmp_path / "outcomes.json"
    file.write_text(text, encoding="utf-8")
    assert read_outcomes(file) is None
