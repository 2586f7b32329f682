"""A home with a log whose every figure is known, and the command in it, run in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from tests.homes import make_home
from twinraven import tool
from twinraven.app import open_home
from twinraven.cli import main
from twinraven.foundation.clock import utc_now
from twinraven.muninn import Receipt


@tool(effect="read")
def find_customer(email: str) -> dict[str, Any]:
    """Find a customer by e-mail."""
    return {"customer": {"id": f"C-{email}"}}


@tool(effect="read")
def load_customer(customer_id: str) -> dict[str, Any]:
    """A customer with its account."""
    return {"account": {"number": f"A-{customer_id}"}}


@tool(effect="read")
def get_balance(account: str) -> dict[str, Any]:
    """What is on an account."""
    return {"account": account, "balance": 7}


@dataclass(frozen=True, slots=True)
class Step:
    """One call to record; `gap_s` is the idle time before it."""

    tool: str
    params: dict[str, Any]
    output: Any = None
    latency_ms: int = 10
    tags: tuple[str, ...] = ()
    gap_s: float = 1.0
    raised: bool = False
    outside_input: str | None = None
    time_known: bool = True


class Desk:
    """A home from a `twinraven.yaml`, and the command in it."""

    def __init__(self, folder: Path, **sections: Any) -> None:
        self.folder = folder
        self.home = make_home(folder)
        self.configure(**sections)

    def configure(self, **sections: Any) -> None:
        """Write the settings anew."""
        modules = {"tools": {"modules": [__name__]}}
        (self.folder / "twinraven.yaml").write_text(json.dumps({**modules, **sections}))

    def record(
        self,
        session_id: str,
        steps: Sequence[Step],
        *,
        outcome: str = "success",
        task: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """One session, each call after the one before; by default an hour ago."""
        self.record_all([(session_id, steps)], outcome=outcome, task=task, at=at)

    def record_all(
        self,
        sessions: Sequence[tuple[str, Sequence[Step]]],
        *,
        outcome: str = "success",
        task: str | None = None,
        tasks: int = 0,
        at: datetime | None = None,
    ) -> None:
        """Several sessions in one opening of the home; with `tasks`, dealt out to so many."""
        with open_home(self.home) as raven:
            for number, (session_id, steps) in enumerate(sessions):
                moment = at or utc_now() - timedelta(hours=1)
                named = f"task-{number % tasks}" if tasks else task
                with raven.collector.observe(session_id, task_id=named) as session:
                    receipts: list[Receipt] = []
                    for step in steps:
                        moment += timedelta(seconds=step.gap_s)
                        receipt = session.record(
                            step.tool,
                            step.params,
                            output=step.output,
                            latency_ms=step.latency_ms,
                            outcome=outcome,
                            timestamp=moment,
                            tags=step.tags,
                            raised=step.raised,
                            outside_input=step.outside_input,
                            time_known=step.time_known,
                        )
                        receipts.append(receipt)
                        moment += timedelta(milliseconds=step.latency_ms)
                    for receipt in receipts:
                        receipt.result()

    def run(self, *arguments: str, code: int = 0) -> str:
        """What a command prints."""
        raw = BytesIO()
        out = TextIOWrapper(raw, encoding="utf-8", write_through=True)
        with redirect_stdout(out):
            assert main([*arguments, "--home", str(self.home)]) == code
        out.flush()
        return raw.getvalue().decode()

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a command prints as JSON."""
        return json.loads(self.run(*arguments, "--output", "json", code=code))

    def mine(self, *arguments: str) -> dict[tuple[str, ...], dict[str, Any]]:
        """The mined chains, by their tools, the most valuable first."""
        return {tuple(chain["tools"]): chain for chain in self.json("mine", *arguments)}


def figures(chain: dict[str, Any]) -> dict[str, Any]:
    """A chain without what must differ between two runs."""
    return {name: chain[name] for name in chain if name not in ("chain_id", "discovered_at")}


def customer_steps(number: int, *, then: Sequence[Step] = ()) -> list[Step]:
    """A customer is found and loaded, its balance read: each step takes what the one before answered."""
    email, customer, account = f"u{number}@mail.test", f"C-{number:05}", f"A-{number * 7:05}"
    return [
        Step("find_customer", {"email": email}, {"customer": {"id": customer}}),
        Step("load_customer", {"customer_id": customer}, {"account": {"number": account}}),
        Step("get_balance", {"account": account}, {"account": account, "balance": number}),
        *then,
    ]
