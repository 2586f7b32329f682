"""Applies mutants to a copy of the project and runs the marked tests there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tools.mutation import KILLED, STALE, SURVIVED, Mutant, StaleMutantError, Verdict
from tools.requirements import ROOT

_COPIED = ("src", "tests", "tools", "docs", "examples", "bench", "pyproject.toml", "README.md", "CHANGELOG.md")
_LEFT_OUT = shutil.ignore_patterns(".peers", "outcomes.json")
_PATIENCE_S = 900


@cache
def marked_files(requirement: str) -> tuple[str, ...]:
    """The files that name an ID: collecting the whole suite would cost more than running them."""
    files = (path for path in (ROOT / "tests").rglob("test_*.py") if f'"{requirement}"' in path.read_text("utf-8"))
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in files))


class Workshop:
    """One copy of the project, byte code included, and one process whose forks run its tests; for one thread."""

    def __init__(self) -> None:
        self._folder = Path(mkdtemp(prefix="mutants-"))
        for part in _COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, self._folder / part, ignore=_LEFT_OUT)
            else:
                shutil.copy2(ROOT / part, self._folder / part)
        self._runner = subprocess.Popen(
            [sys.executable, str(ROOT / "tools" / "mutant_runner.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._sound: set[str] = set()

    def close(self) -> None:
        self._runner.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def judge(self, mutant: Mutant, before: Verdict | None) -> Verdict:
        """Run the marked tests on the mutated copy, first of all the one that killed this mutant last time."""
        try:
            texts = mutant.read(self._folder)
            edited, fingerprint = mutant.apply(texts), mutant.fingerprint(texts)
        except (OSError, StaleMutantError) as error:
            return Verdict(STALE, "", str(error).replace(f"{self._folder}{os.sep}", ""))
        self._write(edited)
        try:
            killer = None
            if before is not None and before.outcome == KILLED and before.test is not None:
                killer = self._first_failure(mutant, [before.test])
            killer = killer or self._first_failure(mutant, marked_files(mutant.requirement))
        except TestsDidNotRunError as error:
            return Verdict(f"the tests did not run: {error}", fingerprint)
        finally:
            self._write(texts)
        if killer is None:
            return Verdict(SURVIVED, fingerprint)
        if killer not in self._sound and self._first_failure(mutant, [killer]) is not None:
            return Verdict(f"{killer} fails without the edit, too", fingerprint)
        self._sound.add(killer)
        return Verdict(KILLED, fingerprint, killer)

    def _write(self, texts: Mapping[Path, str]) -> None:
        """Write modules, and drop their byte code: two edits within a second may have the same length."""
        for path, text in texts.items():
            file = self._folder / path
            file.write_text(text, encoding="utf-8")
            for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
                compiled.unlink()

    def _first_failure(self, mutant: Mutant, tests: Sequence[str]) -> str | None:
        """The first marked test that fails, or never ends; none where all pass."""
        if not tests:
            return None
        options = ["-x", "-q", "--tb=line", "-p", "no:cacheprovider", f"--req={mutant.requirement}"]
        # The runner has imported plugins that pytest would have liked to import itself.
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        log = self._folder / "pytest.log"
        request = {"arguments": [*options, *tests], "folder": str(self._folder), "log": str(log)}
        ended = self._fork({**request, "patience_s": _PATIENCE_S})
        if ended["code"] == 0:
            return None
        if ended["code"] not in (None, 1) or ended["failed"] is None:
            raise TestsDidNotRunError(log.read_text(encoding="utf-8", errors="replace")[-600:])
        return ended["failed"]

    def _fork(self, request: dict[str, object]) -> dict[str, Any]:
        assert self._runner.stdin is not None
        assert self._runner.stdout is not None
        print(json.dumps(request), file=self._runner.stdin, flush=True)
        return json.loads(self._runner.stdout.readline())


class TestsDidNotRunError(Exception):
    """The edit, or the project, cannot even be imported."""
