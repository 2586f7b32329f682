"""Tells the story of a governed campaign, step by step, and checks what it claims."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from examples.governed_campaign.studio import TOOLS
from twinraven.app import TwinRaven, open_home
from twinraven.effects import PaymentRequest, PublishRequest
from twinraven.governance import Campaign, Goal, Task
from twinraven.inbox import InboxAnswer
from twinraven.tenancy import LOCAL, Principal
from twinraven.tracing import draw_trace, trace_lines

SETTINGS: dict[str, Any] = {
    "policy": {
        "checks": [
            {"check": "no-promises", "text": "guaranteed (profit|returns)", "then": "reject", "action": "edit"},
            {"check": "sure-enough", "confidence_below": 0.5, "then": "escalate", "reason": "the agent is not sure"},
        ]
    },
    "effects": {
        "disclosure": "Drafted with AI, read by people.",
        "providers": [{"name": "bank", "folder": "bank", "kinds": ["transaction"]}],
        "first_pause_s": 0.1,
    },
    "engine": {"lease_s": 1.0, "poll_s": 0.05},
}
APPROVER = Principal("default", "olivia", "approver")
PATIENCE_S = 600
"""How long a busy machine may take for what takes a second on an idle one."""
_OPEN = ("scheduled", "approved", "pending", "sending")


class Story:
    """One campaign from its goals to the trace of its payment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = folder / ".twinraven"

    async def run(self) -> None:
        """Tell it."""
        if self._home.exists():
            raise SystemExit(f"{self._folder} has a story already; remove it, or name another folder (ARGS=FOLDER)")
        self._home.mkdir(parents=True, mode=0o700)
        (self._folder / "twinraven.yaml").write_text(json.dumps(SETTINGS))
        with open_home(self._home, functions=TOOLS) as raven:
            campaign, goal = await self._begin(raven)
            draft, invoice = await self._plan_and_work(raven, goal)
            await self._ask_a_person(raven, invoice)
            await self._publish(raven, draft)
            payment = await self._pay(raven, campaign, invoice)
            await self._replay(raven, draft, payment)
            await self._explain(raven)

    async def _begin(self, raven: TwinRaven) -> tuple[Campaign, Goal]:
        campaign = await raven.campaigns.create("Spring issue", by=LOCAL)
        goal = await raven.campaigns.add_goal(
            campaign.campaign_id, "Announce the spring issue and pay for it", by=LOCAL
        )
        say(f"1. A campaign: {campaign.name}. Its goal: {goal.description}.")
        return campaign, goal

    async def _plan_and_work(self, raven: TwinRaven, goal: Goal) -> tuple[Task, Task]:
        tasks = [
            task("draft", "content_generation", "Draft the announcement", "draft_post", topic="Spring"),
            task("invoice", "commerce", "Check the printer's invoice 2026-7", "check_invoice", number="2026-7"),
        ]
        draft, invoice = await raven.planner.plan(goal.goal_id, tasks, by=LOCAL)
        async with raven.working(), asyncio.timeout(PATIENCE_S):
            while await raven.tasks.are_moving("default"):  # noqa: ASYNC110 - what it asks sets no event
                await asyncio.sleep(0.05)
        for each in (draft, invoice):
            found = await raven.tasks.get("default", each.task_id)
            words = " → ".join(decision.decision for decision in found.decisions)
            say(f"2. {found.task.spec_json['description']}: {words}; the task is {found.task.status}.")
        return draft, invoice

    async def _ask_a_person(self, raven: TwinRaven, invoice: Task) -> None:
        try:
            await raven.effects.publish(PublishRequest(invoice.task_id, "blog", "too early", "early"), by=LOCAL)
        except Exception as error:  # noqa: BLE001 - the story shows whatever refuses it
            say(f"3. Before anybody decided, nothing leaves the house: {error}.")
        (item,) = await raven.inbox.list(by=APPROVER)
        say(f"   The inbox asks {APPROVER.user_id}: {item.what}, because {item.why} [{item.bound_to[:12]}].")
        said = InboxAnswer("approve", item.bound_to, note="the difference is a rounding, I called the printer")
        decided = await raven.inbox.decide(item.item_id, said, by=APPROVER)
        say(f"   {decided.decided_by} decided: {decided.decision}.")

    async def _publish(self, raven: TwinRaven, draft: Task) -> None:
        wish = PublishRequest(draft.task_id, "blog", "Spring: what we learned in a year of print.", "spring-post")
        made = await raven.effects.publish(wish, by=LOCAL)
        async with raven.working():
            done = await settled(raven, "publish", made.as_json()["publish_id"])
        say(f"4. Published on {done['channel']} ({done['status']}), with disclosure: {done['disclosure_applied']}.")

    async def _pay(self, raven: TwinRaven, campaign: Campaign, invoice: Task) -> PaymentRequest:
        budget = await raven.campaigns.add_budget(campaign.campaign_id, total="500.00", currency="EUR", by=LOCAL)
        opened = await raven.wallets.open(campaign.campaign_id, "EUR", by=LOCAL, kind="commerce", provider="bank")
        wallet_id = opened.wallet.wallet_id
        await raven.wallets.fund(wallet_id, "1000.00", key="opening", by=LOCAL)
        wish = PaymentRequest(
            invoice.task_id, wallet_id, "240.00", "EUR", "Printer & Co", "invoice-2026-7", budget_id=budget.budget_id
        )
        made = (await raven.effects.pay(wish, by=LOCAL)).as_json()
        command = [sys.executable, "-m", "examples.governed_campaign.doomed_worker", str(self._home)]
        died = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True)
        now = (await raven.effects.get("transaction", made["transaction_id"], by=LOCAL)).as_json()
        say(f"5. A worker was killed in mid-payment (signal {-died.returncode}); the payment is {now['status']}.")
        async with raven.working():
            done = await settled(raven, "transaction", made["transaction_id"])
        shown = (await raven.wallets.get("default", wallet_id)).as_json()
        say(
            f"   Another worker asked the bank before it sent anything: {done['status']}, {len(self._orders())} order "
            f"at the bank, {shown['balance']} EUR left and {shown['held']} held."
        )
        return wish

    async def _replay(self, raven: TwinRaven, draft: Task, payment: PaymentRequest) -> None:
        before = len(self._orders()), len(self._posts())
        wish = PublishRequest(draft.task_id, "blog", "Spring: what we learned in a year of print.", "spring-post")
        for _ in range(3):
            await raven.effects.publish(wish, by=LOCAL)
            await raven.effects.pay(payment, by=LOCAL)
        async with raven.working():
            await asyncio.sleep(0.5)
        after = len(self._orders()), len(self._posts())
        say(f"6. The same wishes three times more: {after[0]} order and {after[1]} post, as before: {before == after}.")

    async def _explain(self, raven: TwinRaven) -> None:
        books, chain = await raven.ledger.verify("default"), await raven.audit.verify("default")
        say(f"7. The books add up to {books.sums}; the audit chain of {chain.entries} entries verifies: {chain.ok}.")
        trace = await raven.tracer.trace("default", "invoice-2026-7")
        (self._folder / "payment.svg").write_text(draw_trace(trace))
        say("8. Where the payment comes from, and what came of it (payment.svg has it as a picture):\n")
        for line in trace_lines(trace):
            say(f"   {line[:150]}")

    def _orders(self) -> list[Path]:
        return list((self._home / "bank").rglob("*.json"))

    def _posts(self) -> list[Path]:
        return list((self._home / "outbox").rglob("*.json"))


def task(name: str, kind: str, description: str, tool: str, **inputs: Any) -> dict[str, Any]:
    """A task of the plan that runs one tool."""
    criterion = {"id": "done", "description": "the tool answered", "check": "exists($.output)"}
    return {
        "name": name,
        "task_type": kind,
        "description": description,
        "inputs": inputs,
        "run": {"tool": tool},
        "acceptance_criteria": [criterion],
    }


async def settled(raven: TwinRaven, kind: Any, effect_id: str) -> dict[str, Any]:
    """The effect, once its delivery is over."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = (await raven.effects.get(kind, effect_id, by=LOCAL)).as_json()
            if found["status"] not in _OPEN:
                return found
            await asyncio.sleep(0.05)


def say(text: str) -> None:
    print(text, flush=True)
