"""`twinraven campaigns`, `goals`, `tasks` and `decisions`: the ten commands of docs/governance.md at the terminal."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, home_in

ROOT = Path(__file__).resolve().parents[2]
TOOLS = """
from twinraven import tool

@tool(effect="read")
def draft(topic: str) -> dict[str, str]:
    "Write a draft."
    return {"url": "https://x", "text": f"About {topic}: guaranteed profit"}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    page = (ROOT / "docs" / "governance.md").read_text(encoding="utf-8")
    settings, plan = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "shop_tools.py").write_text(TOOLS)
    (tmp_path / "twinraven.yaml").write_text(settings)
    (tmp_path / "plan.yaml").write_text(plan)
    return home_in(tmp_path)


@pytest.mark.req("CH-07", "CH-21")
def test_the_documented_commands_bring_a_task_to_an_override(shell: Shell) -> None:
    """A plan from a file is worked on, escalated by the documented check, and approved by a person with a reason."""
    campaign = shell.json("campaigns", "create", "Spring launch")["campaign_id"]
    goal = shell.json("goals", "add", campaign, "Announce the launch")["goal_id"]
    planned = shell.json("goals", "plan", goal, "plan.yaml")
    assert [task["task_id"] for task in shell.json("goals", "plan", goal, "plan.yaml")] == [
        task["task_id"] for task in planned
    ]
    states = {task["spec_json"]["name"]: task["status"] for task in shell.json("tasks", "work")}
    assert states == {"draft": "escalated", "translate": "pending"}
    (waiting,) = shell.json("decisions", "waiting")
    assert waiting["reason_summary"] == "no-promises: promises money"
    plain = shell.run("decisions", "approve", waiting["decision_id"], "--reason", "fine", "--output", "json")
    error = json.loads(plain.err)["error"]
    assert (plain.code, error["code"], error["retryable"]) == (1, "POLICY_VIOLATION", False)
    given = ("--reason", "legal has seen it", "--override")
    decided = shell.json("decisions", "approve", waiting["decision_id"], *given)
    assert (decided["decision"], decided["override_reason"]) == ("approve", "legal has seen it")
    assert shell.json("tasks", "show", planned[0]["task_id"])["status"] == "complete"
    (ready,) = shell.json("tasks", "ready")
    assert ready["spec_json"]["name"] == "translate"
    stale = shell.run("tasks", "cancel", ready["task_id"], "--state-version", "9", "--output", "json")
    assert json.loads(stale.err)["error"]["details"]["current"] == ready["state_version"]


def test_the_how_to_pays_an_invoice(tmp_path: Path) -> None:
    """Every command of the how-to works as it stands there, with our own ledger for the bank; the invoice is paid once
    and explained."""
    page = (ROOT / "docs" / "how-to" / "let-agents-pay-invoices.md").read_text(encoding="utf-8")
    settings, plan = (textwrap.dedent(each) for each in re.findall(r" ```yaml\n(.*?) ```", page, re.DOTALL))
    (tool,) = re.findall(r" ```python\n(.*?) ```", page, re.DOTALL)
    (tmp_path / "invoice_tools.py").write_text(textwrap.dedent(tool))
    (tmp_path / "twinraven.yaml").write_text(settings.partition("effects:")[0])
    (tmp_path / "plan.yaml").write_text(plan)
    shell, known = home_in(tmp_path), dict[str, str]()
    for line in re.findall(r"\$ twinraven (.*)", page):
        words = _filled(line, known)
        if "--provider" in words:
            words = words[: words.index("--provider")]
        told = shell.json(*words)
        if words[:2] == ["goals", "plan"]:
            known["TASK"] = told[0]["task_id"]
        elif words[:2] == ["inbox", "list"]:
            (item,) = told
            known |= {"ID": item["ref"], "HASH": item["bound_to"]}
        elif words[0] in ("campaigns", "wallets", "goals") and words[1] in ("create", "open", "add"):
            known[words[0][:-1].upper()] = told[f"{words[0][:-1]}_id"]
        elif words[:2] == ["effects", "pay"]:
            assert shell.json(*words)["transaction_id"] == told["transaction_id"]
        elif words[0] == "trace":
            kinds = {node["kind"] for node in told["nodes"]}
            assert kinds >= {"transaction", "judge_decision", "worker_result", "task", "goal", "campaign"}
        elif words[1] == "verify":
            assert told["ok"] is True


def _filled(line: str, known: dict[str, str]) -> list[str]:
    """The words of a command, with ids for the names that stand for them."""
    for name, value in known.items():
        line = re.sub(rf"\b{name}\b", value, line)
    return shlex.split(line)
