"""Real servers that are too heavy for the project's own environment, each in one of its own.

`NAME.txt` beside this file names what a server needs, `NAME_server.py` starts it and prints its address when it is
ready; it ends when its standard input does. The environment is made when it is first asked for and kept in `.cache`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".cache" / "servers"
STOP_S = 60


@contextmanager
def server_process(name: str, *arguments: str) -> Generator[str]:
    """The address of a server, for as long as it runs."""
    command = [str(environment(name)), str(HERE / f"{name}_server.py"), *arguments]
    log = CACHE / f"{name}.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = next((line.removeprefix("ready ") for line in process.stdout if line.startswith("ready ")), None)
        if address is None:
            raise RuntimeError(f"the server {name!r} did not start: {log.read_text()[-2000:]}")
        yield address.strip()
    finally:
        process.stdin.close()
        process.wait(timeout=STOP_S)
        process.stdout.close()


def environment(name: str) -> Path:
    """The Python of a server's own environment."""
    wanted = HERE / f"{name}.txt"
    folder = CACHE / name
    python, stamp = folder / "bin" / "python", folder / ".installed"
    if not stamp.exists() or stamp.read_bytes() != wanted.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(wanted)]
        subprocess.run(install, check=True, stdout=sys.stderr)
        stamp.write_bytes(wanted.read_bytes())
    return python
