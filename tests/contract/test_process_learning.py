"""Processes and learning: what processes repeat is learned, and what was learned opens as a process and runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from tests.homes import make_home
from tests.working import FAST, reach, working
from twinraven.app import open_home
from twinraven.catalog import tool
from twinraven.foundation.ids import new_id
from twinraven.processes import Process
from twinraven.tenancy import LOCAL

RUNS = 60
PROCESS: dict[str, Any] = {
    "id": "who",
    "description": "Find a customer and load the account.",
    "initial_context": ["email"],
    "steps": [
        {
            "id": "find",
            "tool": "find_customer",
            "inputs": {"email": "{step.email}"},
            "output": {"variable": "customer"},
        },
        {
            "id": "load",
            "tool": "load_account",
            "inputs": {"account": "{step.customer.account}"},
            "output": {"variable": "account"},
        },
    ],
}


class Desk:
    """Customers and their accounts."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    @tool(effect="read")
    async def find_customer(self, email: str) -> dict[str, str]:
        """Find a customer by e-mail."""
        self.calls.append(("find_customer", email))
        return {"name": email.partition("@")[0], "account": f"A-{abs(hash(email)) % 10**9}"}

    @tool(effect="read")
    async def load_account(self, account: str) -> dict[str, str]:
        """Load an account."""
        self.calls.append(("load_account", account))
        return {"account": account, "plan": f"plan {account}"}


async def test_a_process_that_repeats_is_learned_and_opens_again(tmp_path: Path) -> None:
    """Runs of a process are sessions of the log; the tool learned from them is a process that makes the same calls."""
    desk = Desk()
    home = make_home(tmp_path, engine=FAST)
    with open_home(home, functions=[desk.find_customer, desk.load_account]) as raven:
        await raven.processes.save(Process.from_json(PROCESS), by=LOCAL)
        emails = [f"{new_id()[:9]}@example.org" for _ in range(RUNS)]
        runs = await asyncio.gather(*(raven.processes.run("who", {"email": each}, by=LOCAL) for each in emails))
        async with working(raven):
            for run in runs:
                await reach(raven, run.run_id, "succeeded", patience_s=60)
            svg = await raven.runs.draw("default", runs[0].run_id)
            await asyncio.to_thread(raven.collector.flush)
            learned = await raven.huginn.learn("default", by="ann")
            (proposal,) = learned.proposals
            await raven.registry.promote("default", proposal.tool_id, by="ann")
            opened = await raven.processes.open(proposal.tool_id, by=LOCAL, process_id="again")
            await raven.processes.save(opened.process, by=LOCAL)
            desk.calls.clear()
            (given,) = opened.process.initial_context
            again = await raven.processes.run("again", {given: "ada@example.org"}, by=LOCAL)
            await reach(raven, again.run_id, "succeeded")
    assert [name for name, _ in desk.calls] == ["find_customer", "load_account"]
    assert desk.calls[0][1] == "ada@example.org"
    assert desk.calls[1][1].startswith("A-")
    titles = [each.text or "" for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "who · succeeded"
    assert [title.endswith("; succeeded") for title in titles[1:]] == [True, True]
