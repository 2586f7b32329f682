"""Approval through the gateway: a client waits, a person at another process says yes, and the same call runs once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from tests.acceptance.cli import Shell
from tests.gateways import home_with, http_gateway, open_client, stdio_gateway

TOOLS = """
from pathlib import Path
from twinraven import tool

@tool(effect="write")
def pay(to: str) -> dict[str, str]:
    "Sends money."
    with Path(__file__).with_name("paid").open("a") as book:
        book.write(to + "\\n")
    return {"paid": to}

@tool(effect="read")
def peek(person: str) -> dict[str, str]:
    "Reads a file."
    return {"file": person}
"""
RULES = [{"tool": name, "then": "ask", "reason": "somebody must look"} for name in ("pay", "peek")]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A home with tools that policy asks about."""
    (tmp_path / "house_tools.py").write_text(TOOLS)
    return home_with(tmp_path, {}, tools={"modules": ["house_tools"]}, policy={"rules": RULES})


def paid(shell: Shell) -> list[str]:
    book = shell.folder / "paid"
    return book.read_text().splitlines() if book.exists() else []


def waiting(answer: types.CallToolResult) -> dict[str, Any]:
    """What a pending answer says for programs."""
    assert answer.is_error
    assert answer.meta is not None
    return {**answer.meta["twinraven/pending"], "key": answer.meta["twinraven/idempotency_key"]}


@pytest.mark.req("CH-16", "CH-22")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_grant_from_another_process_lets_the_waiting_call_run_once(shell: Shell, mode: str) -> None:
    """Pending outlives the gateway; granted at the terminal, the same call succeeds once, and the log tells why."""
    async with open_client(stdio_gateway(shell), mode=mode) as seen:
        first = waiting(await seen.call("pay", to="eve"))
        other = waiting(await seen.call("pay", to="bob"))
    async with open_client(stdio_gateway(shell), mode=mode) as seen:
        again = waiting(await seen.call("pay", to="eve"))
        assert (again["approval_id"], again["key"]) == (first["approval_id"], first["key"])
        assert other["approval_id"] != first["approval_id"]
        listed = shell.json("approvals", "list", "--state", "pending")
        (row,) = [one for one in listed if one["arguments"] == {"to": "eve"}]
        granted = shell.succeed("approvals", "grant", row["approval_id"], "--note", "ok", "--output", "json").json
        assert (row["approval_id"], granted["state"]) == (first["approval_id"], "granted")
        assert not (await seen.call("pay", to="eve")).is_error
        assert paid(shell) == ["eve"]
        assert waiting(await seen.call("pay", to="eve"))["approval_id"] != first["approval_id"]
        repeated = await seen.call("pay", meta={"twinraven/idempotency_key": first["key"]}, to="bob")
        assert (repeated.meta or {})["twinraven/error"]["code"] == "IDEMPOTENCY_CONFLICT"
    assert paid(shell) == ["eve"]
    (intended,) = [entry["id"] for entry in shell.json("audit", "show") if entry["event_type"] == "call.intended"]
    told = shell.json("audit", "show", intended)["data_json"]["approval"]
    assert (told["approval_id"], told["granted_by"]) == (first["approval_id"], granted["decided_by"])
    shell.succeed("audit", "verify")


async def test_a_no_reaches_the_client_with_its_note(shell: Shell) -> None:
    """Denied, the same call is refused with the reason; reads wait and are refused alike, over HTTP too."""
    with http_gateway(shell) as address:
        async with open_client(f"{address}/mcp") as seen:
            about = waiting(await seen.call("peek", person="eve"))
            shell.succeed("approvals", "deny", about["approval_id"], "--note", "not your business")
            refused = await seen.call("peek", person="eve")
    error = (refused.meta or {})["twinraven/error"]
    assert (error["code"], error["details"]["note"]) == ("APPROVAL_DENIED", "not your business")
