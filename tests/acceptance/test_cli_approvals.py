"""`twinraven approvals` at the terminal: see what waits, look at it, say yes or no."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, home_in

TOOLS = """
from twinraven import tool

@tool(effect="write")
def pay(to: str) -> dict[str, str]:
    "Sends money."
    return {"paid": to}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "house_tools.py").write_text(TOOLS)
    rules = [{"tool": "pay", "then": "ask", "reason": "somebody must look"}]
    settings = {"tools": {"modules": ["house_tools"]}, "policy": {"rules": rules}}
    (tmp_path / "twinraven.yaml").write_text(json.dumps(settings))
    return home_in(tmp_path)


def test_a_call_is_asked_for_shown_granted_and_made(shell: Shell) -> None:
    """The refusal names the approval; list and show describe it; after the grant the same command works, once."""
    assert "no approvals" in shell.succeed("approvals", "list").err
    refused = shell.run("call", "pay", "--param", "to=eve", "--output", "json")
    error = json.loads(refused.err)["error"]
    assert (refused.code, error["code"]) == (1, "APPROVAL_PENDING")
    approval = error["details"]["approval_id"]
    assert error["fix"].startswith(f"twinraven approvals grant {approval}")
    listed = shell.succeed("approvals", "list").text
    assert [word in listed for word in (approval, "somebody must look", '{"to":"eve"}')] == [True] * 3
    shown = shell.json("approvals", "show", approval)
    assert (shown["state"], shown["arguments"], shown["covers"]) == ("pending", {"to": "eve"}, ["pay"])
    granted = shell.json("approvals", "grant", approval[:8], "--note", "fine")
    assert (granted["state"], granted["note"]) == ("granted", "fine")
    (decision,) = [entry for entry in shell.json("audit", "show") if entry["event_type"] == "approval.granted"]
    assert decision["data_json"]["by_requester"] is True
    assert shell.json("call", "pay", "--param", "to=eve") == {"paid": "eve"}
    assert shell.json("approvals", "show", approval)["state"] == "used"
    told = [line.split() for line in shell.succeed("audit", "show").text.splitlines()]
    (intended,) = [line for line in told if "call.intended" in line]
    assert ("pay" in intended, "approved" in intended, "rules[1];" in intended) == (True,) * 3
    assert shell.json("audit", "show", intended[0])["event_type"] == "call.intended"
    twice = shell.run("approvals", "deny", approval, "--output", "json")
    assert json.loads(twice.err)["error"]["code"] == "ILLEGAL_TRANSITION"
    assert shell.run("call", "pay", "--param", "to=eve").code == 1


def test_an_approval_that_is_not_there_is_said_so(shell: Shell) -> None:
    """An unknown id, or another tenant's, ends as input that cannot be tried."""
    other = shell.json("tenants", "create", "other")["tenant_id"]
    shell.run("call", "pay", "--param", "to=eve")
    (row,) = shell.json("approvals", "list")
    for arguments in (("show", "nonsense"), ("grant", row["approval_id"], "--tenant", other)):
        ended = shell.run("approvals", *arguments)
        assert (ended.code, "no approval" in ended.err) == (2, True), ended.err
