"""`twinraven plan` and `twinraven model` at the terminal, with a scripted model in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import COMMAND, Shell, home_in

TOOLS = """
from typing import Any
from twinraven import tool

@tool(effect="read")
def get_order(order_id: str) -> dict[str, Any]:
    "Look an order up."
    return {"order_id": order_id, "state": "late", "customer": "ann@example.org"}

@tool(effect="write")
def send_mail(to: str, text: str) -> dict[str, Any]:
    "Send an e-mail."
    return {"sent_to": to}
"""
PLAN = {
    "goal": "Tell the customer of W1001 where the order is.",
    "steps": [
        {"id": 1, "description": "Look the order up.", "tool": "getOrder", "arguments": {"order_id": "W1001"}},
        {"id": 2, "description": "Word an answer. " + "Be kind. " * 500, "agent": "llm"},
        {"id": 3, "description": "Send it.", "tool": "send_mail"},
    ],
}
ANSWERS: list[Any] = [
    {"when": {"system": "turn a request into a plan"}, "say": f"Sure:\n```json\n{json.dumps(PLAN)}\n```"},
    {"when": {"system": "fill in the arguments"}, "json": {"to": "ann@example.org", "text": "It is late."}},
    {"when": {"system": "carry out one step"}, "say": "It is late."},
    {"when": "birds", "say": "Huginn and Muninn."},
]
REQUEST = "Tell the customer of W1001 where the order is."


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    (tmp_path / "answers.json").write_text(json.dumps(ANSWERS))
    (tmp_path / "desk_tools.py").write_text(TOOLS)
    command = [str(COMMAND), "model", "serve", "answers.json", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = server.stderr.readline().split()[-1]
        settings = {
            "tools": {"modules": ["desk_tools"]},
            "model": {"name": "scripted", "url": url, "input_price": 1, "output_price": 4},
            "connectors": {"allow_private": ["127.0.0.1"]},
            "engine": {"poll_s": 0.05, "lease_s": 1},
        }
        (tmp_path / "twinraven.yaml").write_text(json.dumps(settings))
        try:
            yield home_in(tmp_path)
        finally:
            server.terminate()


@pytest.mark.req("AE-02", "AE-11")
def test_a_request_at_the_terminal(shell: Shell) -> None:
    """It is planned, carried out before one's eyes, logged line by line, and becomes a process with its inputs."""
    told = shell.succeed("plan", *REQUEST.split(), "--log", "run.jsonl").text
    assert "1  get_order: Look the order up." in told
    assert "repaired json_repair by rule" in told
    assert "completed (4 cycles, " in told
    assert " USD)" in told
    log = shell.folder / "run.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["step_number"] for line in lines] == [1, 2, 3, 4]
    fields = "step_number plan_state llm_output supervisor_actions tool_calls ttl_remaining errors timestamp"
    assert all(set(line) == set(fields.split()) for line in lines)
    [run] = shell.json("plan", "list")
    assert shell.json("plan", "show", run["run_id"])["request"] == REQUEST
    assert [json.loads(line) for line in shell.succeed("plan", "log", run["run_id"]).text.splitlines()] == lines
    # A crash in the middle of a line: the torn line goes, and the same run is logged to its end.
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) - 40])
    shell.succeed("plan", REQUEST, "--log", "run.jsonl", "--id", run["run_id"])
    assert log.read_bytes() == whole
    saved = shell.json("plan", "save", run["run_id"], "--as", "track")
    assert saved["initial_context"] == ["order_id"]
    assert saved["steps"][0]["inputs"] == {"order_id": "{step.order_id}"}
    assert saved["steps"][2]["inputs"]["to"] == "{step.r_1.customer}"
    ended = shell.json("process", "run", "track", "--param", "order_id=W7")
    assert ended["state"] == "succeeded"


@pytest.mark.req("AE-01", "AE-02", "AE-06", "AE-11")
def test_a_plan_in_a_file_and_bad_input(shell: Shell) -> None:
    """A plan is given as a file; what is wrong with it, with a time to live or a log is named, with exit code 2."""
    step = {"step_id": "1", "description": "Look.", "tool": "get_order", "arguments": {"order_id": "W1"}}
    plan = {"goal": "Look.", "steps": [step]}
    (shell.folder / "plan.json").write_text(json.dumps(plan))
    found = shell.json("plan", "run", "--file", "plan.json", "--ttl", "2")
    assert (found["status"], found["state"]["ttl_remaining"]) == ("completed", 2)
    assert shell.json("plan", "show", found["run_id"])["results"]["1"]["order_id"] == "W1"
    (shell.folder / "empty.json").write_text('{"goal": "", "steps": [{"step_id": "1", "description": "x"}]}')
    (shell.folder / "status.json").write_text(json.dumps({**plan, "steps": [{**step, "status": False}]}))
    (shell.folder / "other.txt").write_text("not a log\n")
    shell.succeed("plan", "run", "--file", "plan.json", "--log", "first.jsonl", "--id", "first")
    first = (shell.folder / "first.jsonl").read_bytes()
    for arguments, field in (
        (("--file", "empty.json"), "goal"),
        (("--file", "status.json"), "steps[0].status"),
        (("--file", "plan.json", "--ttl", "0"), "ttl"),
        (("--file", "plan.json", "--tool", "get_order", "--tool", "get_ordr"), "tools[1]"),
        (("--file", "plan.json", "--log", "other.txt"), "log"),
        (("--file", "plan.json", "--log", "first.jsonl"), "log"),
        (("--file", "plan.json", "--log", "first.jsonl", "--id", "second"), "log"),
        (("--file", "plan.json", "--log", "new.jsonl", "--detach"), "log"),
        (("--file", "nowhere.json"), "file"),
        ((), "request"),
    ):
        ended = shell.run("plan", "run", *arguments, "--output", "json")
        assert (ended.code, json.loads(ended.err)["error"]["details"]["field"]) == (2, field)
    assert (shell.folder / "first.jsonl").read_bytes() == first


def test_asking_the_model(shell: Shell) -> None:
    """`model ask` prints what the model says and records it; a script that is none is refused."""
    asked = shell.succeed("model", "ask", "Which", "birds?")
    assert asked.text == "Huginn and Muninn.\n"
    assert [event["tool_id"] for event in shell.json("events", "list")] == ["twinraven.ask_model"]
    (shell.folder / "bad.json").write_text('[{"sya": "x"}]')
    ended = shell.run("model", "serve", "bad.json")
    assert ended.code == 2
    assert "sya" in ended.err
