"""The composition root: parts are opened on first use, each once, and closed in reverse order."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.homes import opened_home
from twinraven.app import TwinRaven, load_settings
from twinraven.app.parts import Closeable, Home, LoopBound, Part


class Opened:
    """A thing that notes when it was closed."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self._log = log

    def close(self) -> None:
        self._log.append(self.name)


def home_in(folder: Path) -> Home:
    (folder / ".twinraven").mkdir()
    return Home(load_settings(folder / ".twinraven"))


def test_parts_close_in_reverse_order(tmp_path: Path) -> None:
    """What a part is built on is closed after it, whoever asked first, and a failing part keeps none from closing."""
    log: list[str] = []
    ground = Part(lambda _: Opened("ground", log))

    class Failing(Opened):
        def close(self) -> None:
            super().close()
            raise OSError("broken")

    def floor_on_ground(home: Home) -> Opened:
        ground(home)
        return Failing("floor", log)

    floor = Part(floor_on_ground)
    roof = Part(lambda home: Opened(f"roof on {floor(home).name}", log))
    home = home_in(tmp_path)
    assert roof(home) is roof(home)
    with pytest.raises(OSError, match="broken"):
        home.close()
    assert log == ["roof on floor", "floor", "ground"]


def test_a_part_is_opened_once_by_however_many_threads(tmp_path: Path) -> None:
    """Threads that ask at the same time get the same thing."""
    made: list[object] = []
    begun = threading.Barrier(4)
    part = Part(lambda _: made.append(object()) or made[-1])
    home = home_in(tmp_path)
    found: list[object] = []

    def ask() -> None:
        begun.wait()
        found.append(part(home))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == made * 4


async def test_everything_that_can_be_closed_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a home with every part open, each with a `close` or `aclose` is closed, in reverse order of opening."""
    closed: list[Any] = []
    with opened_home(tmp_path, knowledge={"graph_url": "falkor://127.0.0.1:1"}) as raven:
        for name, part in inspect.getmembers_static(TwinRaven):
            if isinstance(part, Part):
                getattr(raven, name)
        every = raven.opened

        def noted(part: Any, method: str) -> None:
            close = getattr(part, method)

            def note(*args: Any) -> Any:
                closed.append((part, method))
                return close(*args)

            monkeypatch.setattr(part, method, note)

        expected = [(part, "aclose") for part in reversed(every) if isinstance(part, LoopBound)]
        expected += [(part, "close") for part in reversed(every) if isinstance(part, Closeable)]
        for part, method in expected:
            noted(part, method)
        await raven.aclose()
        assert closed == expected
        kinds = {type(part).__name__ for part, _ in expected}
    assert kinds >= {"Collector", "SpanReceiver", "LearnedTools", "Metrics", "LearningRounds", "PythonConnector"}
    assert kinds >= {"ServiceConnectors"}
    assert not any(inspect.iscoroutinefunction(part.close) for part in every if isinstance(part, Closeable))
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_opening_a_home_opens_the_database_alone(tmp_path: Path) -> None:
    """A command that asks one question pays for no other part."""
    with opened_home(tmp_path) as raven:
        assert raven.opened == (raven.database,)


def test_a_home_that_is_not_opened_imports_no_context_but_its_settings() -> None:
    """Every command imports the composition root, so what only one part needs is imported with that part."""
    needless = ("metrics.service", "audit.service", "audit.chain", "tenancy.model", "flow.plan", "engine.worker")
    words = f"import sys, twinraven.app.home; print([n for n in {needless} if 'twinraven.' + n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", words], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
