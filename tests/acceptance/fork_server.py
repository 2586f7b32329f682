"""Runs `twinraven` commands for tests in forks of one process that has imported it already.

Most of what a short command costs is starting Python, importing, and taking it all down again. A fork has paid for the
first two and skips the last, and is still a process of its own: own exit code, signals and files; its threads are
joined and its exit handlers run. What start-up itself does is tested with the installed command
(`test_cli_startup.py`), and so is everything that depends on how Python starts (locale, `PYTHON…` variables).

`ForkServer` is the client's side; `python fork_server.py FD LISTENER` is the server, which speaks on the socket it
inherits: one datagram for a command with its three files, answered by one with `{"id": …, "code": …}` at its end.
It speaks the same on connections to LISTENER, where `forked_command.py` asks for commands that another program starts;
a command ends with whoever asked for it.
A command whose first argument is `script:PATH` is that Python file instead, and `module:NAME` a module of its folder.
One that `waits` begins when it has read a byte from its input, so that a tracer can be attached first.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any

import twinraven.cli

_MOST = 1 << 20
_WARM = (
    "cli", "api", "app", "audit", "calls", "catalog", "connectors", "console", "conversations", "effects", "engine",
    "flow", "gateway", "governance", "huginn", "inbox", "knowledge", "ledger", "metrics", "models", "muninn", "plans",
    "processes", "registry", "serving", "storage", "tenancy", "tracing", "vault",
)  # fmt: skip


class ForkServer:
    """Gives commands to the server process, from any thread."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TWINRAVEN")}
        self.address = Path(mkdtemp(prefix="twinraven-forks-")) / "socket"
        atexit.register(shutil.rmtree, self.address.parent, ignore_errors=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.address))
        listener.listen(128)
        with theirs, listener:
            inherited = [theirs.fileno(), listener.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, __file__, *map(str, inherited)], pass_fds=inherited, env=environment
            )
        self._socket = ours
        self._sending = threading.Lock()
        self._codes: dict[int, int] = {}
        self._ended = threading.Condition()
        self._last = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], files: Sequence[IO[bytes]]) -> int:
        """Run a command on stdin, stdout and stderr; returns its exit code, or minus the signal that ended it."""
        with self._sending:
            self._last += 1
            mine = self._last
            message = {"id": mine, "arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
            socket.send_fds(self._socket, [json.dumps(message).encode()], [file.fileno() for file in files])
        with self._ended:
            if not self._ended.wait_for(lambda: mine in self._codes or self._process.poll() is not None, timeout=600):
                raise subprocess.TimeoutExpired(["twinraven", *arguments], 120)
            return self._codes.pop(mine)

    def _listen(self) -> None:
        while answer := self._socket.recv(_MOST):
            ended = json.loads(answer)
            with self._ended:
                self._codes[ended["id"]] = ended["code"]
                self._ended.notify_all()


def serve(channel: socket.socket, listener: socket.socket) -> dict[str, Any]:
    """Fork for each request; returns only in a fork, with what it is to do."""
    running: dict[int, tuple[socket.socket, int, int]] = {}
    asking = {channel.fileno(): channel}
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(listener, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                connection, _ = listener.accept()
                asking[connection.fileno()] = connection
                poll.register(connection, select.POLLIN)
                continue
            if descriptor in running:
                poll.unregister(descriptor)
                asker, number, pid = running.pop(descriptor)
                os.close(descriptor)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                _tell(asker, {"id": number, "code": code})
                continue
            asker = asking[descriptor]
            text, files = _receive(asker)
            if not text:
                _kill([pid for other, _, pid in running.values() if asker in (other, channel)])
                if asker is channel:
                    os._exit(0)
                poll.unregister(asker)
                del asking[descriptor]
                asker.close()
                continue
            request = json.loads(text)
            pid = os.fork()
            if pid == 0:
                for each in (listener, *asking.values()):
                    each.close()
                return {**request, "files": files}
            watched = os.pidfd_open(pid)
            running[watched] = (asker, request["id"], pid)
            poll.register(watched, select.POLLIN)
            for file in files:
                os.close(file)
            if asker is not channel and not _tell(asker, {"pid": pid}):
                _kill([pid])


def _kill(commands: Sequence[int]) -> None:
    """Kill the commands of whoever has gone: who was killed could not pass it on, and stood in their place."""
    for pid in commands:
        os.kill(pid, signal.SIGKILL)


def _receive(asker: socket.socket) -> tuple[bytes, list[int]]:
    """A request and its files; nothing from whoever has gone, or was killed."""
    with suppress(ConnectionError):
        text, files, _, _ = socket.recv_fds(asker, _MOST, 3)
        return text, files
    return b"", []


def _tell(asker: socket.socket, answer: Mapping[str, int]) -> bool:
    """Answer, and say whether anybody is left to hear it."""
    with suppress(OSError):
        asker.send(json.dumps(answer).encode())
        return True
    return False


def become(request: Mapping[str, Any]) -> None:
    """Make this fork look like a command that was just started."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for place, descriptor in enumerate(request["files"]):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(place, mode, encoding="utf-8", errors=errors, closefd=False)
        for place, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
    )
    sys.argv = [str(Path(sysconfig.get_path("scripts")) / "twinraven"), *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request.get("waits"):
        os.read(0, 1)


def main() -> None:
    del sys.path[0]
    for package in _WARM:
        for module in pkgutil.walk_packages([f"{twinraven.__path__[0]}/{package}"], f"twinraven.{package}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    channel, listener = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    become(serve(channel, listener))
    code = _run()
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does at its end
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run() -> int:
    kind, _, path = sys.argv[1].partition(":") if len(sys.argv) > 1 else ("", "", "")
    if kind not in ("script", "module"):
        return twinraven.cli.main()
    sys.argv = [path, *sys.argv[2:]]
    if kind == "script":
        runpy.run_path(path, run_name="__main__")
    else:
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - where Python puts the folder for -m
        runpy.run_module(path, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    main()
