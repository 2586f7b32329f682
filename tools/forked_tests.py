"""Runs tests in forked workers: collects once, forks, and hands out one test at a time (`--workers N`).

Collecting imports the project, all tests and every library they use. Workers that are interpreters of their own pay for
that each; forks share it. A worker stays with its file, so that fixtures of a module are made once, and one that has no
file left helps with the fullest. A worker that dies fails the test it ran, and another one takes its place.

Loaded as a plugin: `pytest -p tools.forked_tests --workers 4`. Needs fork and pidfd, so Linux; elsewhere, and without
the option, tests run in one process.
"""

from __future__ import annotations

import atexit
import gc
import os
import random
import signal
import warnings
from collections import deque
from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

import pytest

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_End: TypeAlias = "Connection[Any, Any]"
"""One end of the pipe between a worker and the process that counts."""
_inherited: list[object] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("twinraven")
    group.addoption("--workers", type=int, default=1, metavar="N", help="run tests in N forks of this process")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    count = min(cast("int", config.getoption("--workers")), len(session.items))
    if count < 2 or config.option.collectonly or session.testsfailed or not hasattr(os, "pidfd_open"):
        return None
    _Pool(session).run(count)
    return True


class FileQueues:
    """The tests that are left, by the file they stand in."""

    def __init__(self, groups: Iterable[Hashable]) -> None:
        """`groups` has what each test stands in, in the order of the tests."""
        by_group: dict[Hashable, deque[int]] = {}
        for index, group in enumerate(groups):
            by_group.setdefault(group, deque()).append(index)
        self._unowned = deque(by_group.values())
        self._owned: dict[int, deque[int]] = {}

    def take(self, worker: int) -> int | None:
        """The next test for a worker; None where no test is left."""
        own = self._owned.get(worker)
        if not own:
            own = self._owned[worker] = self._unowned.popleft() if self._unowned else self._half_of_fullest()
        return own.popleft() if own else None

    def give_back(self, tests: Iterable[int]) -> None:
        """Take tests back that a worker was given and did not run."""
        if returned := deque(tests):
            self._unowned.append(returned)

    def clear(self) -> None:
        self._unowned.clear()
        self._owned.clear()

    def _half_of_fullest(self) -> deque[int]:
        fullest = max(self._owned.values(), key=len, default=deque[int]())
        taken = [fullest.pop() for _ in range((len(fullest) + 1) // 2)]
        return deque(reversed(taken))


@dataclass(eq=False)
class _Worker:
    """A fork, and the tests it has: the first one runs, the second tells it which fixtures to keep."""

    pid: int
    process: int
    pipe: _End
    tests: deque[int] = field(default_factory=deque[int])
    is_told: bool = False
    """Whether it knows that nothing more comes."""


class _Pool:
    """Forks workers, gives them tests and takes their reports."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._queues = FileQueues(_group(item) for item in session.items)
        self._workers: list[_Worker] = []

    def run(self, count: int) -> None:
        gc.collect()
        gc.freeze()
        try:
            for _ in range(count):
                self._start()
            while self._workers:
                self._listen()
        finally:
            for worker in self._workers:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGINT)
            for worker in list(self._workers):
                os.waitpid(worker.pid, 0)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)

    def _start(self) -> None:
        ours, theirs = cast("tuple[_End, _End]", Pipe())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # libraries have threads that no test needs
            pid = os.fork()
        if pid == 0:
            for pipe in (ours, *(worker.pipe for worker in self._workers)):
                pipe.close()
            _work(self._session, theirs)
        theirs.close()
        worker = _Worker(pid, os.pidfd_open(pid), ours)
        self._workers.append(worker)
        self._give(worker)
        self._give(worker)

    def _give(self, worker: _Worker) -> None:
        """Give a worker one more test, or tell it once that there is none."""
        if worker.is_told:
            return
        test = self._queues.take(worker.pid)
        if test is None:
            worker.is_told = True
        else:
            worker.tests.append(test)
        with suppress(BrokenPipeError):  # its end is seen elsewhere
            worker.pipe.send(test)

    def _listen(self) -> None:
        places: dict[object, _Worker] = {worker.pipe: worker for worker in self._workers}
        places |= {worker.process: worker for worker in self._workers}
        for place in wait(cast("list[Any]", list(places))):
            worker = places[place]
            if worker not in self._workers:
                continue
            with suppress(EOFError, ConnectionError):
                while worker.pipe.poll():
                    self._hear(worker, worker.pipe.recv())
            if place == worker.process:
                self._bury(worker)

    def _hear(self, worker: _Worker, report: dict[str, Any] | None) -> None:
        """Take a report, or that the first test of a worker has ended."""
        if report is None:
            worker.tests.popleft()
            if self._session.shouldfail or self._session.shouldstop:
                self._queues.clear()
            self._give(worker)
            return
        hook = self._session.config.hook
        hook.pytest_runtest_logreport(
            report=hook.pytest_report_from_serializable(config=self._session.config, data=report)
        )

    def _bury(self, worker: _Worker) -> None:
        """Put a worker away that has ended; what it should have run is run by another."""
        self._workers.remove(worker)
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        os.close(worker.process)
        worker.pipe.close()
        if not worker.tests:
            return
        self._fail(self._session.items[worker.tests.popleft()], f"the process that ran this test ended with {code}")
        self._queues.give_back(worker.tests)
        self._start()

    def _fail(self, item: pytest.Item, words: str) -> None:
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", words, "call", user_properties=item.user_properties
        )
        self._session.config.hook.pytest_runtest_logreport(report=report)


class _Reporter:
    """Sends what became of each test to the process that counts."""

    def __init__(self, config: pytest.Config, pipe: _End) -> None:
        self._config = config
        self._pipe = pipe

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._pipe.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def _work(session: pytest.Session, pipe: _End) -> NoReturn:
    """Run what comes through the pipe, in a fork, and end it."""
    code = 1
    try:
        _become_worker(session.config, pipe)
        current: int | None = pipe.recv()
        following: int | None = None if current is None else pipe.recv()
        while current is not None:
            item = session.items[current]
            after = None if following is None else session.items[following]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            pipe.send(None)
            current = following
            following = None if current is None else pipe.recv()
        code = 0
    except (EOFError, ConnectionError, KeyboardInterrupt):
        # Nobody listens any more: what fixtures have started is still put away.
        with suppress(Exception):
            cast("Any", session)._setupstate.teardown_exact(None)
    finally:
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        os._exit(code)


def _become_worker(config: pytest.Config, pipe: _End) -> None:
    """Give a fork its own capture, its own chance and nothing of its parent's to put away."""
    atexit._clear()  # pyright: ignore[reportPrivateUsage]
    random.seed()
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    capturing: Any = plugins.getplugin("capturemanager")
    if capturing is not None:
        # Libraries hold the streams that stood in for stdout and stderr when they were imported: those stay open.
        _inherited.append(capturing._global_capturing)
        capturing._global_capturing = None
        capturing.start_global_capturing()
        capturing.suspend_global_capture()
    plugins.register(_Reporter(config, pipe))


def _group(item: pytest.Item) -> Hashable:
    mark = item.get_closest_marker("together")
    return item.path if mark is None else mark.args
