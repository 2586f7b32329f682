"""Thought reads memory and never writes it, in every command that learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.desk import Desk, customer_steps
from twinraven.app import open_home
from twinraven.foundation.event_loop import run_to_end
from twinraven.storage import Transaction

_MEMORY = ("muninn_event_log", "session_verdicts", "blobs", "retention_notes")


def memory(desk: Desk) -> list[dict[str, Any]]:
    """Every row of Muninn's tables."""

    def read(tx: Transaction) -> list[dict[str, Any]]:
        return [dict(row) for table in _MEMORY for row in tx.fetch_all(f"SELECT * FROM {table}")]

    with open_home(desk.home) as raven:
        return run_to_end(raven.database.read("default", read))


@pytest.mark.req("TR-24")
def test_no_command_that_learns_writes_to_the_log(tmp_path: Path) -> None:
    """`mine`, `synthesize`, `validate`, `learn` and `maintenance` leave each row of the log as it was, and add none."""
    desk = Desk(tmp_path)
    desk.record_all([(f"s{number:03}", customer_steps(number)[:2]) for number in range(16)], tasks=8)
    desk.run("sessions", "verdict", "s001", "success")
    before = memory(desk)
    assert len(before) > 16
    chain = desk.mine()["find_customer", "load_customer"]
    assert memory(desk) == before
    name = desk.json("synthesize", chain["chain_id"])["tool_id"]
    assert memory(desk) == before
    assert desk.json("validate", name)["passed"]
    assert memory(desk) == before
    assert desk.json("learn")["sessions"] == 16
    assert memory(desk) == before
    desk.run("approve", name, "--promote")
    assert desk.json("maintenance", "run")["tools"]
    assert memory(desk) == before
