"""`make reqs`: which requirements have a passing test and which have none, per system.

Reads what the last `make test` wrote; if the sources have changed since, it runs the marked tests first. With `--json`
stdout carries the JSON alone, so that a program may read it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from tools.requirements import OUTCOMES, ROOT, Outcomes, digest_sources, read_outcomes, read_systems


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make reqs", description="Requirements and their tests.")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--from", dest="file", type=Path, default=OUTCOMES, help="the outcome file of a test run")
    options = parser.parse_args(arguments)
    outcomes = read_outcomes(options.file)
    if outcomes is None or outcomes.sources != digest_sources():
        outcomes = _run_marked_tests(options.file)
    if options.json:
        print(json.dumps(_summary(outcomes)))
    else:
        _print_report(outcomes)
    return 0


def _run_marked_tests(file: Path) -> Outcomes:
    print("reqs: the last test run is older than the sources; running the marked tests", file=sys.stderr)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "req", f"--requirements={file}"]
    subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
    outcomes = read_outcomes(file)
    if outcomes is None:
        raise SystemExit(f"reqs: the test run left no outcomes at {file}")
    return outcomes


def _summary(outcomes: Outcomes) -> dict[str, dict[str, list[str]]]:
    return {
        system.key: {
            "passing": [key for key in system.requirements if outcomes.is_passing(key)],
            "missing": [key for key in system.requirements if not outcomes.is_passing(key)],
        }
        for system in read_systems()
    }


def _print_report(outcomes: Outcomes) -> None:
    summary = _summary(outcomes)
    for system in read_systems():
        passing, missing = summary[system.key]["passing"], summary[system.key]["missing"]
        print(f"{system.key}  {system.name}: {len(passing)} of {len(system.requirements)}")
        for label, keys in (("passing", passing), ("missing", missing)):
            for line in textwrap.wrap(" ".join(keys), 100, break_on_hyphens=False):
                print(f"    {label}  {line}")
        for key in missing:
            for test in outcomes.others.get(key, ()):
                print(f"    {key} did not pass: {test}")


if __name__ == "__main__":
    raise SystemExit(main())
