"""`twinraven inbox`, `trace`, `effects` and `wallets` at the terminal."""

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


def test_an_item_is_listed_shown_decided_on_its_hash_and_traced(shell: Shell) -> None:
    """A decision repeats the hash that was shown; the call then runs, and its trace names who let it."""
    assert "nothing waits" in shell.succeed("inbox", "list").err
    shell.run("call", "pay", "--param", "to=eve")
    (item,) = shell.json("inbox", "list")
    assert item["bound_to"][:12] in shell.succeed("inbox", "list").text
    assert shell.json("inbox", "show", item["item_id"])["evidence"]["arguments"] == {"to": "eve"}
    shown = shell.succeed("inbox", "show", item["item_id"]).text.splitlines()
    assert shown[shown.index("  arguments") + 1] == "    to  eve"
    assert any(line.strip().startswith("- name ") and line.endswith("approve") for line in shown)
    for wrong in ("short", "0" * 12):
        assert shell.run("inbox", "decide", item["item_id"], "approve", "--hash", wrong).code != 0
    decided = shell.json("inbox", "decide", item["item_id"], "approve", "--hash", item["bound_to"][:12])
    assert (decided["state"], decided["decision"]) == ("decided", "approve")
    assert shell.json("call", "pay", "--param", "to=eve") == {"paid": "eve"}
    tree = shell.succeed("trace", item["ref"]).text
    assert "approval of pay" in tree
    assert "approval.granted" in tree
    assert shell.run("trace", "nonsense").code == 2


def test_wallets_and_payments_at_the_terminal(shell: Shell) -> None:
    """A wallet is opened and funded once; a payment without a judged task is refused, and the books add up."""
    wallet = shell.json("wallets", "open", "spring", "EUR")["wallet_id"]
    for _ in range(2):
        assert shell.json("wallets", "fund", wallet, "10.00", "--key", "first")["balance"] == "10.00"
    refused = shell.run("effects", "pay", "nobody", wallet, "1.00", "EUR", "printer", "--key", "k", "--output", "json")
    assert (refused.code, json.loads(refused.err)["error"]["code"]) == (2, "NOT_FOUND")
    assert shell.json("effects", "list", "transaction") == []
    assert shell.json("wallets", "verify")["ok"] is True
    assert shell.json("wallets", "freeze", wallet)["status"] == "frozen"


def test_an_item_is_found_by_the_beginning_of_its_id(shell: Shell) -> None:
    """`show` and `decide` take the beginning of an id, with or without its kind; a hash can be too short."""
    shell.run("call", "pay", "--param", "to=eve")
    (item,) = shell.json("inbox", "list")
    for given in (item["ref"][:8], f"call:{item['ref'][:8]}"):
        assert shell.json("inbox", "show", given)["item_id"] == item["item_id"]
    refused = shell.run("inbox", "decide", item["ref"][:8], "approve", "--hash", "short")
    assert refused.code == 2
    assert "--hash: repeat at least 12 characters" in refused.err
    assert shell.json("inbox", "decide", item["ref"][:8], "deny", "--hash", item["bound_to"][:12])["decision"] == "deny"
