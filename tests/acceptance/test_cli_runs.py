"""`twinraven runs` and `twinraven worker` at the terminal: start work, follow it, answer it, kill who does it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import COMMAND, Shell, home_in

TOOLS = """
import os, time
from twinraven import tool

@tool(effect="write", takes_key=True)
def pay(to: str, idempotency_key: str = "") -> dict[str, str]:
    "Sends money, once for each key."
    try:
        os.close(os.open("paid-" + to, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return {"paid": to}
    while os.path.exists("hold"):
        time.sleep(0.02)
    return {"paid": to}
"""
FLOW = {
    "tool_id": "payment",
    "description": "Asks, then pays",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
    "steps": [
        {"step_index": 0, "tool_id": "person:boss", "input_mapping": {"question": "Pay?"}},
        {"step_index": 1, "tool_id": "pay", "input_mapping": {"to": "$.parameters.to"}},
    ],
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "house_tools.py").write_text(TOOLS)
    (tmp_path / "flow.json").write_text(json.dumps(FLOW))
    settings = {"tools": {"modules": ["house_tools"]}, "engine": {"poll_s": 0.05, "lease_s": 3}}
    (tmp_path / "twinraven.yaml").write_text(json.dumps(settings))
    return home_in(tmp_path)


@contextmanager
def worker(shell: Shell) -> Generator[subprocess.Popen[bytes]]:
    """A worker process that says that it is up."""
    with subprocess.Popen(
        [str(COMMAND), "worker"], cwd=shell.folder, env=shell.environment(), stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert b"is up" in process.stderr.readline()
        try:
            yield process
        finally:
            process.kill()


def until(met: Callable[[], bool]) -> None:
    """Wait for what another process does; a busy machine may take its time."""
    deadline = time.monotonic() + 120
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_for(shell: Shell, run: str, *states: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def met() -> bool:
        found.update(shell.json("runs", "show", run))
        return found["state"] in states

    until(met)
    return found


@pytest.mark.req("AD-14", "CH-16", "CH-24")
def test_a_killed_workers_run_is_taken_over(shell: Shell) -> None:
    """A worker is killed inside a call; another takes the run, sends the call under its key, and it happened once."""
    hold = shell.folder / "hold"
    hold.touch()
    run = shell.json("runs", "start", "pay", "--param", "to=eve", "--id", "r1")
    assert run["state"] == "queued"
    with worker(shell) as first:
        until((shell.folder / "paid-eve").exists)
        assert shell.json("runs", "show", "r1")["state"] == "running"
        first.send_signal(signal.SIGKILL)
        first.wait()
    hold.unlink()
    until(lambda: [job["state"] for job in shell.json("runs", "show", "r1")["jobs"]] == ["queued"])
    with worker(shell):
        found = wait_for(shell, "r1", "succeeded", "failed", "waiting")
        assert (found["state"], found["output"]) == ("succeeded", {"paid": "eve"})
        assert found["epoch"] > 1
        until(lambda: {each["status"] for each in shell.json("runs", "workers")} == {"idle", "offline"})


@pytest.mark.req("CH-20")
def test_a_run_asks_is_answered_and_cannot_be_changed_after_its_end(shell: Shell) -> None:
    """A question is shown where it is asked; the answer goes on; a worker that is told to stop ends well."""
    shell.succeed("runs", "start", "--definition", "flow.json", "--param", "to=ada", "--id", "r2")
    with worker(shell) as process:
        found = wait_for(shell, "r2", "waiting")
        assert [(wait["place"], wait["question"]["question"]) for wait in found["waits"]] == [("0", "Pay?")]
        assert "r2" in shell.succeed("runs", "list", "--state", "waiting").text
        assert "twinraven runs answer r2 0 JSON" in shell.succeed("runs", "show", "r2").text
        shell.succeed("runs", "answer", "r2", "0", "true")
        followed = shell.succeed("runs", "show", "r2", "--follow", "--output", "json")
        assert followed.json["state"] == "succeeded"
        assert "pay" in followed.err
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    for act in ("cancel", "retry", "resume"):
        refused = shell.run("runs", act, "r2", "--output", "json")
        assert json.loads(refused.err)["error"]["code"] == "ILLEGAL_TRANSITION"


def test_a_run_that_nobody_works_on_is_followed_to_its_end(shell: Shell) -> None:
    """Where no worker is heard, starting a run says so, and following it works on it."""
    started = shell.succeed("runs", "start", "pay", "--param", "to=bob", "--id", "r3", "--output", "json")
    assert started.json["state"] == "queued"
    assert "no worker is heard" in started.err
    assert "runs show r3 --follow" in started.err
    assert shell.json("runs", "show", "r3", "--follow")["output"] == {"paid": "bob"}


def test_what_cannot_be_started_is_refused(shell: Shell) -> None:
    """Unknown tools, both or neither target, and arguments that do not fit end with a code and words."""
    for arguments, code in (
        (("nothing",), "NOT_FOUND"),
        ((), "VALIDATION_FAILED"),
        (("pay",), "VALIDATION_FAILED"),
        (("pay", "--definition", "flow.json", "--param", "to=x"), "VALIDATION_FAILED"),
        (("--definition", "missing.json"), "VALIDATION_FAILED"),
        (("--definition", "twinraven.yaml"), "DEFINITION_INVALID"),
    ):
        refused = shell.run("runs", "start", *arguments, "--output", "json")
        assert (refused.code, json.loads(refused.err)["error"]["code"]) == (2, code)
