"""`make reqs`: which requirements are proven, only claimed or missing, per system.

Proven is an ID whose tests pass and fail once its behaviour is broken: `make mutants` keeps what it saw as data. An ID
with passing tests and no killed mutant, or with one that survived, is claimed and counts as unproven.

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

from tools.mutation import KILLED, VERDICTS, is_current, proven_requirements, read_mutants, read_verdicts
from tools.requirements import OUTCOMES, ROOT, Outcomes, digest_sources, read_outcomes, read_systems


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make reqs", description="Requirements and their tests.")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--from", dest="file", type=Path, default=OUTCOMES, help="the outcome file of a test run")
    parser.add_argument("--mutants", type=Path, default=VERDICTS, help="what the last `make mutants` saw")
    options = parser.parse_args(arguments)
    outcomes = read_outcomes(options.file)
    if outcomes is None or outcomes.sources != digest_sources():
        outcomes = _run_marked_tests(options.file)
    if options.json:
        print(json.dumps(_summary(outcomes, options.mutants)))
    else:
        _print_report(outcomes, options.mutants)
    return 0


def _run_marked_tests(file: Path) -> Outcomes:
    print("reqs: the last test run is older than the sources; running the marked tests", file=sys.stderr)
    subprocess.run(run_command(file), cwd=ROOT, stdout=sys.stderr, check=False)
    outcomes = read_outcomes(file)
    if outcomes is None:
        raise SystemExit(f"reqs: the test run left no outcomes at {file}")
    return outcomes


def run_command(file: Path) -> list[str]:
    """The command that runs the marked tests and writes their outcomes."""
    forked = ["-p", "tools.forked_tests", "--workers", "2"]
    return [sys.executable, "-m", "pytest", "-q", *forked, "-m", "req", f"--requirements={file}"]


def _summary(outcomes: Outcomes, mutants: Path) -> dict[str, dict[str, list[str]]]:
    proven = proven_requirements(read_mutants(), read_verdicts(mutants))
    summary: dict[str, dict[str, list[str]]] = {}
    for system in read_systems():
        passing = [key for key in system.requirements if outcomes.is_passing(key)]
        summary[system.key] = {
            "passing": [key for key in passing if key in proven],
            "unproven": [key for key in passing if key not in proven],
            "missing": [key for key in system.requirements if key not in passing],
        }
    return summary


def _print_report(outcomes: Outcomes, mutants: Path) -> None:
    summary = _summary(outcomes, mutants)
    for system in read_systems():
        passing, missing = summary[system.key]["passing"], summary[system.key]["missing"]
        unproven = summary[system.key]["unproven"]
        print(f"{system.key}  {system.name}: {len(passing)} of {len(system.requirements)}")
        for label, keys in (("passing", passing), ("unproven", unproven), ("missing", missing)):
            for line in textwrap.wrap(" ".join(keys), 100, break_on_hyphens=False):
                print(f"    {label}  {line}")
        for key in missing:
            for test in outcomes.others.get(key, ()):
                print(f"    {key} did not pass: {test}")
    verdicts = read_verdicts(mutants)
    killed = [one for one in read_mutants() if one.key in verdicts and verdicts[one.key].outcome == KILLED]
    if old := sum(not is_current(one, verdicts[one.key]) for one in killed):
        print(f"{old} killed {'mutant is' if old == 1 else 'mutants are'} older than its code: make mutants")


if __name__ == "__main__":
    raise SystemExit(main())
