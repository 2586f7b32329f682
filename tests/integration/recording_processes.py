"""Processes that record and then meet with something: an exit, a fork, a disk without room, a file they may not write.

    python -m tests.integration.recording_processes NAME URL

Each prints what the test needs to know, one fact a line.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pwd
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from twinraven.foundation.errors import StorageError, TwinRavenError
from twinraven.muninn import Collector, Receipt, SqlEventStore
from twinraven.storage import open_database

ROOT = Path(__file__).resolve().parent.parent.parent
CHILDREN = 4
PER_CHILD = 10


def run_process(
    name: str, url: str, *, prefix: tuple[str, ...] = (), small_disk: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The process, when it has ended."""
    command = [*prefix, sys.executable, "-m", "tests.integration.recording_processes", name, url]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    if small_disk is not None:
        environment["SMALL_DISK"] = str(small_disk)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


def say(fact: object) -> None:
    sys.stdout.write(f"{fact}\n")


def collector_on(url: str) -> Collector:
    return Collector(open_database(url))


def record(collector: Collector, number: int, *, session: str = "s", size: int = 1) -> Receipt:
    return collector.observe(session).record("f", {"n": number}, output={"n": number, "text": f"{number:08d}" * size})


def exit_at_once(url: str) -> None:
    """Record without waiting and fall off the end."""
    collector = collector_on(url)
    for number in range(200):
        record(collector, number)


def exit_by_error(url: str) -> None:
    """Record without waiting, from a loop, and raise."""

    async def main() -> None:
        collector = collector_on(url)
        for number in range(200):
            record(collector, number)
        raise SystemExit(3)

    asyncio.run(main())


def exit_with_thread(url: str) -> None:
    """Leave a thread behind that goes on recording after the main thread has ended."""
    collector = collector_on(url)

    def work() -> None:
        for number in range(200):
            record(collector, number)
            threading.Event().wait(0.0005)

    threading.Thread(target=work).start()


def _work_of_child(collector: Collector | None, url: str, number: int) -> None:
    collector = collector or collector_on(url)
    for step in range(PER_CHILD):
        record(collector, number * 1000 + step)


def exit_children(url: str) -> None:
    """Record without waiting in children of `multiprocessing`, which skip the usual end of a process."""
    collector = collector_on(url)
    record(collector, 0).result()
    forked, spawned = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
    children = [
        forked.Process(target=_work_of_child, args=(collector, url, 1)),
        forked.Process(target=_work_of_child, args=(collector, url, 2)),
        spawned.Process(target=_work_of_child, args=(None, url, 3)),
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    say([child.exitcode for child in children])


def fork_in_the_middle(url: str) -> None:
    """Fork while a thread records; parent and children go on with the same collector."""
    collector = collector_on(url)
    done = threading.Event()
    recorded: list[Receipt] = []

    def keep_recording() -> None:
        number = 0
        while not done.is_set():
            recorded.append(record(collector, number))
            number += 1
            threading.Event().wait(0.0005)

    thread = threading.Thread(target=keep_recording)
    thread.start()
    codes = [_fork(collector, recorded, number) for number in range(1, CHILDREN + 1)]
    done.set()
    thread.join()
    for receipt in recorded:
        receipt.result()
    say(len(recorded))
    say(codes)


def _fork(collector: Collector, recorded: list[Receipt], number: int) -> int:
    threading.Event().wait(0.02)
    queued = record(collector, 500_000 + number, session="parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for step in range(PER_CHILD):
                record(collector, number * 1_000_000 + step).result(timeout=20)
            code = _outcome_of(queued)
        finally:
            os._exit(code)
    queued.result()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _outcome_of(queued: Receipt) -> int:
    """In a child: an event of the parent's is either known to be stored or known to be the parent's, at once."""
    try:
        queued.result(timeout=5)
    except StorageError as error:
        return 0 if "parent" in error.message else 2
    return 0


def run_out_of_room(url: str) -> None:
    """Record until there is no room, say how far it went, make room, and go on."""
    database = open_database(url)
    database.migrate()
    collector = Collector(database)
    acknowledged: list[int] = []
    with _little_room():
        say(_record_until_error(collector, acknowledged))
    record(collector, 1_000_000).result()
    say(acknowledged)
    collector.close()
    session = asyncio.run(SqlEventStore(database).session("default", "s"))
    say([event.input_params["n"] for event in session.events])


@contextmanager
def _little_room() -> Generator[None]:
    """A small disk with something on it that can go, or a limit on the size of files."""
    if "SMALL_DISK" in os.environ:
        ballast = Path(os.environ["SMALL_DISK"]) / "ballast"
        ballast.write_bytes(b"x" * 400_000)
        yield
        ballast.unlink()
    else:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _record_until_error(collector: Collector, acknowledged: list[int]) -> str:
    for number in range(2_000):
        try:
            record(collector, number, size=500).result()
        except TwinRavenError as error:
            return f"{error.code} {error.message}"
        acknowledged.append(number)
    return "no error"


def be_locked_out(url: str) -> None:
    """Record, lose the right to write, say what that looks like, regain it, and record again."""
    path = Path(url.removeprefix("sqlite:///"))
    first = collector_on(url)
    record(first, 0).result()
    first.close()
    _protect(path, writable=False)
    collector = collector_on(url)
    try:
        record(collector, 1).result()
        say("no error")
    except TwinRavenError as error:
        say(f"{error.code} {error.message}")
    _protect(path, writable=True)
    record(collector, 2).result()
    collector.close()


def _protect(path: Path, *, writable: bool) -> None:
    """Root may write whatever the mode says, so where we are root we become somebody else for a while."""
    if writable and os.getuid() == 0:
        os.seteuid(0)
    path.chmod(0o644 if writable else 0o444)
    path.parent.chmod(0o755 if writable else 0o555)
    if not writable and os.getuid() == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)


PROCESSES: dict[str, Callable[[str], None]] = {
    work.__name__: work
    for work in (
        exit_at_once,
        exit_by_error,
        exit_with_thread,
        exit_children,
        fork_in_the_middle,
        run_out_of_room,
        be_locked_out,
    )
}


if __name__ == "__main__":
    PROCESSES[sys.argv[1]](sys.argv[2])
