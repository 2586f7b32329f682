"""`make mutants`: breaks the behaviour behind each claimed requirement and expects its marked tests to fail.

Each mutant is applied to a copy of the project in a temporary folder, never to the working tree. Only the tests that
carry its ID run there. A kill counts if the same test passes without the edit. What was seen is kept in
`tests/mutants/outcomes.json`, which `make reqs` reads.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.mutation import (
    KILLED,
    STALE,
    SURVIVED,
    Mutant,
    StaleMutantError,
    Verdict,
    is_current,
    read_mutants,
    read_verdicts,
    write_verdicts,
)
from tools.requirements import ROOT

_COPIED = ("src", "tests", "tools", "docs", "examples", "bench", "pyproject.toml", "README.md", "CHANGELOG.md")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".peers", "outcomes.json")
_KINDS = ("unit", "contract", "acceptance", "integration")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?: - .*)?$", re.MULTILINE)
_PATIENCE_S = 900


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("which", nargs="*", metavar="ID|PACKAGE", help="requirement IDs or packages; all without")
    parser.add_argument("--changed", metavar="BASE", help="only those whose package differs from this revision")
    parser.add_argument("--open", action="store_true", help="only those not yet killed on the code as it is now")
    parser.add_argument("--at-most", type=int, metavar="N", help="run N of them and name the command for the rest")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many run at once (default 2)")
    options = parser.parse_args(arguments)
    every, verdicts = read_mutants(), read_verdicts()
    wanted = [one for one in every if not options.which or {one.requirement, one.package} & set(options.which)]
    if options.changed is not None:
        touched = _changed_packages(options.changed)
        wanted = [one for one in wanted if one.package in touched]
    wanted.sort(key=lambda one: _is_settled(one, verdicts.get(one.key)))
    if options.open:
        wanted = [one for one in wanted if not _is_settled(one, verdicts.get(one.key))]
    now, later = wanted[: options.at_most], wanted[len(wanted[: options.at_most]) :]
    failures = 0
    with ThreadPoolExecutor(options.workers) as pool:
        judging = {pool.submit(_judge, one, verdicts.get(one.key)): one for one in now}
        for done in as_completed(judging):
            mutant, verdict = judging[done], done.result()
            failures += verdict.outcome != KILLED
            print(f"{verdict.outcome:9} {mutant.key}{'  ' + verdict.test if verdict.test else ''}", flush=True)
            verdicts[mutant.key] = verdict
            write_verdicts(verdicts, every)
    print(f"mutants: {len(now) - failures} of {len(now)} killed")
    if later:
        print(f"mutants: {len(later)} more concern what changed: make mutants ARGS='--changed {options.changed}'")
    return 1 if failures else 0


def _is_settled(mutant: Mutant, verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.outcome == KILLED and is_current(mutant, verdict)


def _changed_packages(base: str) -> set[str]:
    command = ["git", "diff", "--name-only", "--merge-base", base, "--", "src/twinraven"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"mutants: nothing to compare with: {done.stderr.strip()}", file=sys.stderr)
        return set()
    return {Path(line).parts[2].removesuffix(".py") for line in done.stdout.splitlines()}


def _judge(mutant: Mutant, before: Verdict | None) -> Verdict:
    """Run the marked tests on the mutated copy, first of all the one that killed this mutant last time."""
    try:
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        edited, fingerprint = mutant.edit(text), mutant.fingerprint(text)
    except (OSError, StaleMutantError) as error:
        return Verdict(STALE, "", str(error))
    with _copy_of_project() as folder:
        (folder / mutant.path).write_text(edited, encoding="utf-8")
        killer = None
        if before is not None and before.outcome == KILLED and before.test is not None:
            killer = _first_failure(folder, mutant, [before.test])
        killer = killer or _first_failure(folder, mutant, _marked_files(mutant.requirement))
        if killer is None:
            return Verdict(SURVIVED, fingerprint)
        (folder / mutant.path).write_text(text, encoding="utf-8")
        if (also := _first_failure(folder, mutant, [killer])) is not None:
            return Verdict(f"{also} fails without the edit, too", fingerprint)
    return Verdict(KILLED, fingerprint, killer)


@contextmanager
def _copy_of_project() -> Generator[Path]:
    with TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for part in _COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=_LEFT_OUT)
            else:
                shutil.copy(ROOT / part, folder / part)
        yield folder


def _marked_files(requirement: str) -> list[str]:
    """The files that name an ID, quick kinds first: collecting the whole suite would cost more than running it."""
    files = (path for path in (ROOT / "tests").rglob("test_*.py") if f'"{requirement}"' in path.read_text("utf-8"))
    names = [path.relative_to(ROOT).as_posix() for path in files]
    return sorted(names, key=lambda name: (_KINDS.index(kind) if (kind := name.split("/")[1]) in _KINDS else 9, name))


def _first_failure(folder: Path, mutant: Mutant, tests: Sequence[str]) -> str | None:
    """The first marked test that fails in a copy of the project; none where all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, f"--req={mutant.requirement}", *tests],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return None
    failed = _FAILED.search(done.stdout)
    if done.returncode != 1 or failed is None:
        raise SystemExit(f"mutants: {mutant.key}: the tests did not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[1]


if __name__ == "__main__":
    raise SystemExit(main())
