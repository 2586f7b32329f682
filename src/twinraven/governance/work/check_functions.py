"""Calls policy checks that are Python functions, in a process of their own that is ended when it takes too long.

A function gets what `Subject.as_json` gives and answers True, None (pass), False, a text (why it fails), or
`{"result": "pass" | "fail" | "warning", "details": …, "then": "reject" | "escalate"}`. What raises, answers anything
else or does not answer in time denies: nobody is approved by a check that is broken. A loop in this process could not
be ended; in another one it can. The time for an answer begins when the process has started and imported the functions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Timer
from typing import Any, Final, NamedTuple, cast

import orjson

from twinraven.governance.model import CheckResult

_CHILD: Final = "twinraven.governance.work.check_child"
_LONGEST_DETAILS: Final = 2_000
_LONGEST_START_S: Final = 60.0
"""How long the process may take to start and to import the functions."""


class FunctionVerdict(NamedTuple):
    """The verdict of a check function on a result."""

    result: CheckResult
    details: str
    then: str


class CheckFunctions:
    """The functions that the settings name, as `module:function`, and the process they run in."""

    def __init__(self, names: Sequence[str], *, timeout_s: float) -> None:
        self.names = tuple(names)
        self._timeout_s = timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._busy = Lock()

    def ask(self, name: str, subject: bytes) -> FunctionVerdict:
        """Call one function; blocks until it has answered or was ended."""
        with self._busy:
            child = self._running()
            with _ended_after(child, self._timeout_s):
                answer = _exchange(child, orjson.dumps({"function": name}) + b"\n" + subject + b"\n")
            if answer is None:
                self._end()
                return denied(f"the check did not answer within {self._timeout_s:g} s, or ended its process")
        return read_answer(answer)

    def close(self) -> None:
        """End the process."""
        with self._busy:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", _CHILD, *self.names],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
            )
            assert self._child.stdout is not None
            with _ended_after(self._child, _LONGEST_START_S):
                self._child.stdout.readline()
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            with suppress(BrokenPipeError), child:  # what it did not read is still to be written when pipes are closed
                child.kill()


@contextmanager
def _ended_after(child: subprocess.Popen[bytes], seconds: float) -> Generator[None]:
    """End a process that takes longer than this for what it is asked in the block."""
    ender = Timer(seconds, child.kill)
    ender.start()
    try:
        yield
    finally:
        ender.cancel()


def _exchange(child: subprocess.Popen[bytes], asked: bytes) -> bytes | None:
    """Ask the child; None where it is gone."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(asked)
        child.stdin.flush()
    except OSError:
        return None
    line = child.stdout.readline()
    return line if line.endswith(b"\n") else None


def denied(details: str) -> FunctionVerdict:
    """Build the verdict of a broken check: the result is not at fault, so a person looks at it."""
    return FunctionVerdict("fail", details[:_LONGEST_DETAILS], "escalate")


def read_answer(line: bytes) -> FunctionVerdict:
    """Read a function's answer; anything that is none denies."""
    try:
        said: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        return denied("the check wrote something else than its answer")
    if not isinstance(said, dict) or "error" in said:
        told = cast("dict[str, Any]", said).get("error") if isinstance(said, dict) else "no answer"
        return denied(str(told))
    value: Any = cast("dict[str, Any]", said).get("answer")
    if value is None or value is True:
        return FunctionVerdict("pass", "", "reject")
    if value is False or isinstance(value, str):
        return FunctionVerdict("fail", (value or "")[:_LONGEST_DETAILS], "reject")
    if isinstance(value, dict):
        stated = cast("dict[str, Any]", value)
        result, then = stated.get("result"), stated.get("then", "reject")
        if result in ("pass", "fail", "warning") and then in ("reject", "escalate"):
            return FunctionVerdict(result, str(stated.get("details") or "")[:_LONGEST_DETAILS], str(then))
    return denied("the check answered something else than pass, fail or warning")
