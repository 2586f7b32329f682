"""A coroutine's result is handed over as it is, and nothing spells it out on the way."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unit.huginn.billing_world import billing_scripts, lines_of
from twinraven.cli import main
from twinraven.foundation.event_loop import run_to_end
from twinraven.huginn import LearningReport, RecordedCall, SessionTrace, TraceLog


class Large:
    """A result that knows how often it was spelled out."""

    spelled = 0

    def __repr__(self) -> str:
        Large.spelled += 1
        return "a long text"


@pytest.fixture(autouse=True)
def interruptible() -> Generator[None]:
    """SIGINT as in a program at a terminal: only then does asyncio put a handler of its own in place."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def _large() -> Large:
    return Large()


def test_the_result_is_returned_without_its_repr() -> None:
    """The result comes back as the object it is, and its `__repr__` is never called."""
    assert isinstance(run_to_end(_large()), Large)
    assert Large.spelled == 0


def test_an_error_comes_through() -> None:
    """What the coroutine raises is raised to the caller."""

    async def fail() -> None:
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        run_to_end(fail())


def test_a_backtest_spells_out_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`twinraven backtest` never builds the `repr` of the log it read or of what it learned."""
    spelled: list[str] = []

    def spell(value: object) -> str:
        spelled.append(type(value).__name__)
        return ""

    for kind in (TraceLog, SessionTrace, RecordedCall, LearningReport):
        monkeypatch.setattr(kind, "__repr__", spell)
    traces = tmp_path / "calls.jsonl"
    traces.write_bytes(lines_of(billing_scripts(60, seed=3)))
    assert main(["backtest", str(traces), "--output", "json"]) == 0
    assert spelled == []
