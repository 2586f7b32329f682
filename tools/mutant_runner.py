"""Runs pytest in forks of one process that has imported what no mutant changes.

Most of what a run of a few tests costs is importing pytest, its plugins and libraries. A fork has them already, and
imports the project itself from the copy that it is told of. This file is started as a script, so that neither `tools`
nor `tests` of the working tree is among its modules.

It reads one JSON object per line (`folder`, `arguments`, `log`, `patience_s`) and answers with one: `code`, the exit
code of pytest or null where the run took longer than it may, and `failed`, the first test that failed or did not end.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

_LIBRARIES = ("blockbuster", "httpx2", "jinja2", "mcp", "numpy", "orjson", "psycopg", "uvicorn", "xxhash")
_GRACE_S = 20


def main() -> None:
    del sys.path[0]
    import pytest

    for plugin in entry_points(group="pytest11"):
        if plugin.name != "langsmith_plugin":  # as in pyproject.toml
            plugin.load()
    for library in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(library)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
            os._exit(int(pytest.main(request["arguments"], [_Notes(request["folder"])])))
        code = _wait(child, request["patience_s"])
        print(json.dumps({"code": code, "failed": _Notes(request["folder"]).read()}), flush=True)


class _Notes:
    """A plugin that notes which test runs; `-x` ends the run with the one that failed."""

    def __init__(self, folder: str) -> None:
        self._file = Path(folder, "last_test")
        self._has_failed = False

    def read(self) -> str | None:
        text = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        self._file.unlink(missing_ok=True)
        return text or None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if not self._has_failed:
            self._file.write_text(nodeid, encoding="utf-8")

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._has_failed = self._has_failed or report.failed


def _become(request: Mapping[str, Any]) -> None:
    """Make this fork a process of its own that finds the project in its folder first."""
    os.setsid()
    folder = request["folder"]
    os.chdir(folder)
    with Path(request["log"]).open("wb") as log, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.path[:0] = [f"{folder}/src", folder]
    os.environ["PYTHONPATH"] = f"{folder}/src{os.pathsep}{folder}"
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait(child: int, patience_s: float) -> int | None:
    """Wait for a fork; a late one is interrupted, then ended with all that it started."""
    watched = os.pidfd_open(child)
    in_time = bool(select.select([watched], [], [], patience_s)[0])
    if not in_time:
        os.kill(child, signal.SIGINT)
        select.select([watched], [], [], _GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.close(watched)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if in_time else None


if __name__ == "__main__":
    main()
