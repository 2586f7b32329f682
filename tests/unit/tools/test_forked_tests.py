"""Running tests in forked workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tools.forked_tests import FileQueues
from tools.requirements import ROOT

_TESTS = """
import os
import sys

import pytest

MADE = []
MET_AT_IMPORT = sys.stderr


@pytest.fixture(scope="module")
def made():
    MADE.append(os.getpid())
    yield MADE
    with open(os.environ["PUT_AWAY"], "a") as file:
        file.write("x")


@pytest.mark.parametrize("n", range(6))
def test_passes(n, made):
    assert made == [os.getpid()] != [os.getppid()]


def test_fails(capfd):
    print("printed by the one that fails", file=sys.stderr)
    assert capfd.readouterr().err and False, "as it should"


def test_dies(made):
    os._exit(7)


def test_comes_after(made):
    assert MET_AT_IMPORT.fileno() > 2
    assert os.read(0, 1) == b""
"""


def test_every_test_is_run_once_and_told(tmp_path: Path) -> None:
    """Passing, failing and dying ones; what was to follow one that died runs too, and fixtures are put away."""
    (tmp_path / "test_some.py").write_text(_TESTS)
    options = ("-p", "tools.forked_tests", "--workers", "2", "-c", os.devnull, "--rootdir", str(tmp_path))
    scope = ("-o", "asyncio_default_fixture_loop_scope=function")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, *scope, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PUT_AWAY": str(tmp_path / "put_away")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "2 failed, 7 passed" in done.stdout, done.stdout + done.stderr
    assert "AssertionError: as it should" in done.stdout
    assert "the process that ran this test ended with 7" in done.stdout
    assert done.returncode == 1
    assert (tmp_path / "put_away").read_text() in {"x", "xx"}


@given(st.lists(st.integers(0, 4)), st.lists(st.integers(0, 3), min_size=1))
def test_each_test_is_handed_out_once(groups: list[int], workers: list[int]) -> None:
    """Whoever asks, and how often; a file's tests go to its worker in their order."""
    queues = FileQueues(groups)
    taken = [queues.take(worker) for worker in workers * (len(groups) + 1)]
    assert sorted(test for test in taken if test is not None) == list(range(len(groups)))
    alone = FileQueues(groups)
    assert [alone.take(0) for _ in groups] == sorted(range(len(groups)), key=lambda test: groups.index(groups[test]))
