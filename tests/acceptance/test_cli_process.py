"""`twinraven process` at the terminal: the example of docs/processes.md checked, saved, drawn, run and called."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.acceptance.cli import Shell, home_in

ROOT = Path(__file__).resolve().parents[2]
TOOLS = """
from twinraven import tool

@tool(effect="read")
def get_order(order_id: str) -> dict[str, str]:
    "Looks an order up."
    return {"id": order_id, "state": "late"}

@tool(effect="write")
def add_note(order_id: str, text: str) -> dict[str, str]:
    "Writes a note."
    return {"note": text}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    page = (ROOT / "docs" / "processes.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert example is not None
    (tmp_path / "triage.yaml").write_text(example[1])
    (tmp_path / "house_tools.py").write_text(TOOLS)
    settings = {"tools": {"modules": ["house_tools"]}, "engine": {"poll_s": 0.05, "lease_s": 1}}
    (tmp_path / "twinraven.yaml").write_text(json.dumps(settings))
    return home_in(tmp_path)


@pytest.mark.req("AD-13")
def test_the_documented_process_is_saved_and_run(shell: Shell) -> None:
    """The example makes sense, is a version, can be drawn, runs without a worker about, and is called like a tool."""
    assert shell.json("process", "check", "triage.yaml")["tool_id"] == "triage"
    assert shell.json("process", "save", "triage.yaml")["version"] == 1
    drawn = ET.fromstring(shell.succeed("process", "show", "triage", "--svg").text)
    assert drawn.tag.endswith("svg")
    found = shell.json("process", "run", "triage", "--param", "order_id=W1")
    assert (found["state"], found["output"]) == ("succeeded", "Order W1 is late.")
    assert [step["output"] for step in found["steps"]][1] == {"note": "state is late"}
    assert json.loads(shell.succeed("call", "triage", "--param", "order_id=W2").text) == "Order W2 is late."


def test_a_wrong_variable_is_named(shell: Shell) -> None:
    """What is refused says where it stands and which variable it is about, and changes nothing."""
    file = shell.folder / "triage.yaml"
    file.write_text(file.read_text().replace('{step.order.state}"}', '{step.ordr.state}"}'))
    refused = shell.run("process", "save", "triage.yaml", "--output", "json")
    error = json.loads(refused.err)["error"]
    assert (error["code"], error["details"]) == (
        "DEFINITION_INVALID",
        {"field": "steps[1].inputs.text", "variable": "ordr"},
    )
    assert shell.json("process", "list") == []


def test_a_step_that_asks_a_person_first_is_shown_as_such(shell: Shell) -> None:
    """Whoever looks at a process sees which of its steps wait for a person."""
    file = shell.folder / "triage.yaml"
    file.write_text(file.read_text().replace("timeout: 5000}", "timeout: 5000, interaction_mode: manual}"))
    shell.succeed("process", "save", "triage.yaml")
    rows = shell.succeed("process", "show", "triage").text.splitlines()
    assert ["manual" in row for row in rows if row.startswith(("look ", "note "))] == [False, True]


def test_a_process_may_call_tools_that_were_made_at_the_terminal(shell: Shell) -> None:
    """What the terminal defines is its own user's, so processes saved and forks made there may call it."""
    described = {
        "openapi": "3.0.0",
        "info": {"title": "shop", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/orders": {"get": {"operationId": "list_orders", "responses": {"200": {"description": "all"}}}}},
    }
    (shell.folder / "shop.json").write_text(json.dumps(described))
    shell.succeed("services", "import-openapi", "shop.json", "--name", "shop")
    step = {"id": "all", "tool": "list_orders", "output": {"variable": "orders"}}
    (shell.folder / "orders.json").write_text(json.dumps({"id": "orders", "description": "All.", "steps": [step]}))
    saved = shell.json("process", "save", "orders.json")
    run = shell.json("process", "run", "orders", "--detach")
    fork = shell.json("runs", "fork", run["run_id"], "all")
    assert saved["owner_id"] == run["caller"] == fork["caller"]


def test_an_expression_without_quotes_says_so(shell: Shell) -> None:
    """In YAML `{step.x}` without quotes is an object; whoever forgets them is told what to write."""
    file = shell.folder / "triage.yaml"
    file.write_text(file.read_text().replace('{order_id: "{step.order_id}"}', "{order_id: {step.order_id}}"))
    refused = shell.run("process", "check", "triage.yaml")
    assert refused.code == 2
    assert "steps[0].inputs.order_id" in refused.err
    assert "needs quotes" in refused.err
