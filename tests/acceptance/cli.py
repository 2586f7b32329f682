"""A shell for tests: the installed command, in a folder, with an environment of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests.acceptance import forked_command as forked_command_file
from tests.acceptance.fork_server import ForkServer

COMMAND = Path(sysconfig.get_path("scripts")) / "twinraven"
_START_UP = ("PYTHON", "LC_", "LANG")


@cache
def fork_server() -> ForkServer:
    """The warm process that commands and workers of this test process are forked from."""
    return ForkServer()


def forked_command() -> list[str]:
    """What starts the command as a fork of a warm process, for programs that start it themselves."""
    return [sys.executable, "-I", "-S", str(Path(forked_command_file.__file__)), str(fork_server().address)]


def heed_interrupts() -> None:
    """Tests that run in the background inherit ignored interrupts; the command is started as from a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(slots=True)
class Shell:
    """Runs commands in one folder."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    is_fresh: bool = False
    """Whether each command is the installed script in a new interpreter, rather than a fork of a warm one."""

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TWINRAVEN")}
        return {**inherited, "NO_COLOR": "", "COLUMNS": "", **self.env, **(extra or {})}

    def run(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ended:
        environment = self.environment(env)
        if self.is_fresh or any(name.startswith(_START_UP) for name in {**self.env, **(env or {})}):
            return self._run_fresh(arguments, stdin, environment)
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            code = fork_server().run(arguments, self.folder, environment, (given, out, err))
            out.seek(0)
            err.seek(0)
            return Ended(code, out.read(), err.read().decode())

    def _run_fresh(self, arguments: Sequence[str], stdin: bytes, environment: dict[str, str]) -> Ended:
        done = subprocess.run(
            [str(COMMAND), *arguments],
            cwd=self.folder,
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=600,
            check=False,
            preexec_fn=heed_interrupts,
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    def succeed(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ended:
        """Run a command that must work."""
        ended = self.run(*arguments, stdin=stdin, env=env)
        assert ended.code == 0, ended.err
        return ended

    def json(self, *arguments: str) -> Any:
        return self.succeed(*arguments, "--output", "json").json


def home_in(folder: Path) -> Shell:
    """A shell in a folder that has a home."""
    shell = Shell(folder)
    shell.succeed("init")
    return shell


def calls_file(path: Path, calls: Sequence[Mapping[str, Any]]) -> Path:
    """A file in the `calls` format."""
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))
    return path


def call(session: str, seq: int, tool: str = "get_order", **rest: Any) -> dict[str, Any]:
    """One line of the `calls` format."""
    return {
        "session_id": session,
        "seq": seq,
        "tool": tool,
        "params": {"n": seq},
        "output": {"ok": True},
        "ok": True,
        **rest,
    }
