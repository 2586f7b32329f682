"""`make mutants`: breaks the behaviour behind each claimed requirement and expects its marked tests to fail.

Each mutant is applied to a copy of the project in a temporary folder, never to the working tree. Only the tests that
carry its ID run there, quick ones first, until one fails. A kill counts if the same test passes without the edit. What
was seen is kept in `tests/mutants/outcomes.json`, which `make reqs` reads.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tools.mutant_workshop import Workshop, marked_files
from tools.mutation import KILLED, Mutant, Verdict, is_current, read_mutants, read_verdicts, write_verdicts
from tools.requirements import ROOT


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    verdicts = read_verdicts()
    wanted = [one for one in read_mutants() if not options.which or _is_named(one, options.which)]
    if options.changed is not None:
        touched = _changed_packages(options.changed)
        wanted = [one for one in wanted if one.packages & touched]
    if options.open:
        wanted = [one for one in wanted if not _is_settled(one, verdicts.get(one.key))]
    wanted.sort(key=lambda one: _place(one, verdicts.get(one.key)))
    now, later = wanted[: options.at_most], wanted[len(wanted[: options.at_most]) :]
    failures = _run(now, options.workers)
    print(f"mutants: {len(now) - failures} of {len(now)} killed")
    if later:
        print(f"mutants: {len(later)} more concern what changed: make mutants ARGS='--changed {options.changed}'")
    return 1 if failures else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("which", nargs="*", metavar="ID|SYSTEM|PACKAGE", help="TR-09, TR or muninn; all without")
    parser.add_argument("--changed", metavar="BASE", help="only those whose package differs from this revision")
    parser.add_argument("--open", action="store_true", help="only those not yet killed on the code as it is now")
    parser.add_argument("--at-most", type=int, metavar="N", help="run N of them and name the command for the rest")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many run at once (default 2)")
    return parser.parse_args(arguments)


def _is_named(mutant: Mutant, names: Sequence[str]) -> bool:
    return bool({mutant.requirement, mutant.requirement.partition("-")[0], *mutant.packages} & set(names))


def _is_settled(mutant: Mutant, verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.outcome == KILLED and is_current(mutant, verdict)


def _place(mutant: Mutant, verdict: Verdict | None) -> tuple[bool, bool, int, str]:
    """What is settled last; first those whose killer is known, then those with few files of tests."""
    is_known = verdict is not None and verdict.outcome == KILLED
    return _is_settled(mutant, verdict), not is_known, len(marked_files(mutant.requirement)), mutant.requirement


def _changed_packages(base: str) -> set[str]:
    command = ["git", "diff", "--name-only", "--merge-base", base, "--", "src/twinraven"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"mutants: nothing to compare with: {done.stderr.strip()}", file=sys.stderr)
        return set()
    return {Path(line).parts[2].removesuffix(".py") for line in done.stdout.splitlines()}


def _run(mutants: Sequence[Mutant], workers: int) -> int:
    """Judge mutants, print and keep each verdict as it comes; returns how many were not killed."""
    if not mutants:
        return 0
    workshops: SimpleQueue[Workshop] = SimpleQueue()
    made = [Workshop() for _ in range(min(workers, len(mutants)))]
    for workshop in made:
        workshops.put(workshop)

    def judge(mutant: Mutant, before: Verdict | None) -> tuple[Verdict, float]:
        workshop, began = workshops.get(), time.monotonic()
        try:
            return workshop.judge(mutant, before), time.monotonic() - began
        finally:
            workshops.put(workshop)

    verdicts, failures = read_verdicts(), 0
    pool = ThreadPoolExecutor(len(made))
    try:
        judging = {pool.submit(judge, one, verdicts.get(one.key)): one for one in mutants}
        for count, done in enumerate(as_completed(judging), 1):
            mutant, (verdict, seconds) = judging[done], done.result()
            failures += verdict.outcome != KILLED
            _keep(mutant, verdict)
            said = f"[{count}/{len(mutants)}] {seconds:4.0f} s  {verdict.outcome:9} {mutant.key}"
            print(f"{said}{'  ' + verdict.test if verdict.test else ''}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
        for workshop in made:
            workshop.close()
    return failures


def _keep(mutant: Mutant, verdict: Verdict) -> None:
    """Add one verdict to the file as it is now: mutants may be added while others run."""
    write_verdicts({**read_verdicts(), mutant.key: verdict}, [mutant, *read_mutants()])


if __name__ == "__main__":
    raise SystemExit(main())
